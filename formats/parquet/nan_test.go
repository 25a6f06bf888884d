package parquet

import (
	"bytes"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/streambed/streambed/formats/types"
)

// TestNoReaderCanPruneNaNAway writes NaN among numbers, nested too: a file's own minimum and maximum would not count it.
func TestNoReaderCanPruneNaNAway(t *testing.T) {
	next := 4
	list := types.AssignIDs(types.Type{Kind: types.List, Fields: []types.Field{{Name: "element", Type: types.Type{Kind: types.Float}}}}, &next)
	fields := []types.Field{{ID: 1, Name: "id", Type: types.Type{Kind: types.Int}}, {ID: 2, Name: "a.b", Type: types.Type{Kind: types.Double}}, {ID: 3, Name: "l", Type: list}}
	b := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(fields))
	defer b.Release()
	for i, v := range []float64{1, math.NaN(), -2} {
		b.Field(0).(*array.Int32Builder).Append(int32(i))
		b.Field(1).(*array.Float64Builder).Append(v)
		l := b.Field(2).(*array.ListBuilder)
		l.Append(true)
		l.ValueBuilder().(*array.Float32Builder).Append(float32(v))
	}
	record := b.NewRecordBatch()
	defer record.Release()
	data, _ := write(t, fields, Options{}, record)
	reader, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	group := reader.MetaData().RowGroup(0)
	for i, want := range []bool{true, false, false} {
		chunk, err := group.ColumnChunk(i)
		if err != nil {
			t.Fatal(err)
		}
		stats, err := chunk.Statistics()
		if err != nil {
			t.Fatal(err)
		}
		if got := stats != nil && stats.HasMinMax(); got != want {
			t.Errorf("column %s has a minimum and maximum: %v, expected %v", chunk.PathInSchema(), got, want)
		}
	}
}
