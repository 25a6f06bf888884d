package iceberg_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow/array"
	icelib "github.com/apache/iceberg-go"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
)

// compact compacts one table, with something between its two halves.
func (e *env) compact(ref formats.TableRef, between func()) ([]formats.Rewrite, error) {
	e.Helper()
	prepared := must[formats.Prepared](e)(e.lake.Prepare(e.ctx, formats.Maintenance{Task: formats.Compact, All: true, Table: &ref.Name}))
	if prepared == nil {
		e.Fatal("there is nothing to compact")
	}
	between()
	moves, _, err := prepared.Apply(e.ctx)
	return moves, err
}

// small makes a table of four files, of each of which a row is deleted.
func (e *env) small(name string) (formats.TableRef, contents) {
	e.Helper()
	ref, want := e.create("public", name), contents{}
	for i := range int64(4) {
		f := e.rows(ref, 10*i, 5, "v")
		e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{f}})
		e.commit(formats.TableChange{Table: ref, Deletes: map[string]*roaring.Bitmap{f.Path: positions(uint32(i))}})
		want.fill(10*i, 5, "v").drop(11 * i)
	}
	return ref, want
}

// TestFailedCompactionChangesNothing: whatever fails, rows stay as they are for us and for iceberg-go, and the next one
// succeeds (promises 1 and 2).
func TestFailedCompactionChangesNothing(t *testing.T) {
	for _, mode := range everyMode {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			var fail string
			injected := errors.New("injected")
			e := newEnv(t, func(cfg *iceberg.Config) {
				cfg.Mode, cfg.FollowsRewrites = mode, true
				cfg.Failpoint = func(point string) error {
					if point == fail {
						fail = ""
						return injected
					}
					return nil
				}
			})
			ref, want := e.small("t")
			for _, point := range []string{iceberg.FilesPut, iceberg.MetadataPut, iceberg.SwapSent} {
				if _, err := e.compact(ref, func() { fail = point }); !errors.Is(err, injected) {
					t.Fatalf("%s: %v", point, err)
				}
				e.check(ref.Name, want)
				e.open()
				e.check(ref.Name, want)
			}
			moves, err := e.compact(ref, func() { fail = iceberg.SwapDone }) // found out by the attempt's uuid
			if err != nil || len(moves) < 2 {
				t.Fatalf("%d files were replaced: %v", len(moves), err)
			}
			e.check(ref.Name, want)
			files, _, err := e.lake.Files(e.ctx, ref, 0)
			if err != nil || len(files) != 1 || files[0].Rows != int64(len(want)) {
				t.Fatalf("files are %v: %v", files, err)
			}
			e.open()
			e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{e.rows(ref, 100, 2, "w")},
				Deletes: map[string]*roaring.Bitmap{files[0].Path: positions(0)}})
			e.check(ref.Name, want.fill(100, 2, "w").drop(1))
		})
	}
}

// TestCompactedTablesAreRecovered: a compaction has the number of the checkpoint before it, which other tables share.
func TestCompactedTablesAreRecovered(t *testing.T) {
	e := newEnv(t)
	one, wantOne := e.small("one")
	two, wantTwo := e.small("two")
	e.commit(formats.TableChange{Table: one, Add: []formats.DataFile{e.rows(one, 100, 2, "w")}},
		formats.TableChange{Table: two, Add: []formats.DataFile{e.rows(two, 100, 2, "w")}})
	wantOne.fill(100, 2, "w")
	wantTwo.fill(100, 2, "w")
	if _, err := e.compact(one, func() {}); err != nil {
		t.Fatal(err)
	}
	for after := range int64(2) { // from the compaction itself, and from a commit after it
		if after == 1 {
			e.commit(formats.TableChange{Table: one, Add: []formats.DataFile{e.rows(one, 200, 1, "x")}})
			wantOne.fill(200, 1, "x")
			if _, err := e.compact(one, func() {}); err != nil {
				t.Fatal(err)
			}
			e.commit(formats.TableChange{Table: two, Add: []formats.DataFile{e.rows(two, 200, 1, "x")}})
			wantTwo.fill(200, 1, "x")
		}
		number := e.number
		e.loseCatalog(nil)
		if r := e.recover(); r.Dropped || r.State.Checkpoint != number {
			t.Fatalf("recovered %+v, want checkpoint %d", r, number)
		}
		e.check(one.Name, wantOne)
		e.check(two.Name, wantTwo)
	}
}

// lineage is what format 3 says of a row: its id, and the snapshot that changed it last.
type lineage struct{ id, sequence int64 }

// lineages reads the lineage of all live rows, as the specification derives it.
func (e *env) lineages(ref formats.TableRef) map[int64]lineage {
	e.Helper()
	dead := map[string]*roaring.Bitmap{}
	files, _, err := e.lake.Files(e.ctx, ref, 0)
	if err != nil {
		e.Fatal(err)
	}
	for _, f := range files {
		dead[f.Path] = f.Deleted
	}
	st := e.stock(ref.Name)
	fs := must[fsys](e)(st.FS(e.ctx))
	fields := append(simpleSchema().Fields()[:1:1], types.Field{ID: 2147483540, Name: "_row_id", Type: types.Type{Kind: types.Long}},
		types.Field{ID: 2147483539, Name: "_last_updated_sequence_number", Type: types.Type{Kind: types.Long}})
	out := map[int64]lineage{}
	for _, m := range must[manifestFiles](e)(st.CurrentSnapshot().Manifests(fs)) {
		if m.ManifestContent() != icelib.ManifestContentData {
			continue
		}
		for entry, err := range m.Entries(fs, true) {
			if err != nil {
				e.Fatal(err)
			}
			data := entry.DataFile()
			file := must[*parquet.File](e)(parquet.Open(e.ctx, must[storage.Object](e)(e.store.Open(e.ctx, data.FilePath()))))
			row := int64(0)
			for batch, err := range file.Batches(e.ctx, fields) {
				if err != nil {
					e.Fatal(err)
				}
				for i := range int(batch.NumRows()) {
					of := lineage{*data.FirstRowID() + row, entry.SequenceNum()}
					if ids := batch.Column(1).(*array.Int64); ids.IsValid(i) {
						of.id = ids.Value(i)
					}
					if sequences := batch.Column(2).(*array.Int64); sequences.IsValid(i) {
						of.sequence = sequences.Value(i)
					}
					if deleted := dead[data.FilePath()]; deleted == nil || !deleted.Contains(uint32(row)) {
						out[batch.Column(0).(*array.Int64).Value(i)] = of
					}
					row++
				}
				batch.Release()
			}
			file.Close()
		}
	}
	return out
}

// TestCompactionKeepsRowLineage: rows keep their ids and the snapshot that changed them last, also when they move again.
func TestCompactionKeepsRowLineage(t *testing.T) {
	e := newEnv(t)
	ref, want := e.small("t")
	before := e.lineages(ref)
	if len(before) != len(want) {
		t.Fatalf("%d rows have lineage, want %d", len(before), len(want))
	}
	files, _, _ := e.lake.Files(e.ctx, ref, 0)
	for round := range int64(3) {
		_, err := e.compact(ref, func() {
			if round == 0 { // by where it was
				e.commit(formats.TableChange{Table: ref, Deletes: map[string]*roaring.Bitmap{files[0].Path: roaring.AndNot(positions(0, 1, 2, 3, 4), files[0].Deleted)}})
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		now := e.lineages(ref)
		for id := range before {
			if _, live := now[id]; !live {
				want.drop(id)
				delete(before, id)
			}
		}
		if !maps.Equal(now, before) {
			t.Fatalf("round %d: lineage is %v, want %v", round, now, before)
		}
		e.check(ref.Name, want)
		e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{e.rows(ref, 100*(round+1), 3, "w")}})
		want.fill(100*(round+1), 3, "w")
		maps.Copy(before, e.lineages(ref))
	}
	if len(want) != 12+9 {
		t.Fatalf("%d rows are left", len(want))
	}
}
