package parquet

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/streambed/streambed/formats/types"
)

// physical says how each kind must be stored, as Iceberg's table spec has it (appendix A).
var physical = map[string]string{
	"boolean": "BOOLEAN None", "int": "INT32 Int(bitWidth=32, isSigned=true)", "long": "INT64 Int(bitWidth=64, isSigned=true)",
	"float": "FLOAT None", "double": "DOUBLE None", "decimal(9,2)": "INT32 Decimal(precision=9, scale=2)",
	"decimal(1,1)": "INT32 Decimal(precision=1, scale=1)", "decimal(18,0)": "INT64 Decimal(precision=18, scale=0)",
	"decimal(38,18)": "FIXED_LEN_BYTE_ARRAY Decimal(precision=38, scale=18)", "string": "BYTE_ARRAY String", "json": "BYTE_ARRAY String",
	"interval": "BYTE_ARRAY String", "binary": "BYTE_ARRAY None", "uuid": "FIXED_LEN_BYTE_ARRAY UUID", "date": "INT32 Date",
	"time":        "INT64 Time(isAdjustedToUTC=false, timeUnit=microseconds)",
	"timestamp":   "INT64 Timestamp(isAdjustedToUTC=false, timeUnit=microseconds, is_from_converted_type=false, force_set_converted_type=false)",
	"timestamptz": "INT64 Timestamp(isAdjustedToUTC=true, timeUnit=microseconds, is_from_converted_type=false, force_set_converted_type=false)",
}

// checkNode compares a Parquet node with the field it stores.
func checkNode(t *testing.T, n schema.Node, f types.Field, required bool) {
	t.Helper()
	if int(n.FieldID()) != f.ID {
		t.Errorf("%s has field id %d instead of %d", n.Path(), n.FieldID(), f.ID)
	}
	if required != (n.RepetitionType().String() == "required") {
		t.Errorf("%s is %s", n.Path(), n.RepetitionType())
	}
	switch f.Type.Kind {
	case types.Struct:
		for i, child := range f.Type.Fields {
			checkNode(t, n.(*schema.GroupNode).Field(i), child, child.Required)
		}
	case types.List:
		middle := n.(*schema.GroupNode).Field(0).(*schema.GroupNode)
		element := middle.Field(0)
		if n.LogicalType().String() != "List" || middle.Name() != "list" || element.Name() != "element" || middle.RepetitionType().String() != "repeated" {
			t.Errorf("%s is no three-level list", n.Path())
		}
		checkNode(t, element, f.Type.Fields[0], false)
	case types.Map:
		middle := n.(*schema.GroupNode).Field(0).(*schema.GroupNode)
		if n.LogicalType().String() != "Map" || middle.Name() != "key_value" || middle.Field(0).Name() != "key" || middle.Field(1).Name() != "value" {
			t.Errorf("%s is no map", n.Path())
		}
		checkNode(t, middle.Field(0), f.Type.Fields[0], true)
		checkNode(t, middle.Field(1), f.Type.Fields[1], false)
	default:
		got := fmt.Sprintf("%s %s", n.(*schema.PrimitiveNode).PhysicalType(), n.LogicalType())
		if want := physical[f.Type.String()]; got != want {
			t.Errorf("%s (%s) is stored as %q instead of %q", n.Path(), f.Type, got, want)
		}
	}
}

func TestFilesHaveTheSpecifiedTypesIDsAndPageIndex(t *testing.T) {
	fields := allFields()
	fields[0].Required = true
	data, _ := write(t, fields, Options{RowGroupRows: 100}, randomRecord(fields, 250, 1))
	r, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	meta := r.MetaData()
	for i, f := range fields {
		if name := meta.Schema.Root().Field(i).Name(); name != f.Name {
			t.Errorf("column %d is named %q instead of %q", i, name, f.Name)
		}
		checkNode(t, meta.Schema.Root().Field(i), f, f.Required)
	}
	for g := range meta.NumRowGroups() {
		if rows := meta.RowGroup(g).NumRows(); rows > 100 {
			t.Errorf("row group %d has %d rows", g, rows)
		}
		for c := range meta.Schema.NumColumns() {
			chunk, err := meta.RowGroup(g).ColumnChunk(c)
			if err != nil {
				t.Fatal(err)
			}
			// A column index is bounds by page, which float columns go without (withoutFloatStatistics).
			kind := meta.Schema.Column(c).PhysicalType()
			float := kind == parquet.Types.Float || kind == parquet.Types.Double
			if chunk.Compression() != compress.Codecs.Zstd || chunk.GetOffsetIndexLocation() == nil || (chunk.GetColumnIndexLocation() == nil) != float {
				t.Errorf("column %d is stored with %s, offset index %v, column index %v", c, chunk.Compression(), chunk.GetOffsetIndexLocation(), chunk.GetColumnIndexLocation())
			}
		}
	}
}

func TestNamesOfAnyKindAreKept(t *testing.T) {
	var fields []types.Field
	for _, name := range []string{"a.b", `"quoted"`, "Größe 😀", "a", "A", "list.element", strings.Repeat("x", 63)} {
		fields = append(fields, types.Field{Name: name, Type: list(types.Type{Kind: types.Int})})
	}
	fields = numbered(fields)
	rec := randomRecord(fields, 100, 9)
	data, _ := write(t, fields, Options{}, rec)
	same(t, read(t, open(t, data), fields), rec)
}

func TestNegativeDecimalsOfEveryWidth(t *testing.T) {
	for precision := 1; precision <= 38; precision++ {
		fields := numbered([]types.Field{{Name: "d", Type: types.Type{Kind: types.Decimal, Precision: precision, Scale: precision / 2}}})
		b := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(fields))
		most, err := decimal128.FromString(strings.Repeat("9", precision), int32(precision), 0)
		if err != nil {
			t.Fatal(err)
		}
		d := b.Field(0).(*array.Decimal128Builder)
		for _, v := range []decimal128.Num{most, most.Negate(), decimal128.FromI64(-1), decimal128.FromI64(0), decimal128.FromI64(1)} {
			d.Append(v)
		}
		rec := b.NewRecordBatch()
		b.Release()
		data, stats := write(t, fields, Options{}, rec)
		same(t, read(t, open(t, data), fields), rec)
		if boundValue(fields[0].Type, stats.Lower[1]) != any(most.Negate()) || boundValue(fields[0].Type, stats.Upper[1]) != any(most) {
			t.Errorf("precision %d: the bounds are %x and %x", precision, stats.Lower[1], stats.Upper[1])
		}
	}
}

func TestRequiredColumnsReadBack(t *testing.T) {
	fields := numbered([]types.Field{{Name: "id", Type: types.Type{Kind: types.Long}, Required: true}, {Name: "u", Type: types.Type{Kind: types.UUID}, Required: true},
		{Name: "s", Type: types.Type{Kind: types.String}, Required: true}, {Name: "n", Type: types.Type{Kind: types.Decimal, Precision: 20}, Required: true}})
	rec := randomRecord(fields, 500, 3)
	data, stats := write(t, fields, Options{RowGroupRows: 200}, rec)
	f := open(t, data)
	same(t, read(t, f, fields), rec)
	later := make([]types.Field, len(fields)) // no longer in the key, so optional
	copy(later, fields)
	for i := range later {
		later[i].Required = false
		if stats.NullCounts[later[i].ID] != 0 {
			t.Errorf("a required column has %d NULLs", stats.NullCounts[later[i].ID])
		}
	}
	got := read(t, f, later)
	for i := range later {
		if !array.Equal(got.Column(i), rec.Column(i)) || !got.Schema().Field(i).Nullable {
			t.Errorf("column %d changes when it becomes optional", i)
		}
	}
}

func BenchmarkWriteRow(b *testing.B) {
	fields := numbered([]types.Field{
		{Name: "id", Type: types.Type{Kind: types.Long}, Required: true}, {Name: "i", Type: types.Type{Kind: types.Int}},
		{Name: "n", Type: types.Type{Kind: types.Decimal, Precision: 12, Scale: 2}}, {Name: "t", Type: types.Type{Kind: types.String}},
		{Name: "u", Type: types.Type{Kind: types.String}}, {Name: "at", Type: types.Type{Kind: types.TimestampTZ}},
		{Name: "b", Type: types.Type{Kind: types.Boolean}}, {Name: "j", Type: types.Type{Kind: types.JSON}},
		{Name: "k", Type: types.Type{Kind: types.Int}}, {Name: "tags", Type: list(types.Type{Kind: types.String})},
	})
	rec := randomRecord(fields, 16384, 1)
	defer rec.Release()
	b.Run("stats", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; n < b.N; n += int(rec.NumRows()) {
			for i, f := range fields {
				newColumn(f).observe(rec.Column(i), nil)
			}
		}
	})
	b.Run("file", func(b *testing.B) {
		b.ReportAllocs()
		var out bytes.Buffer
		w, err := NewWriter(&out, fields, Options{})
		if err != nil {
			b.Fatal(err)
		}
		for n := 0; n < b.N; n += int(rec.NumRows()) {
			if err := w.Write(rec); err != nil {
				b.Fatal(err)
			}
		}
		if _, _, _, err := w.Close(); err != nil {
			b.Fatal(err)
		}
	})
}
