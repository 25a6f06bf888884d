package ducklake

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/types"
)

// TestSortedRunsTellWhereRowsWent: with any bound of memory each row is where the order says, and each run is sorted.
func TestSortedRunsTellWhereRowsWent(t *testing.T) {
	t.Parallel()
	schema := &formats.Schema{Columns: []formats.Column{{Field: types.Field{ID: 1, Name: "n", Type: types.Type{Kind: types.Long}}}}}
	a, without := newArranger(formats.Arrangement{SortBy: []formats.SortField{{Column: "n", Descending: true}}}, schema)
	if a == nil || len(without) > 0 {
		t.Fatal(a, without)
	}
	for _, run := range []int64{1, 1000, sortedRun} {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, uint64(run)))
			var body bytes.Buffer
			w, err := parquet.NewWriter(&body, schema.Fields(), parquet.Options{})
			if err != nil {
				t.Fatal(err)
			}
			rows := rowSink{writer: w, a: a, run: run}
			defer rows.release()
			var came []int64
			for range 50 {
				b := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(schema.Fields()))
				for range 1 + random.IntN(20) {
					came = append(came, random.Int64N(100)-50)
					b.Field(0).(*array.Int64Builder).Append(came[len(came)-1])
				}
				batch := b.NewRecordBatch()
				if err := rows.write(batch); err != nil {
					t.Fatal(err)
				}
				batch.Release()
				b.Release()
			}
			if err := rows.sort(); err != nil {
				t.Fatal(err)
			}
			if _, _, _, err := w.Close(); err != nil {
				t.Fatal(err)
			}
			lie := readLongs(t, body.Bytes(), schema)
			if len(lie) != len(came) || len(rows.order) != len(came) {
				t.Fatalf("%d rows came, %d lie in the file, %d have an order", len(came), len(lie), len(rows.order))
			}
			for i, n := range came {
				if lie[rows.order[i]] != n {
					t.Fatalf("row %d went to %d, where %d lies instead of %d", i, rows.order[i], lie[rows.order[i]], n)
				}
			}
			if taken := slices.Sorted(slices.Values(rows.order)); taken[0] != 0 || len(slices.Compact(taken)) != len(came) {
				t.Error("two rows went to one place")
			}
			if run == sortedRun && !slices.IsSortedFunc(lie, func(x, y int64) int { return int(y - x) }) {
				t.Error("the rows are not sorted")
			}
		})
	}
}

func readLongs(t *testing.T, body []byte, schema *formats.Schema) (out []int64) {
	t.Helper()
	file, err := parquet.Open(context.Background(), memoryObject{bytes.NewReader(body)})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for batch, err := range file.Batches(context.Background(), schema.Fields()) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, batch.Column(0).(*array.Int64).Int64Values()...)
		batch.Release()
	}
	return out
}
