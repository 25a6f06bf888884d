package iceberg_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
)

func mergeOnRead(cfg *iceberg.Config) { cfg.Mode, cfg.FollowsRewrites = iceberg.MergeOnRead, true }

// keys stores a file of keys of the simple schema, as the pipeline uploads them.
func (e *env) keys(ref formats.TableRef, ids ...int64) formats.KeyFile {
	e.Helper()
	fields := []types.Field{simpleSchema().Columns[0].Field}
	b := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(fields))
	b.Field(0).(*array.Int64Builder).AppendValues(ids, nil)
	return e.keyFile(ref, fields, b)
}

func (e *env) keyFile(ref formats.TableRef, fields []types.Field, b *array.RecordBuilder) formats.KeyFile {
	e.Helper()
	var body bytes.Buffer
	w := must[*parquet.Writer](e)(parquet.NewWriter(&body, fields, parquet.Options{}))
	if err := w.Write(b.NewRecordBatch()); err != nil {
		e.Fatal(err)
	}
	f := formats.KeyFile{DataFile: formats.DataFile{Path: ref.Location + "/data/keys-" + uuid.NewString() + ".parquet"}}
	for _, field := range fields {
		f.Fields = append(f.Fields, field.ID)
	}
	var err error
	if f.Rows, f.Size, f.Stats, err = w.Close(); err != nil {
		e.Fatal(err)
	}
	if err := e.store.Put(e.ctx, f.Path, body.Bytes()); err != nil {
		e.Fatal(err)
	}
	return f
}

// content counts the live files of a table: data, position deletes, equality deletes, vectors.
func (e *env) content(ref formats.TableRef) (out [4]int) {
	e.Helper()
	st := e.stock(ref.Name)
	snap := st.CurrentSnapshot()
	if snap == nil {
		return out
	}
	fs := must[fsys](e)(st.FS(e.ctx))
	for _, m := range must[manifestFiles](e)(snap.Manifests(fs)) {
		for entry, err := range m.Entries(fs, true) {
			if err != nil {
				e.Fatal(err)
			}
			f := entry.DataFile()
			switch {
			case f.FileFormat() == "PUFFIN":
				out[3]++
			default:
				out[int(f.ContentType())]++
			}
		}
	}
	return out
}

func TestMergeOnReadDeletesByKeyAndByPosition(t *testing.T) {
	e := newEnv(t, mergeOnRead)
	ref := e.create("public", "orders")
	a, b := e.rows(ref, 0, 5, "a"), e.rows(ref, 5, 5, "b")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{a, b}})
	// Rows 1 and 6 are updated; a first new version of 6 is superseded in the same snapshot, after its file was sealed.
	c, d := e.rows(ref, 6, 1, "c"), e.rows(ref, 6, 1, "d")
	one := e.rows(ref, 1, 1, "d")
	old := map[string]*roaring.Bitmap{a.Path: positions(1), b.Path: positions(1)}
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{c, d, one}, Keys: []formats.KeyFile{e.keys(ref, 1, 6)}, Keyed: old,
		Deletes: map[string]*roaring.Bitmap{a.Path: positions(1), b.Path: positions(1), c.Path: positions(0)}})
	want := contents{}.fill(0, 5, "a").fill(5, 5, "b").fill(6, 1, "d").fill(1, 1, "d")
	e.check(ref.Name, want)
	if got := e.content(ref); got != [4]int{4, 0, 1, 0} { // nothing was left of c
		t.Errorf("files by kind: %v", got)
	}
	// The new version of 6 goes, and another row by position alone.
	e.commit(formats.TableChange{Table: ref, Keys: []formats.KeyFile{e.keys(ref, 6)}, Keyed: map[string]*roaring.Bitmap{d.Path: positions(0)},
		Deletes: map[string]*roaring.Bitmap{d.Path: positions(0), b.Path: positions(3)}})
	e.check(ref.Name, want.drop(6, 8))
	if got := e.content(ref); got != [4]int{4, 1, 2, 0} {
		t.Errorf("files by kind: %v", got)
	}
	// A file's positions are joined in one delete file.
	e.commit(formats.TableChange{Table: ref, Deletes: map[string]*roaring.Bitmap{b.Path: positions(2)}})
	e.check(ref.Name, want.drop(7))
	if got := e.content(ref); got != [4]int{4, 1, 2, 0} {
		t.Errorf("files by kind: %v", got)
	}
	e.checkTotals(ref)
	if infos := must[[]formats.SnapshotInfo](t)(e.reader().Snapshots(e.ctx, ref.Name)); infos[len(infos)-1].Rows != int64(len(want)) || infos[len(infos)-1].Deleted != 5 {
		t.Errorf("the history ends with %+v, want %d rows", infos[len(infos)-1], len(want))
	}
	e.open() // everything must be found again
	files, _, err := e.lake.Files(e.ctx, ref, 0)
	if err != nil {
		t.Fatal(err)
	}
	deleted := map[string][]uint32{}
	for _, f := range files {
		if f.Deleted != nil {
			deleted[f.Path] = f.Deleted.ToArray()
		}
	}
	if !slices.Equal(deleted[a.Path], []uint32{1}) || !slices.Equal(deleted[b.Path], []uint32{1, 2, 3}) || !slices.Equal(deleted[d.Path], []uint32{0}) {
		t.Errorf("deleted rows %v", deleted)
	}
	// A key that comes back is not reached by older deletes of it.
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{e.rows(ref, 6, 1, "e")}})
	e.check(ref.Name, want.fill(6, 1, "e"))
	e.commit(formats.TableChange{Table: ref, Truncate: true, Add: []formats.DataFile{e.rows(ref, 1, 1, "f")}})
	e.check(ref.Name, contents{1: "f"})
	if got := e.content(ref); got != [4]int{1, 0, 0, 0} {
		t.Errorf("files by kind after TRUNCATE: %v", got)
	}
}

// TestCutsThatShareASwapAreOneSnapshot: a row that one cut adds and the next deletes by its key goes by position, for the
// key reaches only older snapshots; an older row with the key goes by the key.
func TestCutsThatShareASwapAreOneSnapshot(t *testing.T) {
	e := newEnv(t, mergeOnRead)
	ref := e.create("public", "orders")
	a := e.rows(ref, 0, 5, "a")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{a}})
	one, two := e.rows(ref, 2, 3, "one"), e.rows(ref, 2, 1, "two")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{one, two}, Keys: []formats.KeyFile{e.keys(ref, 2, 3, 4), e.keys(ref, 2, 4)},
		Deletes: map[string]*roaring.Bitmap{a.Path: positions(2, 3, 4), one.Path: positions(0, 2)},
		Keyed:   map[string]*roaring.Bitmap{a.Path: positions(2, 3, 4), one.Path: positions(0, 2)}})
	want := contents{0: "a", 1: "a", 2: "two", 3: "one"}
	e.check(ref.Name, want)
	if got := e.content(ref); got != [4]int{3, 1, 2, 0} {
		t.Errorf("files by kind: %v", got)
	}
	if infos := must[[]formats.SnapshotInfo](t)(e.reader().Snapshots(e.ctx, ref.Name)); infos[len(infos)-1].Rows != 4 {
		t.Errorf("the history ends with %+v", infos[len(infos)-1])
	}
}

// TestEqualityDeletesKeepTheirReach folds manifests many times over: sequence numbers of data and deletes must survive it.
func TestEqualityDeletesKeepTheirReach(t *testing.T) {
	e := newEnv(t, mergeOnRead)
	ref := e.create("public", "orders")
	want := contents{}
	at := map[int64]formats.DataFile{}
	for i := range int64(90) {
		id := i % 7
		f := e.rows(ref, id, 1, string(rune('a'+i%26)))
		ch := formats.TableChange{Table: ref, Add: []formats.DataFile{f}}
		if old, ok := at[id]; ok {
			ch.Keys = []formats.KeyFile{e.keys(ref, id)}
			ch.Deletes = map[string]*roaring.Bitmap{old.Path: positions(0)}
			ch.Keyed = ch.Deletes
		}
		e.commit(ch)
		at[id] = f
		want.fill(id, 1, string(rune('a'+i%26)))
		if i%30 == 29 {
			e.check(ref.Name, want)
			e.checkTotals(ref)
			e.open()
		}
	}
	e.check(ref.Name, want)
	if n := len(must[manifestFiles](t)(e.stock(ref.Name).CurrentSnapshot().Manifests(must[fsys](t)(e.stock(ref.Name).FS(e.ctx))))); n > 45 {
		t.Errorf("%d manifests", n)
	}
}

// TestDroppedKeyColumnLeavesNoEqualityDeletes: their readers would not know the column's type any more.
func TestDroppedKeyColumnLeavesNoEqualityDeletes(t *testing.T) {
	e := newEnv(t, mergeOnRead)
	ref := e.create("public", "orders")
	a := e.rows(ref, 0, 5, "a")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{a}})
	gone := map[string]*roaring.Bitmap{a.Path: positions(2)}
	e.commit(formats.TableChange{Table: ref, Deletes: gone, Keyed: gone, Keys: []formats.KeyFile{e.keys(ref, 2)}})
	s := *simpleSchema()
	s.ID, s.KeyKind, s.Key, s.Columns = 1, formats.KeyFullRow, nil, s.Columns[1:]
	more := map[string]*roaring.Bitmap{a.Path: positions(4)}
	e.commit(formats.TableChange{Table: ref, Schema: &s, Deletes: more, Keyed: more, Keys: []formats.KeyFile{e.keys(ref, 4)}})
	if got := e.content(ref); got != [4]int{1, 1, 0, 0} {
		t.Errorf("files by kind: %v", got)
	}
	r := e.reader()
	plan := must[*formats.ScanPlan](t)(r.Plan(e.ctx, must[*formats.View](t)(r.Current(e.ctx)), ref.Name))
	if len(plan.Files) != 1 || !slices.Equal(plan.Files[0].Deleted.ToArray(), []uint32{2, 4}) {
		t.Errorf("plan %+v", plan.Files)
	}
	past := must[*formats.View](t)(r.At(e.ctx, must[*formats.View](t)(r.Current(e.ctx)), formats.Point{Checkpoint: 3}))
	equal(t, e.scan(r, past, ref.Name), contents{}.fill(0, 5, "a").drop(2))
}

// TestReaderResolvesIncrementally counts what a reader in another process reads for a small commit: the keys that it
// wrote, and of the data files those whose bounds they meet.
func TestReaderResolvesIncrementally(t *testing.T) {
	e := newEnv(t, mergeOnRead)
	ref := e.create("public", "orders")
	var files []formats.DataFile
	for i := range int64(6) {
		files = append(files, e.rows(ref, i*10, 10, "a"))
	}
	e.commit(formats.TableChange{Table: ref, Add: files})
	faulty := storage.NewFaulty(e.store)
	cfg := e.cfg
	cfg.Store = faulty
	r := must[*iceberg.Reader](t)(iceberg.OpenReader(e.ctx, cfg))
	t.Cleanup(func() { r.Close() })
	want := contents{}.fill(0, 60, "a")
	for step, id := range []int64{3, 42, 45, 3} {
		if step < 3 {
			gone := map[string]*roaring.Bitmap{files[id/10].Path: positions(uint32(id % 10))}
			e.commit(formats.TableChange{Table: ref, Deletes: gone, Keyed: gone, Keys: []formats.KeyFile{e.keys(ref, id)}})
			want.drop(id)
		}
		on := make(chan struct{})
		close(on)
		opened := &storage.Rule{Operations: []storage.Operation{storage.OpOpen}, Contains: "/data/", Stall: on} // counts them
		faulty.Break(opened)
		view := must[*formats.View](t)(r.Current(e.ctx))
		plan := must[*formats.ScanPlan](t)(r.Plan(e.ctx, view, ref.Name))
		if n, most := faulty.Hits(opened), []int{2, 2, 2, 0}[step]; n != most {
			t.Errorf("step %d: %d files were opened for the plan, want %d", step, n, most)
		}
		faulty.Heal()
		left := 0
		for _, f := range plan.Files {
			left += int(f.Rows)
			if f.Deleted != nil {
				left -= int(f.Deleted.GetCardinality())
			}
		}
		if left != len(want) {
			t.Errorf("step %d: %d rows are left, want %d", step, left, len(want))
		}
		equal(t, e.scan(r, view, ref.Name), want)
	}
	// Older states need only what is known of newer ones.
	view := must[*formats.View](t)(r.Current(e.ctx))
	past := must[*formats.View](t)(r.At(e.ctx, view, formats.Point{Checkpoint: 3}))
	equal(t, e.scan(r, past, ref.Name), contents{}.fill(0, 60, "a").drop(3))
}

func TestMergeOnReadRefusesWhatItCannotDelete(t *testing.T) {
	e := newEnv(t, mergeOnRead)
	ref := e.create("public", "orders")
	a := e.rows(ref, 0, 5, "a")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{a}})
	for name, rows := range map[string]map[string]*roaring.Bitmap{
		"an unknown file":    {ref.Location + "/data/x.parquet": positions(0)},
		"a row past its end": {a.Path: positions(5)},
	} {
		var wrong *formats.TableError
		err := e.send(e.next(formats.TableChange{Table: ref, Deletes: rows, Keyed: rows, Keys: []formats.KeyFile{e.keys(ref, 1)}}))
		if !errors.As(err, &wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e.check(ref.Name, contents{}.fill(0, 5, "a"))
}
