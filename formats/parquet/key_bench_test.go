package parquet

import (
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/streambed/streambed/formats/types"
)

// BenchmarkWriteKey writes files of one key column, of the sizes of a cut and of a copy.
func BenchmarkWriteKey(b *testing.B) {
	fields := []types.Field{{ID: 1, Name: "id", Type: types.Type{Kind: types.Long}, Required: true}}
	for name, rows := range map[string]int{"1000": 1000, "1000000": 1_000_000} {
		b.Run(name, func(b *testing.B) {
			builder := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(fields))
			for i := range rows {
				builder.Field(0).(*array.Int64Builder).Append(int64(i) * 7919 % 1_000_003)
			}
			rec := builder.NewRecordBatch()
			var size int64
			for b.Loop() {
				w, err := NewWriter(io.Discard, fields, Options{})
				if err != nil {
					b.Fatal(err)
				}
				if err := w.Write(rec); err != nil {
					b.Fatal(err)
				}
				if _, size, _, err = w.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
			b.ReportMetric(float64(size)/float64(rows), "B/row")
		})
	}
}
