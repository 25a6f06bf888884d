package iceberg

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
)

// The reserved field ids of row lineage (table spec, "Reserved Field IDs").
const (
	rowIDField       = 2147483540
	rowSequenceField = 2147483539
)

// lineageFields are the columns of a format 3 data file whose rows were in other files before.
var lineageFields = []types.Field{
	{ID: rowIDField, Name: "_row_id", Type: types.Type{Kind: types.Long}},
	{ID: rowSequenceField, Name: "_last_updated_sequence_number", Type: types.Type{Kind: types.Long}},
}

// withLineage gives a batch with lineage in its two last columns, from at on: where one is NULL, what the row inherits of
// its file. It takes the batch over; the caller releases the result.
func withLineage(batch arrow.RecordBatch, at int, firstRowID, sequence int64) arrow.RecordBatch {
	defer batch.Release()
	columns := append([]arrow.Array{}, batch.Columns()[:at]...)
	ids := inherited(batch.Column(at).(*array.Int64), func(i int) int64 { return firstRowID + int64(i) })
	defer ids.Release()
	sequences := inherited(batch.Column(at+1).(*array.Int64), func(int) int64 { return sequence })
	defer sequences.Release()
	return array.NewRecordBatch(batch.Schema(), append(columns, ids, sequences), batch.NumRows())
}

// inherited fills in the NULLs of a column.
func inherited(own *array.Int64, value func(i int) int64) arrow.Array {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(own.Len())
	for i := range own.Len() {
		if own.IsNull(i) {
			b.UnsafeAppend(value(i))
		} else {
			b.UnsafeAppend(own.Value(i))
		}
	}
	return b.NewArray()
}

// withoutLineage leaves statistics to the columns of the table's schema.
func withoutLineage(s *formats.FileStats) {
	for _, id := range []int{rowIDField, rowSequenceField} {
		delete(s.ColumnSizes, id)
		delete(s.ValueCounts, id)
		delete(s.NullCounts, id)
		delete(s.NaNCounts, id)
		delete(s.Lower, id)
		delete(s.Upper, id)
	}
}
