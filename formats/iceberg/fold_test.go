package iceberg_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	icelib "github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/dv"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/storage"
)

// manifestsOf reads the current snapshot's manifests with stock readers.
func manifestsOf(t testing.TB, st *table.Table, each func(mf icelib.ManifestFile, e icelib.ManifestEntry)) (data, deletes int) {
	t.Helper()
	fs := must[iceio.IO](t)(st.FS(t.Context()))
	for _, mf := range must[[]icelib.ManifestFile](t)(st.CurrentSnapshot().Manifests(fs)) {
		if mf.ManifestContent() == icelib.ManifestContentData {
			data++
		} else {
			deletes++
		}
		for entry, err := range mf.Entries(fs, false) {
			if err != nil {
				t.Fatal(err)
			}
			each(mf, entry)
		}
	}
	return data, deletes
}

// checkTotals recounts the current snapshot with stock readers and compares the summary and the lake's own counts.
func (e *env) checkTotals(ref formats.TableRef) {
	e.Helper()
	st := e.stock(ref.Name)
	var live []icelib.DataFile
	manifestsOf(e, st, func(_ icelib.ManifestFile, entry icelib.ManifestEntry) {
		if entry.Status() != icelib.EntryStatusDELETED {
			live = append(live, entry.DataFile())
		}
	})
	count := iceberg.Recount(live)
	if got := e.lake.Totals(ref); got != count {
		e.Fatalf("the lake counts %v, there are %v", got, count)
	}
	p := st.CurrentSnapshot().Summary.Properties
	for i, key := range []string{"total-data-files", "total-records", "total-delete-files", "total-position-deletes", "total-files-size"} {
		if p[key] != strconv.FormatInt(count[i], 10) {
			e.Fatalf("%s is %s, counted %d", key, p[key], count[i])
		}
	}
}

// TestFoldingKeepsRowLineage makes 100 commits and checks after each that no entry's numbers changed and that every
// row id is given out once.
func TestFoldingKeepsRowLineage(t *testing.T) {
	e := newEnv(t, func(cfg *iceberg.Config) { cfg.Retention.Max = 10 })
	ref := e.create("public", "orders")
	type origin struct{ first, sequence, snapshot int64 }
	rnd, want, origins := rand.New(rand.NewPCG(1, 2)), contents{}, map[string]origin{}
	var paths []string
	starts, deleted, next := map[string]int64{}, map[string]int{}, int64(0)
	for i := int64(1); i <= 100; i++ {
		n := 3 + rnd.Int64N(4)
		f := e.rows(ref, next, n, fmt.Sprint(i))
		want.fill(next, n, fmt.Sprint(i))
		ch := formats.TableChange{Table: ref, Add: []formats.DataFile{f}, Deletes: map[string]*roaring.Bitmap{}}
		if i%3 != 0 {
			for k := 0; k < 2 && len(paths) > 0; k++ {
				old := paths[rnd.IntN(len(paths))]
				ch.Deletes[old] = positions(0)
				want.drop(starts[old])
			}
			if i%2 == 0 {
				ch.Deletes[f.Path] = positions(uint32(n - 1))
				want.drop(next + n - 1)
			}
		}
		e.commit(ch)
		st := e.stock(ref.Name)
		snap := st.CurrentSnapshot()
		origins[f.Path] = origin{next, snap.SequenceNumber, snap.SnapshotID}
		paths, starts[f.Path] = append(paths, f.Path), next
		next += n
		if st.Metadata().NextRowID() != next || *snap.FirstRowID != next-n || *snap.AddedRows != n {
			t.Fatalf("commit %d: next row id %d, snapshot %d + %d, want %d", i, st.Metadata().NextRowID(), *snap.FirstRowID, *snap.AddedRows, next)
		}
		data, deletes := manifestsOf(t, st, func(_ icelib.ManifestFile, entry icelib.ManifestEntry) {
			file := entry.DataFile()
			if entry.Status() == icelib.EntryStatusDELETED && entry.SnapshotID() == snap.SnapshotID {
				offset := int64(-1)
				if file.ContentOffset() != nil {
					offset = *file.ContentOffset()
				}
				deleted[fmt.Sprint(file.FilePath(), offset)]++
			}
			if file.ContentType() != icelib.EntryContentData {
				return
			}
			snapshot := entry.SnapshotID()
			if entry.Status() == icelib.EntryStatusDELETED { // tells who removed it
				snapshot = origins[file.FilePath()].snapshot
			}
			if got := (origin{*file.FirstRowID(), entry.SequenceNum(), snapshot}); got != origins[file.FilePath()] {
				t.Fatalf("commit %d: entry of %s changed to %+v from %+v", i, file.FilePath(), got, origins[file.FilePath()])
			}
		})
		if data > 41 || deletes > 41 {
			t.Fatalf("commit %d: %d data and %d delete manifests", i, data, deletes)
		}
		if i%25 == 0 {
			e.check(ref.Name, want)
			e.checkTotals(ref)
		}
	}
	for vector, n := range deleted {
		if n != 1 {
			t.Errorf("%s was marked deleted %d times", vector, n)
		}
	}
	st := e.stock(ref.Name)
	body := must[[]byte](t)(e.store.Get(e.ctx, st.MetadataLocation()))
	if n := len(st.Metadata().Snapshots()); n != 10 || len(body) > 24_000 {
		t.Errorf("%d snapshots kept, metadata of %d bytes", n, len(body))
	}
	checkRowIDs(t, st)
	e.open() // what is read back is what was in memory
	e.commit(formats.TableChange{Table: ref, Deletes: map[string]*roaring.Bitmap{paths[0]: positions(1)}})
	e.check(ref.Name, want.drop(starts[paths[0]]+1))
	e.checkTotals(ref)
}

// checkRowIDs reads a table whose ids were given out in the order of its row ids.
func checkRowIDs(t *testing.T, st *table.Table) {
	t.Helper()
	rowIDs := must[arrow.Table](t)(st.Scan(table.WithSelectedFields("id", "_row_id")).ToArrowTable(t.Context()))
	defer rowIDs.Release()
	for r := array.NewTableReader(rowIDs, 0); r.Next(); {
		b := r.RecordBatch()
		for i := range int(b.NumRows()) {
			if id, row := b.Column(0).(*array.Int64).Value(i), b.Column(1).(*array.Int64).Value(i); id != row {
				t.Fatalf("id %d has _row_id %d", id, row)
			}
		}
	}
}

func TestSteadyCommitPutsFewAndGetsNothing(t *testing.T) {
	var counting *storage.Counting
	e := newEnv(t, func(cfg *iceberg.Config) {
		counting = storage.NewCounting(cfg.Store)
		cfg.Store = counting
	})
	ref := e.create("public", "orders")
	other := e.create("public", "items")
	a := e.rows(ref, 0, 10, "a")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{a}})
	for _, test := range []struct {
		what    string
		changes []formats.TableChange
		puts    int64
	}{
		{"manifest, list, metadata", []formats.TableChange{{Table: ref, Add: []formats.DataFile{e.rows(ref, 10, 1, "b")}}}, 3},
		{"Puffin, delete manifest, list, metadata", []formats.TableChange{{Table: ref, Deletes: map[string]*roaring.Bitmap{a.Path: positions(1)}}}, 4},
		{"and a data manifest", []formats.TableChange{{Table: ref, Add: []formats.DataFile{e.rows(ref, 11, 1, "b")},
			Deletes: map[string]*roaring.Bitmap{a.Path: positions(2)}}}, 5},
		{"three of each of two tables", []formats.TableChange{{Table: ref, Add: []formats.DataFile{e.rows(ref, 12, 1, "b")}},
			{Table: other, Add: []formats.DataFile{e.rows(other, 0, 1, "b")}}}, 6},
		{"the position alone, for Recover", nil, 1},
	} {
		before := counting.Counts()
		e.commit(test.changes...)
		if got := counting.Counts().Minus(before); got.Puts != test.puts || got.Gets != 0 || got.Lists != 0 || got.Deletes != 0 {
			t.Errorf("%s: %+v, want %d puts and nothing else", test.what, got, test.puts)
		}
	}
}

func TestPlanAfterASmallCommitReadsOnlyWhatIsNew(t *testing.T) {
	var counting *storage.Counting
	e := newEnv(t, func(cfg *iceberg.Config) {
		counting = storage.NewCounting(cfg.Store)
		cfg.Store = counting
	})
	ref := e.create("public", "orders")
	var files []formats.DataFile
	for i := range int64(10) {
		files = append(files, e.rows(ref, i*10, 10, "a"))
		e.commit(formats.TableChange{Table: ref, Add: files[i:], Deletes: map[string]*roaring.Bitmap{files[i/2].Path: positions(uint32(i))}})
	}
	r := e.lake.Reader()
	plan := func() {
		t.Helper()
		must[*formats.ScanPlan](t)(r.Plan(e.ctx, must[*formats.View](t)(r.Current(e.ctx)), ref.Name))
	}
	plan()
	before := counting.Counts()
	plan()
	if got := counting.Counts().Minus(before); got.Gets != 0 {
		t.Errorf("the same plan again: %+v", got)
	}
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{e.rows(ref, 100, 1, "b")}, Deletes: map[string]*roaring.Bitmap{files[9].Path: positions(3)}})
	before = counting.Counts()
	plan()
	if got := counting.Counts().Minus(before); got.Gets > 4 { // list, data manifest, delete manifest, Puffin file
		t.Errorf("a plan after a small commit: %+v", got)
	}
}

func TestVectorsAreWhatOthersRead(t *testing.T) {
	e := newEnv(t)
	ref := e.create("public", "orders")
	a := e.rows(ref, 0, 100_000, "a")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{a}})
	want := roaring.New()
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 3 {
		bits := roaring.New()
		for range 1000 {
			bits.Add(uint32(rnd.IntN(100_000)))
		}
		bits.AddRange(uint64(rnd.IntN(50_000)), uint64(50_000+rnd.IntN(10_000)))
		want.Or(bits)
		e.commit(formats.TableChange{Table: ref, Deletes: map[string]*roaring.Bitmap{a.Path: bits}})
	}
	st := e.stock(ref.Name)
	fs := must[iceio.IO](t)(st.FS(e.ctx))
	tasks := must[[]table.FileScanTask](t)(st.Scan().PlanFiles(e.ctx))
	if len(tasks) != 1 || len(tasks[0].DeletionVectorFiles) != 1 {
		t.Fatalf("%d tasks", len(tasks))
	}
	stock := must[*dv.RoaringPositionBitmap](t)(dv.ReadDV(fs, tasks[0].DeletionVectorFiles[0]))
	if stock.Cardinality() != int64(want.GetCardinality()) {
		t.Fatalf("%d positions, want %d", stock.Cardinality(), want.GetCardinality())
	}
	for p := range stock.Positions() {
		if !want.Contains(uint32(p)) {
			t.Fatalf("position %d is deleted", p)
		}
	}
	r := e.reader()
	plan := must[*formats.ScanPlan](t)(r.Plan(e.ctx, must[*formats.View](t)(r.Current(e.ctx)), ref.Name))
	if !plan.Files[0].Deleted.Equals(want) {
		t.Fatal("our own reader has other positions")
	}
}

func TestFileWithoutRowsLeftIsRemoved(t *testing.T) {
	e := newEnv(t)
	ref := e.create("public", "orders")
	a, b := e.rows(ref, 0, 3, "a"), e.rows(ref, 3, 3, "b")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{a, b}})
	e.commit(formats.TableChange{Table: ref, Deletes: map[string]*roaring.Bitmap{a.Path: positions(0, 1)}})
	c := e.rows(ref, 6, 2, "c") // dead on arrival
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{c}, Deletes: map[string]*roaring.Bitmap{a.Path: positions(2), c.Path: positions(0, 1)}})
	e.check(ref.Name, contents{}.fill(3, 3, "b"))
	e.checkTotals(ref)
	if got := e.lake.Totals(ref); got[0] != 1 || got[2] != 0 {
		t.Errorf("totals %v", got)
	}
	files, _, err := e.lake.Files(e.ctx, ref, 0)
	if err != nil || len(files) != 1 || files[0].Path != b.Path {
		t.Errorf("%v %v", files, err)
	}
}

func TestTruncateLeavesNothingBehind(t *testing.T) {
	e := newEnv(t)
	ref := e.create("public", "orders")
	next := int64(0)
	for range 30 {
		f := e.rows(ref, next, 3, "a")
		next += 3
		e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{f}, Deletes: map[string]*roaring.Bitmap{f.Path: positions(1)}})
	}
	d := e.rows(ref, next, 2, "d")
	e.commit(formats.TableChange{Table: ref, Truncate: true, Add: []formats.DataFile{d}})
	e.check(ref.Name, contents{}.fill(next, 2, "d"))
	e.checkTotals(ref)
	p := e.stock(ref.Name).CurrentSnapshot().Summary.Properties
	if p["deleted-data-files"] != "30" || p["removed-dvs"] != "30" || p["total-records"] != "2" {
		t.Errorf("summary %v", p)
	}
	e.commit(formats.TableChange{Table: ref, Truncate: true})
	e.check(ref.Name, contents{})
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{e.rows(ref, 500, 1, "e")}})
	if data, deletes := manifestsOf(t, e.stock(ref.Name), func(icelib.ManifestFile, icelib.ManifestEntry) {}); data != 1 || deletes != 0 {
		t.Errorf("%d data and %d delete manifests", data, deletes)
	}
	e.check(ref.Name, contents{}.fill(500, 1, "e"))
	if next := e.stock(ref.Name).Metadata().NextRowID(); next != 93 {
		t.Errorf("next row id %d", next)
	}
}

// TestThinnedHistoryKeepsTablesTogether keeps few checkpoints and reads each of them over several tables that change
// at different times.
func TestThinnedHistoryKeepsTablesTogether(t *testing.T) {
	e := newEnv(t, func(cfg *iceberg.Config) {
		cfg.Retention = iceberg.Retention{All: 5 * time.Second, Minutely: 2 * time.Minute, Hourly: 3 * time.Hour, Max: 12}
	})
	refs := []formats.TableRef{e.create("public", "fast"), e.create("public", "slow"), e.create("public", "once")}
	at := map[int64][3]int64{}
	counts := [3]int64{}
	for i := range int64(80) {
		e.now = e.now.Add(time.Duration(rand.New(rand.NewPCG(5, uint64(i))).IntN(400)) * time.Second)
		var changes []formats.TableChange
		for j, every := range []int64{1, 7, 1000} {
			if i%every == 0 {
				changes = append(changes, formats.TableChange{Table: refs[j], Add: []formats.DataFile{e.rows(refs[j], counts[j], 1, "x")}})
				counts[j]++
			}
		}
		e.commit(changes...)
		at[e.number] = counts
	}
	r := e.reader()
	view := must[*formats.View](t)(r.Current(e.ctx))
	kept, expired := 0, 0
	for number := int64(4); number <= e.number; number++ {
		past, err := r.At(e.ctx, view, formats.Point{Checkpoint: number})
		if err != nil {
			expired++
			continue
		}
		if past.Checkpoint == number {
			kept++
		}
		for j, ref := range refs {
			if got, want := int64(len(e.scan(r, past, ref.Name))), at[past.Checkpoint][j]; got != want {
				t.Fatalf("checkpoint %d, asked for %d: table %v has %d rows, had %d", past.Checkpoint, number, ref.Name, got, want)
			}
		}
	}
	if kept == 0 || kept > 12 || expired == 0 {
		t.Fatalf("%d checkpoints kept, %d expired", kept, expired)
	}
	for j, ref := range refs {
		infos := must[[]formats.SnapshotInfo](t)(r.Snapshots(e.ctx, ref.Name))
		if len(infos) > 13 {
			t.Errorf("table %d keeps %d snapshots", j, len(infos))
		}
	}
	// The metadata file as others read it is whole.
	st := e.stock(refs[0].Name)
	if n := len(st.Metadata().Snapshots()); n < 2 {
		t.Errorf("%d snapshots in the metadata", n)
	}
	for _, s := range st.Metadata().Snapshots() {
		number, _ := strconv.ParseInt(s.Summary.Properties["streambed.checkpoint"], 10, 64)
		if got := int64(len(stockScan(t, st, table.WithSnapshotID(s.SnapshotID)))); got != at[number][0] {
			t.Errorf("stock scan of snapshot %d: %d rows, want %d", s.SnapshotID, got, at[number][0])
		}
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(must[[]byte](t)(e.store.Get(e.ctx, st.MetadataLocation())), &raw); err != nil || len(raw["snapshots"]) == 0 {
		t.Errorf("metadata: %v", err)
	}
}
