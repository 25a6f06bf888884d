package types

import (
	"encoding/hex"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// row is a table's row of ten columns, as in the design's budgets.
var row = []struct {
	pg         Postgres
	text, wire string
}{
	{base(OIDInt8, "int8"), "123456789", "00000000075bcd15"},
	{base(OIDInt4, "int4"), "-42", "ffffffd6"},
	{numericType(12, 2), "1234567.89", hex.EncodeToString(wireNumeric("1234567.89"))},
	{base(OIDText, "text"), "a customer's name", hex.EncodeToString([]byte("a customer's name"))},
	{base(OIDText, "text"), "a longer text of an order's note, about eighty characters in all, as they are", hex.EncodeToString([]byte("a longer text of an order's note, about eighty characters in all, as they are"))},
	{base(OIDTimestampTZ, "timestamptz"), "2024-02-29 12:34:56.789012+00", "0002b5e2d4ad2388"},
	{base(OIDBool, "bool"), "t", "01"},
	{base(OIDJSONB, "jsonb"), `{"a": 1, "b": [true, null]}`, "01" + hex.EncodeToString([]byte(`{"a": 1, "b": [true, null]}`))},
	{base(OIDInt4, "int4"), "7", "00000007"},
	{arrayOf(base(OIDText, "text")), "{red,green,blue}", "00000001000000000000001900000003000000010000000372656400000005677265656e00000004626c7565"},
}

func BenchmarkDecodeRow(b *testing.B) {
	for _, format := range []string{"text", "binary"} {
		b.Run(format, func(b *testing.B) {
			var fields []Field
			var codecs []*Codec
			var values [][]byte
			for i, c := range row {
				lake := Lake(c.pg, Options{}, false)
				fields = append(fields, Field{ID: i + 1, Name: string(rune('a' + i)), Type: lake})
				codecs = append(codecs, codec(b, c.pg, lake, Options{}, false))
				value := []byte(c.text)
				if format == "binary" {
					value, _ = hex.DecodeString(c.wire)
				}
				values = append(values, value)
			}
			record := array.NewRecordBuilder(memory.DefaultAllocator, ArrowSchema(fields))
			defer record.Release()
			b.ReportAllocs()
			for n := 1; b.Loop(); n++ {
				for i, c := range codecs {
					if err := c.Append(record.Field(i), format == "binary", values[i]); err != nil {
						b.Fatal(err)
					}
				}
				if n%16384 == 0 {
					record.NewRecordBatch().Release()
				}
			}
		})
	}
}
