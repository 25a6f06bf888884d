package iceberg_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/iceberg-go/table"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/storage"
)

// pair is two tables that a checkpoint changes together.
type pair struct {
	*env
	one, two formats.TableRef
	rows     map[string]contents
	files    map[string]formats.DataFile
}

func newPair(e *env) *pair {
	p := &pair{env: e, one: e.create("public", "one"), two: e.create("public", "two"), rows: map[string]contents{}, files: map[string]formats.DataFile{}}
	for _, ref := range []formats.TableRef{p.one, p.two} {
		p.files[ref.ID] = e.rows(ref, 0, 10, "a")
		p.rows[ref.ID] = contents{}.fill(0, 10, "a")
	}
	e.commit(p.adds(p.files)...)
	return p
}

func (p *pair) adds(files map[string]formats.DataFile) []formats.TableChange {
	return []formats.TableChange{
		{Table: p.one, Add: []formats.DataFile{files[p.one.ID]}},
		{Table: p.two, Add: []formats.DataFile{files[p.two.ID]}},
	}
}

// step makes a checkpoint that adds a file to each table and deletes a row of each, and what they hold after it.
func (p *pair) step(from int64) (*formats.Checkpoint, map[string]contents) {
	files, after := map[string]formats.DataFile{}, map[string]contents{}
	for _, ref := range []formats.TableRef{p.one, p.two} {
		files[ref.ID] = p.env.rows(ref, from, 1, "b")
		after[ref.ID] = contents{}.with(p.rows[ref.ID]).fill(from, 1, "b").drop(from % 10)
	}
	changes := p.adds(files)
	for i := range changes {
		ref := changes[i].Table
		changes[i].Deletes = map[string]*roaring.Bitmap{p.files[ref.ID].Path: positions(uint32(from % 10))}
		if p.cfg.Mode == iceberg.MergeOnRead && from%2 == 0 { // else by position
			changes[i].Keyed, changes[i].Keys = changes[i].Deletes, []formats.KeyFile{p.keys(ref, from%10)}
		}
	}
	return p.next(changes...), after
}

func (c contents) with(other contents) contents {
	for id, v := range other {
		c[id] = v
	}
	return c
}

// verify reads both tables and the state, which must be that of checkpoint n.
func (p *pair) verify(n int64) {
	p.Helper()
	view := must[*formats.View](p)(p.reader().Current(p.ctx))
	if view.Checkpoint != n {
		p.Fatalf("the lake is at checkpoint %d, want %d", view.Checkpoint, n)
	}
	p.check(p.one.Name, p.rows[p.one.ID])
	p.check(p.two.Name, p.rows[p.two.ID])
}

func TestFailureOfAnySinglePutMovesNothing(t *testing.T) {
	failEachPut(t, iceberg.DeletionVectors, "-deletes.puffin", "-m0.avro", "-m1.avro", "/snap-", ".metadata.json")
}

func TestFailureOfAnySinglePutMovesNothingInMergeOnRead(t *testing.T) {
	failEachPut(t, iceberg.MergeOnRead, "-m0.avro", "-m1.avro", "/snap-", ".metadata.json")
}

// failEachPut fails the put of each kind of file of a checkpoint, before and after it is done.
func failEachPut(t *testing.T, mode iceberg.Mode, kinds ...string) {
	var faulty *storage.Faulty
	p := newPair(newEnv(t, func(cfg *iceberg.Config) {
		faulty = storage.NewFaulty(cfg.Store)
		cfg.Store, cfg.Mode, cfg.FollowsRewrites = faulty, mode, true
	}))
	p.verify(3)
	from := int64(10)
	for _, kind := range kinds {
		for _, lost := range []bool{false, true} {
			cp, after := p.step(from)
			rule := &storage.Rule{Operations: []storage.Operation{storage.OpPut}, Contains: kind, Skip: 1, Times: 1, Done: lost}
			faulty.Break(rule)
			err := p.send(cp)
			if !errors.Is(err, storage.ErrInjected) || faulty.Hits(rule) != 1 {
				t.Fatalf("%s: %v after %d hits", kind, err, faulty.Hits(rule))
			}
			faulty.Heal()
			p.verify(cp.Number - 1)
			if err := p.send(cp); err != nil { // the very same checkpoint
				t.Fatalf("%s, again: %v", kind, err)
			}
			p.rows = after
			p.verify(cp.Number)
			from++
		}
	}
}

func TestStalledStoreEndsWithTheContext(t *testing.T) {
	for _, mode := range []iceberg.Mode{iceberg.DeletionVectors, iceberg.MergeOnRead} {
		t.Run(string(mode), func(t *testing.T) { stallManifestLists(t, mode) })
	}
}

func stallManifestLists(t *testing.T, mode iceberg.Mode) {
	var faulty *storage.Faulty
	p := newPair(newEnv(t, func(cfg *iceberg.Config) {
		faulty = storage.NewFaulty(cfg.Store)
		cfg.Store, cfg.Mode, cfg.FollowsRewrites = faulty, mode, true
	}))
	cp, after := p.step(10)
	stalled := &storage.Rule{Operations: []storage.Operation{storage.OpPut}, Contains: "/snap-", Stall: make(chan struct{})}
	faulty.Break(stalled)
	ctx, cancel := context.WithCancelCause(p.ctx)
	stop := errors.New("shutting down")
	go func() {
		defer cancel(stop)
		eventually(t, "both manifest lists are on their way", func() bool { return faulty.Hits(stalled) == 2 })
	}()
	if err := p.lake.Commit(ctx, cp); !errors.Is(err, stop) {
		t.Fatalf("got %v", err)
	}
	faulty.Heal()
	p.verify(3)
	if err := p.send(cp); err != nil {
		t.Fatal(err)
	}
	p.rows = after
	p.verify(4)
}

func eventually(t testing.TB, what string, condition func() bool) {
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Errorf("waited in vain until %s", what)
			return
		}
	}
}

func TestFailureAtEachPointIsAllOrNothing(t *testing.T) {
	for _, mode := range []iceberg.Mode{iceberg.DeletionVectors, iceberg.MergeOnRead} {
		t.Run(string(mode), func(t *testing.T) { failEachPoint(t, mode) })
	}
}

func failEachPoint(t *testing.T, mode iceberg.Mode) {
	var fail string
	injected := errors.New("injected")
	p := newPair(newEnv(t, func(cfg *iceberg.Config) {
		cfg.Mode, cfg.FollowsRewrites = mode, true
		cfg.Failpoint = func(point string) error {
			if point == fail {
				fail = ""
				return injected
			}
			return nil
		}
	}))
	from := int64(10)
	for _, point := range []string{iceberg.FilesPut, iceberg.MetadataPut, iceberg.SwapSent} {
		cp, after := p.step(from)
		fail = point
		if err := p.send(cp); !errors.Is(err, injected) {
			t.Fatalf("%s: %v", point, err)
		}
		p.verify(cp.Number - 1)
		if err := p.send(cp); err != nil {
			t.Fatalf("%s, again: %v", point, err)
		}
		p.rows = after
		p.verify(cp.Number)
		from++
	}
	// The COMMIT was made and its answer lost: found out by the attempt's uuid, and not made twice.
	cp, after := p.step(from)
	fail = iceberg.SwapDone
	if err := p.send(cp); err != nil {
		t.Fatal(err)
	}
	p.rows = after
	p.verify(cp.Number)
	cp, p.rows = p.step(from + 1)
	if err := p.send(cp); err != nil {
		t.Fatal(err)
	}
	p.verify(cp.Number)
}

// TestUnresolvedCommitIsNeverGuessed loses the answer of a COMMIT and then the way to ask for it.
func TestUnresolvedCommitIsNeverGuessed(t *testing.T) {
	defer iceberg.SetResolveTime(50 * time.Millisecond)()
	for _, made := range []bool{true, false} {
		var fail string
		var blocker *sql.Conn
		e := newEnv(t, func(cfg *iceberg.Config) {
			cfg.Failpoint = func(point string) error {
				if point != fail {
					return nil
				}
				fail = ""
				// From now on the catalog is locked by somebody else.
				db := must[*sql.DB](t)(sql.Open("sqlite", "file:"+cfg.Catalog[len("sqlite://"):]))
				t.Cleanup(func() { db.Close() })
				blocker = must[*sql.Conn](t)(db.Conn(context.Background()))
				if _, err := blocker.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
					t.Fatal(err)
				}
				return errors.New("connection lost")
			}
		})
		p := newPair(e)
		cp, after := p.step(10)
		fail = iceberg.SwapDone
		if err := p.send(cp); err == nil || !strings.Contains(err.Error(), "find out") {
			t.Fatalf("got %v", err)
		}
		if !made { // as if the COMMIT had not been made: put the attempt's mark and state back
			for _, q := range []string{`UPDATE streambed_state SET checkpoint = checkpoint - 1, position = position - 100, attempt = 'before'`,
				`UPDATE iceberg_tables SET metadata_location = previous_metadata_location`,
				`DELETE FROM streambed_checkpoints WHERE checkpoint = 4`} {
				if _, err := blocker.ExecContext(context.Background(), q); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := blocker.ExecContext(context.Background(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		if err := p.send(cp); err != nil { // the same checkpoint again: made already, or made now
			t.Fatalf("made %v: %v", made, err)
		}
		p.rows = after
		p.verify(4)
		cp, p.rows = p.step(11)
		if err := p.send(cp); err != nil {
			t.Fatal(err)
		}
		p.verify(5)
	}
}

func TestForeignWriteIsRefusedThenFollowed(t *testing.T) {
	p := newPair(newEnv(t))
	r := p.reader()
	must[*formats.View](t)(r.Current(p.ctx))
	// Another program appends to one of the tables through the catalog.
	st := p.stock(p.two.Name)
	foreign := p.env.rows(p.two, 100, 1, "foreign")
	tx := st.NewTransaction()
	if err := tx.AddFiles(p.ctx, []string{foreign.Path}, nil, false); err != nil {
		t.Fatal(err)
	}
	must[*table.Table](t)(tx.Commit(p.ctx))
	p.rows[p.two.ID][100] = "foreign"
	p.verify(3) // our own reader sees it too

	cp, after := p.step(10)
	after[p.two.ID][100] = "foreign"
	if err := p.send(cp); !errors.Is(err, formats.ErrForeignWrite) || !strings.Contains(err.Error(), "public.two") {
		t.Fatalf("got %v", err)
	}
	p.verify(3) // table one has not moved either
	files, _, err := p.lake.Files(p.ctx, p.two, 0)
	if err != nil || len(files) != 2 {
		t.Fatalf("the table was not read again: %d files, %v", len(files), err)
	}
	if err := p.send(cp); err != nil {
		t.Fatal(err)
	}
	p.rows = after
	p.verify(4)
	past := must[*formats.View](t)(r.At(p.ctx, must[*formats.View](t)(r.Current(p.ctx)), formats.Point{Checkpoint: 3}))
	equal(t, p.scan(r, past, p.two.Name), contents{}.fill(0, 10, "a").fill(100, 1, "foreign"))

	// The same while this pipeline is down: the next start goes on from the foreign version.
	st = p.stock(p.two.Name)
	foreign = p.env.rows(p.two, 101, 1, "foreign")
	tx = st.NewTransaction()
	if err := tx.AddFiles(p.ctx, []string{foreign.Path}, nil, false); err != nil {
		t.Fatal(err)
	}
	must[*table.Table](t)(tx.Commit(p.ctx))
	p.open()
	cp, p.rows = p.step(11)
	p.rows[p.two.ID][101] = "foreign"
	if err := p.send(cp); err != nil {
		t.Fatal(err)
	}
	p.verify(5)
}

func TestForeignTableOfTheSameNameIsNotReplaced(t *testing.T) {
	e := newEnv(t)
	other := newOther(e)
	theirs := other.create("public", "orders")
	ref := e.lake.NewTable(theirs.Name)
	err := e.send(e.next(formats.TableChange{Table: ref, Create: true, Publish: true, Schema: simpleSchema()}))
	if !errors.Is(err, formats.ErrForeignWrite) {
		t.Fatalf("got %v", err)
	}
	other.check(theirs.Name, contents{})
}

// newOther is another pipeline in the same catalog and warehouse.
func newOther(e *env) *env {
	other := *e
	other.cfg.Pipeline = "other"
	other.open()
	return &other
}
