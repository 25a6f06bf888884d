package ducklake_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/conformance"
	"github.com/streambed/streambed/formats/ducklake"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
)

// flat are the types that can be inlined.
func flat() []values {
	return slices.DeleteFunc(slices.Clone(everyType), func(v values) bool { return types.Lake(v.pg, types.Options{}, false).Nested() })
}

// TestInlinedValuesOfEveryTypeReadExactly has DuckDB read every type that is inlined, and filter by it.
func TestInlinedValuesOfEveryTypeReadExactly(t *testing.T) { typesRead(t, inlining, flat()) }

func TestInlinedValuesOfEveryTypeReadExactlyOnPostgres(t *testing.T) {
	typesRead(t, inlined(onPostgres(t)), flat())
}

// TestSmallCutsStoreNothing: inserts, and changes of inlined rows, put no object at all; what DuckDB finds is all there.
func TestSmallCutsStoreNothing(t *testing.T) {
	var counting *storage.Counting
	e := newEnv(t, func(cfg *ducklake.Config) {
		counting = storage.NewCounting(cfg.Store.(*ducklake.Store).Store)
		cfg.Store = ducklake.NewStore(counting, ducklake.Inlining{Rows: 50})
	})
	before := counting.Counts()
	ref := e.lake.NewTable(formats.TableName{Schema: "public", Table: "small"})
	first := e.file(ref, rows(0, 10, "a"))
	e.commit(formats.TableChange{Table: ref, Create: true, Publish: true, Schema: conformance.NewSchema(), Add: []formats.DataFile{first}})
	second := e.file(ref, rows(10, 10, "b"))
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{second},
		Deletes: map[string]*roaring.Bitmap{first.Path: roaring.BitmapOf(0, 3), second.Path: roaring.BitmapOf(9)}})
	if n := counting.Counts().Minus(before).Puts; n != 0 {
		t.Errorf("%d objects were stored, want none", n)
	}
	large := e.file(ref, rows(100, 51, "c"))
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{large}})
	if n := counting.Counts().Minus(before).Puts; n != 1 {
		t.Errorf("%d objects were stored with the file that is too large, want 1", n)
	}
	want := rows(100, 51, "c")
	for key := range rows(0, 19, "") {
		if value := map[bool]string{true: "a", false: "b"}[key < 10]; key != 0 && key != 3 {
			want[key] = conformance.Row{2: value}
		}
	}
	for range 2 {
		view := e.view()
		got, schema := conformance.Read(t, e.lake.Reader(), e.cfg.Store, view, ref.Name)
		if g, w := render(got, schema), render(want, schema); g != w {
			t.Fatalf("read\n%swant\n%s", g, w)
		}
		d := newDuckDB(t, e.cfg)
		if g, w := d.read(view, &view.Tables[0]), render(want, schema); g != w {
			t.Fatalf("DuckDB reads\n%swant\n%s", g, w)
		}
		files, _, err := e.lake.Files(e.ctx, ref, 0)
		if err != nil {
			t.Fatal(err)
		}
		live := uint64(0)
		for _, f := range files {
			live += uint64(f.Rows)
			if f.Deleted != nil {
				live -= f.Deleted.GetCardinality()
			}
		}
		if len(files) != 3 || live != uint64(len(want)) {
			t.Fatalf("%d files with %d live rows", len(files), live)
		}
		e.open() // from the catalog again
	}
}

// inlined makes lakes inline their small cuts.
func inlined(config func(testing.TB) ducklake.Config) func(testing.TB) ducklake.Config {
	return func(t testing.TB) ducklake.Config {
		cfg := config(t)
		cfg.Store = ducklake.NewStore(cfg.Store.(*ducklake.Store).Store, ducklake.Inlining{})
		return cfg
	}
}

func TestDuckDBsFlushIsFollowed(t *testing.T) { flushIsFollowed(t, inlining) }

func TestDuckDBsFlushIsFollowedOnPostgres(t *testing.T) { flushIsFollowed(t, inlined(onPostgres(t))) }

// flushIsFollowed has DuckDB insert, change and flush rows that are inlined under two schema versions.
func flushIsFollowed(t *testing.T, config func(testing.TB) ducklake.Config) {
	e := newEnv(t, func(cfg *ducklake.Config) { *cfg = config(t) })
	ref := e.lake.NewTable(formats.TableName{Schema: "public", Table: "small"})
	s := conformance.NewSchema()
	e.commit(formats.TableChange{Table: ref, Create: true, Publish: true, Schema: s, Add: []formats.DataFile{e.file(ref, rows(0, 10, "a"))}})
	wider := *s
	wider.ID, wider.LastFieldID = 1, 3
	wider.Columns = append(slices.Clone(s.Columns), formats.Column{Field: types.Field{ID: 3, Name: "more", Type: types.Type{Kind: types.String}}, Attnum: 3, Source: pg(25, "text")})
	e.commit(formats.TableChange{Table: ref, Schema: &wider, Add: []formats.DataFile{conformance.WriteFile(t, e.cfg.Store, ref, &wider, rows(10, 10, "b"))}})
	d := newDuckDB(t, e.cfg)
	d.query("DETACH lake")
	attach := "'ducklake:sqlite:" + strings.TrimPrefix(e.cfg.Catalog, "sqlite://") + "'"
	if !strings.HasPrefix(e.cfg.Catalog, "sqlite:") {
		attach = "'ducklake:postgres:" + e.cfg.Catalog + "'"
	}
	d.query("ATTACH " + attach + " AS lake (DATA_INLINING_ROW_LIMIT 10)")
	want := rows(0, 10, "a")
	for key, row := range rows(10, 10, "b") {
		want[key] = row
	}
	key := int64(100)
	for i, statement := range []string{
		"INSERT INTO lake.public.small VALUES (50, 'theirs', 'x')",
		"DELETE FROM lake.public.small WHERE id = 12",
		"UPDATE lake.public.small SET val = 'changed' WHERE id = 3",
		"CALL ducklake_flush_inlined_data('lake')",
	} {
		d.query(statement)
		switch i {
		case 0:
			want[50] = conformance.Row{2: "theirs", 3: "x"}
		case 1:
			delete(want, 12)
		case 2:
			want[3] = conformance.Row{2: "changed"}
		}
		add := func() error {
			return e.send(e.next(formats.TableChange{Table: ref, Add: []formats.DataFile{conformance.WriteFile(t, e.cfg.Store, ref, &wider, rows(key, 2, "n"))}}))
		}
		if err := add(); !errors.Is(err, formats.ErrForeignWrite) {
			t.Fatalf("after %s: %v", statement, err)
		}
		if err := add(); err != nil {
			t.Fatalf("after %s: %v", statement, err)
		}
		for k, row := range rows(key, 2, "n") {
			want[k] = row
		}
		// Whoever rebuilds the key index finds each row once.
		files, sequence, err := e.lake.Files(e.ctx, ref, 0)
		if err != nil {
			t.Fatal(err)
		}
		found := conformance.Rows{}
		for _, f := range files {
			if f.Sequence > sequence {
				t.Fatalf("%s has sequence number %d of %d", f.Path, f.Sequence, sequence)
			}
			conformance.EachRow(t, e.cfg.Store, f.Path, &wider, f.Deleted, func(_ uint32, key int64, row conformance.Row) {
				if found[key] != nil {
					t.Errorf("after %s row %d is live twice", statement, key)
				}
				found[key] = row
			})
		}
		if g, w := render(found, &wider), render(want, &wider); g != w {
			t.Fatalf("after %s the lake holds\n%swant\n%s", statement, g, w)
		}
		view := e.view()
		got, schema := conformance.Read(t, e.lake.Reader(), e.cfg.Store, view, ref.Name)
		if g, w := render(got, schema), render(want, schema); g != w {
			t.Fatalf("after %s the reader sees\n%swant\n%s", statement, g, w)
		}
		if g, w := d.read(view, &view.Tables[0]), render(want, schema); g != w {
			t.Fatalf("after %s DuckDB reads\n%swant\n%s", statement, g, w)
		}
		key += 10
	}
	// Deletes go on by the positions that the rows have now.
	files, _, err := e.lake.Files(e.ctx, ref, 0)
	if err != nil {
		t.Fatal(err)
	}
	deletes := map[string]*roaring.Bitmap{}
	for _, f := range files {
		conformance.EachRow(t, e.cfg.Store, f.Path, &wider, f.Deleted, func(at uint32, key int64, _ conformance.Row) {
			if key%2 == 0 {
				if deletes[f.Path] == nil {
					deletes[f.Path] = roaring.New()
				}
				deletes[f.Path].Add(at)
				delete(want, key)
			}
		})
	}
	e.commit(formats.TableChange{Table: ref, Deletes: deletes})
	view := e.view()
	if g, w := d.read(view, &view.Tables[0]), render(want, &wider); g != w {
		t.Fatalf("after our deletes DuckDB reads\n%swant\n%s", g, w)
	}
	if n := d.value("SELECT count(*) FROM lake.public.small"); n != strconv.Itoa(len(want)) {
		t.Fatalf("DuckDB counts %s rows, want %d", n, len(want))
	}
}

// TestAnOpenDuckDBSessionFindsTheFirstInlinedRows: DuckDB keeps what it has read of a schema version, and reads a table
// here before its first rows are inlined.
func TestAnOpenDuckDBSessionFindsTheFirstInlinedRows(t *testing.T) {
	e := newEnv(t, func(cfg *ducklake.Config) { *cfg = inlining(t) })
	ref := e.lake.NewTable(formats.TableName{Schema: "public", Table: "quiet"})
	e.commit(formats.TableChange{Table: ref, Create: true, Publish: true, Schema: conformance.NewSchema()})
	d := newDuckDB(t, e.cfg)
	counts := func(want string) {
		t.Helper()
		view := e.view()
		if got := d.value("SELECT count(*) FROM " + d.name(&view.Tables[0])); got != want {
			t.Errorf("DuckDB finds %s rows, want %s", got, want)
		}
	}
	counts("0")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{e.file(ref, conformance.Rows{1: {2: "a"}, 2: {2: "b"}})}})
	counts("2")
}
