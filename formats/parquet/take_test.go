package parquet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/streambed/streambed/formats/types"
)

// pick gives rows of a record.
func pick(t testing.TB, rec arrow.RecordBatch, positions []int64) arrow.RecordBatch {
	t.Helper()
	var all taker
	defer all.release()
	for _, p := range positions {
		all.parts = append(all.parts, rec.NewSlice(p, p+1))
	}
	picked, err := all.finish(rec.Schema())
	if err != nil {
		t.Fatal(err)
	}
	return picked
}

func TestTakeGivesTheRowsAtTheirPositions(t *testing.T) {
	fields := allFields()
	rec := randomRecord(fields, 3000, 3)
	data, _ := write(t, fields, Options{RowGroupRows: 700}, rec)
	f := open(t, data)
	r := rand.New(rand.NewPCG(1, 2))
	sets := [][]int64{{}, {0}, {2999}, {699, 700}, {0, 699, 700, 1399, 1400, 2999}, {5, 5, 5}, {10, 11, 12, 13}}
	for _, n := range []int{1, 3, 40, 1500} {
		var some []int64
		for range n {
			some = append(some, r.Int64N(3000))
		}
		slices.Sort(some)
		sets = append(sets, some)
	}
	var all []int64
	for i := range int64(3000) {
		all = append(all, i)
	}
	for _, positions := range append(sets, all) {
		got, err := f.Take(context.Background(), fields, positions)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, pick(t, rec, positions))
		got.Release()
	}
	for _, bad := range [][]int64{{3000}, {-1}, {5, 4}, {800, 799}, {1, 5000}} {
		if got, err := f.Take(context.Background(), fields, bad); err == nil {
			t.Errorf("positions %v give %d rows", bad, got.NumRows())
		}
	}
}

// TestSparseRowsOfLargeValuesAreSoughtAndRight has values so large that reading every page would be waste.
func TestSparseRowsOfLargeValuesAreSoughtAndRight(t *testing.T) {
	fields := numbered([]types.Field{{Name: "id", Type: types.Type{Kind: types.Long}}, {Name: "text", Type: types.Type{Kind: types.String}}, {Name: "list", Type: list(types.Type{Kind: types.Int})}})
	r := rand.New(rand.NewPCG(8, 8))
	b := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(fields))
	defer b.Release()
	const rows = 20000
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		switch {
		case r.IntN(4) == 0:
			b.Field(1).AppendNull()
		case r.IntN(10) == 0:
			b.Field(1).(*array.StringBuilder).Append("often")
		default:
			b.Field(1).(*array.StringBuilder).Append(strings.Repeat(fmt.Sprintf("%d of %d ", i, r.Int64()), 100))
		}
		fill(b.Field(2), fields[2].Type, r, true)
	}
	rec := b.NewRecordBatch()
	data, _ := write(t, fields, Options{RowGroupRows: 11000}, rec)
	f := open(t, data)
	for _, columns := range [][]types.Field{fields[:2], {fields[1], fields[0]}, {fields[1]}, fields} {
		s := f.selection(columns)
		places := make([]arrow.Array, len(columns))
		for i, c := range columns {
			places[i] = rec.Column(c.ID - 1)
		}
		want := array.NewRecordBatch(types.ArrowSchema(columns), places, rows)
		for trial := range 12 {
			positions := []int64{0, rows - 1, 10999, 11000}
			if trial > 0 {
				positions = nil
				for range r.IntN(5) + 1 {
					at := r.Int64N(rows)
					for range r.IntN(3) * r.IntN(80) {
						positions = append(positions, min(at, rows-1))
						at += r.Int64N(2)
					}
					positions = append(positions, min(at, rows-1))
				}
			}
			slices.Sort(positions)
			if sought, err := f.seekable(s, 0, []int64{5}); err != nil || sought == (len(columns) == 3) {
				t.Fatalf("one row of %d columns is sought: %v, %v", len(columns), sought, err)
			}
			got, err := f.Take(context.Background(), columns, positions)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, pick(t, want, positions))
		}
	}
}

// TestWithoutKeepsTheOtherRows compares with the rows taken one by one, for any share of deleted rows.
func TestWithoutKeepsTheOtherRows(t *testing.T) {
	rec := randomRecord(allFields(), 1000, 7)
	defer rec.Release()
	for _, share := range []float64{0, 0.01, 0.3, 0.99, 1} {
		random := rand.New(rand.NewPCG(3, uint64(share*100)))
		var deleted, kept []int64
		for row := range rec.NumRows() {
			if random.Float64() < share {
				deleted = append(deleted, row)
			} else {
				kept = append(kept, row)
			}
		}
		got, err := Without(rec, slices.Values(deleted))
		if err != nil {
			t.Fatal(err)
		}
		want := pick(t, rec, kept)
		if !array.RecordEqual(got, want) {
			t.Errorf("without %d rows: %d rows are left, of which some differ from the %d kept", len(deleted), got.NumRows(), len(kept))
		}
		got.Release()
		want.Release()
	}
}
