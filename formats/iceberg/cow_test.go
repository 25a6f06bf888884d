package iceberg_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func copyOnWrite(cfg *iceberg.Config) { cfg.Mode, cfg.FollowsRewrites = iceberg.CopyOnWrite, true }

func paths(t testing.TB, e *env, ref formats.TableRef) []string {
	t.Helper()
	files, _, err := e.lake.Files(e.ctx, ref, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		if f.Deleted != nil {
			t.Fatalf("%s has deleted rows", f.Path)
		}
		out = append(out, f.Path)
	}
	return out
}

func TestCopyOnWriteTouchesOnlyWhatItMust(t *testing.T) {
	e := newEnv(t, copyOnWrite)
	ref := e.create("public", "orders")
	a, b, c := e.rows(ref, 0, 5, "a"), e.rows(ref, 5, 5, "b"), e.rows(ref, 10, 5, "c")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{a, b, c}})
	d := e.rows(ref, 20, 3, "d")
	cp := e.next(formats.TableChange{Table: ref, Add: []formats.DataFile{d}, Deletes: map[string]*roaring.Bitmap{
		a.Path: positions(1), b.Path: positions(0, 4), d.Path: positions(2)}})
	if err := e.send(cp); err != nil {
		t.Fatal(err)
	}
	e.check(ref.Name, contents{}.fill(0, 15, "a").fill(5, 5, "b").fill(10, 5, "c").fill(20, 2, "d").drop(1, 5, 9))
	live := paths(t, e, ref)
	if len(live) != 2 || !slices.Contains(live, c.Path) {
		t.Errorf("live files %q: want %s and the joined rest", live, c.Path)
	}
	st := e.stock(ref.Name)
	p := st.CurrentSnapshot().Summary.Properties
	if st.Metadata().Version() != 2 || p["deleted-data-files"] != "2" || p["added-data-files"] != "1" || p["total-records"] != "14" || p["total-delete-files"] != "0" {
		t.Errorf("format %d, summary %v", st.Metadata().Version(), p)
	}
	e.checkTotals(ref)
	e.open()
	e.commit(formats.TableChange{Table: ref, Deletes: map[string]*roaring.Bitmap{c.Path: positions(0, 1, 2, 3, 4)}})
	e.check(ref.Name, contents{}.fill(0, 5, "a").fill(6, 3, "b").fill(20, 2, "d").drop(1))
}

func TestCopyOnWriteNeedsAFollower(t *testing.T) {
	cfg := newEnv(t).cfg
	cfg.Mode = iceberg.CopyOnWrite
	if _, err := iceberg.Open(t.Context(), cfg); err == nil {
		t.Fatal("opened for a pipeline that does not follow rewrites")
	}
	r, err := iceberg.OpenReader(t.Context(), cfg) // reading needs nothing
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}

func TestCopyOnWriteJoinsUpToTheTargetSize(t *testing.T) {
	e := newEnv(t, copyOnWrite, func(cfg *iceberg.Config) { cfg.TargetFileSize = 2500 })
	ref := e.create("public", "orders")
	var files []formats.DataFile
	deletes := map[string]*roaring.Bitmap{}
	for i := range int64(9) {
		f := e.rows(ref, i*5, 5, "a")
		files = append(files, f)
		deletes[f.Path] = positions(0)
	}
	e.commit(formats.TableChange{Table: ref, Add: files})
	each := int(2500 / files[0].Size)
	if each < 2 {
		t.Fatalf("the test's files of %d bytes are too large", files[0].Size)
	}
	e.commit(formats.TableChange{Table: ref, Deletes: deletes})
	if n, want := len(paths(t, e, ref)), (9+each-1)/each; n != want {
		t.Errorf("%d files, want %d", n, want)
	}
	e.check(ref.Name, contents{}.fill(0, 45, "a").drop(0, 5, 10, 15, 20, 25, 30, 35, 40))
}

// TestCopyOnWriteWritesInTheNewSchema rewrites a file that lacks a column, in the commit that adds it and renames and
// widens others.
func TestCopyOnWriteWritesInTheNewSchema(t *testing.T) {
	e := newEnv(t, copyOnWrite)
	ref := e.create("public", "orders")
	a := e.rows(ref, 0, 3, "a")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{a}})
	s := *simpleSchema()
	s.ID, s.LastFieldID = 1, 4
	s.Columns[1].Name = "value"
	s.Columns = append(s.Columns, column(3, "note", kind(types.String), "standard"), column(4, "n", kind(types.Int), "7"))
	s.Columns[2].Source, s.Columns[3].Source = types.Postgres{OID: 25, Typmod: -1, Name: "text"}, types.Postgres{OID: 23, Typmod: -1, Name: "int4"}
	e.commit(formats.TableChange{Table: ref, Schema: &s, Deletes: map[string]*roaring.Bitmap{a.Path: positions(1)}})
	want := "id=0 value=a note=standard n=7\nid=2 value=a note=standard n=7"
	if got := stockText(t, e.stock(ref.Name)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCopyOnWriteFailureLeavesAllAsItWas(t *testing.T) {
	var faulty *storage.Faulty
	e := newEnv(t, copyOnWrite, func(cfg *iceberg.Config) {
		faulty = storage.NewFaulty(cfg.Store)
		cfg.Store = faulty
	})
	ref := e.create("public", "orders")
	a := e.rows(ref, 0, 5, "a")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{a}})
	cp := e.next(formats.TableChange{Table: ref, Deletes: map[string]*roaring.Bitmap{a.Path: positions(1)}})
	for _, rule := range []*storage.Rule{
		{Operations: []storage.Operation{storage.OpOpen}, Contains: a.Path, Times: 1},
		{Operations: []storage.Operation{storage.OpRead}, Contains: a.Path, Skip: 1, Times: 1},
		{Operations: []storage.Operation{storage.OpPut}, Contains: "/data/", Times: 1},
		{Operations: []storage.Operation{storage.OpPut}, Contains: ".metadata.json", Times: 1},
	} {
		faulty.Break(rule)
		if err := e.send(cp); !errors.Is(err, storage.ErrInjected) {
			t.Fatalf("%v %q: %v", rule.Operations, rule.Contains, err)
		}
		faulty.Heal()
		if len(cp.Rewrites) != 0 {
			t.Fatal("a commit that failed tells of rewrites")
		}
		e.check(ref.Name, contents{}.fill(0, 5, "a"))
	}
	if err := e.send(cp); err != nil || len(cp.Rewrites) != 1 {
		t.Fatalf("%v, rewrites %v", err, cp.Rewrites)
	}
	e.check(ref.Name, contents{}.fill(0, 5, "a").drop(1))
}

// TestLargeRewriteGoesByDisk rewrites a file that is taken to be too large for memory.
func TestLargeRewriteGoesByDisk(t *testing.T) {
	e := newEnv(t, copyOnWrite)
	ref := e.create("public", "orders")
	a := e.rows(ref, 0, 50_000, "a")
	a.Size = 9 << 20 // what the manifest tells decides
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{a}})
	dead := roaring.New()
	dead.AddRange(100, 40_000)
	dead.Add(49_999)
	e.commit(formats.TableChange{Table: ref, Deletes: map[string]*roaring.Bitmap{a.Path: dead}})
	want := contents{}.fill(0, 100, "a").fill(40_000, 9_999, "a")
	e.check(ref.Name, want)
}

// TestSlowRewritesAreWarnedOf lets the clock run while files are rewritten.
func TestSlowRewritesAreWarnedOf(t *testing.T) {
	core, seen := observer.New(zap.WarnLevel)
	var e *env
	takes := time.Duration(0)
	e = newEnv(t, copyOnWrite, func(cfg *iceberg.Config) {
		cfg.Log, cfg.Interval = zap.New(core), 2*time.Second
		cfg.Store = &slowOpens{Store: cfg.Store, open: func() { e.now = e.now.Add(takes) }}
	})
	ref := e.create("public", "orders")
	a := e.rows(ref, 0, 9, "a")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{a}})
	for i, step := range []struct {
		takes time.Duration
		warns int
	}{{time.Second, 0}, {3 * time.Second, 1}, {3 * time.Second, 1}, {2 * time.Minute, 2}} {
		takes = step.takes
		e.commit(formats.TableChange{Table: ref, Deletes: map[string]*roaring.Bitmap{paths(t, e, ref)[0]: positions(0)}})
		warned := seen.FilterMessageSnippet("set mode: dv").All()
		if len(warned) != step.warns {
			t.Fatalf("step %d: %d warnings, want %d: %v", i, len(warned), step.warns, warned)
		}
		for _, w := range warned {
			if w.ContextMap()["table"] != "public.orders" {
				t.Errorf("warning of %v", w.ContextMap())
			}
		}
	}
	takes = 0
	e.check(ref.Name, contents{}.fill(4, 5, "a"))
}

// slowOpens is a store that tells of each open of a data file.
type slowOpens struct {
	storage.Store
	open func()
}

func (s *slowOpens) Open(ctx context.Context, uri string) (storage.Object, error) {
	s.open()
	return s.Store.Open(ctx, uri)
}
