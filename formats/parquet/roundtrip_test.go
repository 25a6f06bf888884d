package parquet

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
)

// bytesObject is an object in memory; closed tells whether it was closed.
type bytesObject struct {
	*bytes.Reader
	closed bool
}

func (o *bytesObject) Size() int64 { return o.Reader.Size() }

func (o *bytesObject) Close() error {
	o.closed = true
	return nil
}

// scalarTypes has every kind without children, decimals of every storage.
func scalarTypes() []types.Type {
	list := []types.Type{
		{Kind: types.Decimal, Precision: 9, Scale: 2}, {Kind: types.Decimal, Precision: 18, Scale: 0},
		{Kind: types.Decimal, Precision: 38, Scale: 18}, {Kind: types.Decimal, Precision: 1, Scale: 1},
	}
	for k := types.Boolean; k <= types.TimestampTZ; k++ {
		if k != types.Decimal {
			list = append(list, types.Type{Kind: k})
		}
	}
	return list
}

// allFields has a column of each scalar type and nested ones around them; all have IDs.
func allFields() []types.Field {
	var fields []types.Field
	add := func(t types.Type) {
		fields = append(fields, types.Field{Name: fmt.Sprintf("c%d %s", len(fields), t.Kind), Type: t})
	}
	for _, t := range scalarTypes() {
		add(t)
		add(list(t))
	}
	inner := structOf(types.Type{Kind: types.Int}, list(types.Type{Kind: types.String}), types.Type{Kind: types.UUID})
	add(inner)
	add(list(inner))
	add(structOf(inner, types.Type{Kind: types.Double}))
	add(mapOf(types.Type{Kind: types.String}))
	add(list(mapOf(types.Type{Kind: types.String})))
	return numbered(fields)
}

func list(t types.Type) types.Type {
	return types.Type{Kind: types.List, Fields: []types.Field{{Name: "element", Type: t}}}
}

func mapOf(t types.Type) types.Type {
	return types.Type{Kind: types.Map, Fields: []types.Field{
		{Name: "key", Type: types.Type{Kind: types.String}, Required: true}, {Name: "value", Type: t}}}
}

func structOf(ts ...types.Type) types.Type {
	t := types.Type{Kind: types.Struct}
	for i, c := range ts {
		t.Fields = append(t.Fields, types.Field{Name: fmt.Sprintf("f%d", i), Type: c})
	}
	return t
}

func numbered(fields []types.Field) []types.Field {
	next := len(fields) + 1
	for i := range fields {
		fields[i].ID = i + 1
		fields[i].Type = types.AssignIDs(fields[i].Type, &next)
	}
	return fields
}

// fill appends a random value of the type, or NULL.
func fill(b array.Builder, t types.Type, r *rand.Rand, nulls bool) {
	if nulls && r.IntN(5) == 0 {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(r.IntN(2) == 0)
	case *array.Int32Builder:
		b.Append(int32(r.Uint32()))
	case *array.Int64Builder:
		b.Append(int64(r.Uint64()))
	case *array.Float32Builder:
		b.Append(float32(r.NormFloat64()))
	case *array.Float64Builder:
		b.Append(r.NormFloat64())
	case *array.Decimal128Builder:
		digits := min(t.Precision, 18)
		n := r.Int64N(pow10(digits))
		if r.IntN(2) == 0 {
			n = -n
		}
		d := decimal128.FromI64(n)
		if t.Precision > 18 {
			d = d.Mul(decimal128.FromI64(r.Int64N(pow10(min(t.Precision-18, 12)))))
		}
		b.Append(d)
	case *array.StringBuilder:
		b.Append(randomText(r))
	case *array.BinaryBuilder:
		b.Append([]byte(randomText(r)))
	case *extensions.UUIDBuilder:
		var u [16]byte
		for i := range u {
			u[i] = byte(r.Uint32())
		}
		b.AppendBytes(u)
	case *array.Date32Builder:
		b.Append(arrow.Date32(r.Int32N(3_000_000) - 700_000))
	case *array.Time64Builder:
		b.Append(arrow.Time64(r.Int64N(86_400_000_000)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(r.Int64N(1<<60) - 1<<59))
	case *array.ListBuilder:
		b.Append(true)
		for range r.IntN(4) {
			fill(b.ValueBuilder(), t.Fields[0].Type, r, true)
		}
	case *array.MapBuilder:
		b.Append(true)
		for range r.IntN(4) {
			fill(b.KeyBuilder(), t.Fields[0].Type, r, false)
			fill(b.ItemBuilder(), t.Fields[1].Type, r, true)
		}
	case *array.StructBuilder:
		b.Append(true)
		for i, f := range t.Fields {
			fill(b.FieldBuilder(i), f.Type, r, true)
		}
	default:
		panic(fmt.Sprintf("no values for %T", b))
	}
}

func pow10(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}

func randomText(r *rand.Rand) string {
	alphabet := []rune("abcXYZ 019\"\\{},äß\u0000\u07ff\ud7ff\uffff\U0001F600\U0010FFFF")
	text := make([]rune, r.IntN(24))
	for i := range text {
		text[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(text)
}

func randomRecord(fields []types.Field, rows int, seed uint64) arrow.RecordBatch {
	r := rand.New(rand.NewPCG(seed, 1))
	b := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(fields))
	defer b.Release()
	for range rows {
		for i, f := range fields {
			fill(b.Field(i), f.Type, r, !f.Required)
		}
	}
	return b.NewRecordBatch()
}

func write(t testing.TB, fields []types.Field, o Options, records ...arrow.RecordBatch) ([]byte, formats.FileStats) {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, fields, o)
	if err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	for _, rec := range records {
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
		want += rec.NumRows()
	}
	rows, size, stats, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if rows != want || size != int64(out.Len()) {
		t.Fatalf("Close says %d rows and %d bytes, and there are %d rows and %d bytes", rows, size, want, out.Len())
	}
	return out.Bytes(), stats
}

func open(t testing.TB, data []byte) *File {
	t.Helper()
	object := &bytesObject{Reader: bytes.NewReader(data)}
	f, err := Open(context.Background(), object)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		if !object.closed {
			t.Error("closing the file leaves its object open")
		}
	})
	return f
}

// read gives all rows of a file as one record.
func read(t testing.TB, f *File, fields []types.Field) arrow.RecordBatch {
	t.Helper()
	var all taker
	defer all.release()
	for batch, err := range f.Batches(context.Background(), fields) {
		if err != nil {
			t.Fatal(err)
		}
		all.parts = append(all.parts, batch)
	}
	rec, err := all.finish(types.ArrowSchema(fields))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func same(t testing.TB, got, want arrow.RecordBatch) {
	t.Helper()
	if got.NumRows() != want.NumRows() {
		t.Fatalf("%d rows instead of %d", got.NumRows(), want.NumRows())
	}
	for i := range int(want.NumCols()) {
		name := want.ColumnName(i)
		if !arrow.TypeEqual(got.Column(i).DataType(), want.Column(i).DataType(), arrow.CheckMetadata()) {
			t.Errorf("column %q has type %s instead of %s", name, got.Column(i).DataType(), want.Column(i).DataType())
		}
		if !array.Equal(got.Column(i), want.Column(i)) {
			for row := range int(want.NumRows()) {
				g, w := got.Column(i).ValueStr(row), want.Column(i).ValueStr(row)
				if g != w {
					t.Fatalf("column %q, row %d: %s instead of %s", name, row, g, w)
				}
			}
			t.Fatalf("column %q is not as written", name)
		}
	}
}

func TestEveryTypeReadsBackAsWritten(t *testing.T) {
	fields := allFields()
	for _, c := range []struct {
		rows []int
		o    Options
	}{
		{[]int{}, Options{}},
		{[]int{1}, Options{}},
		{[]int{700, 1, 300}, Options{}},
		{[]int{700, 0, 300}, Options{RowGroupRows: 128}},
		{[]int{1000}, Options{RowGroupBytes: 20000}},
	} {
		t.Run(fmt.Sprint(c.rows, c.o.RowGroupRows), func(t *testing.T) {
			var records []arrow.RecordBatch
			var all taker
			for i, n := range c.rows {
				rec := randomRecord(fields, n, uint64(i))
				records = append(records, rec)
				all.parts = append(all.parts, rec)
			}
			data, _ := write(t, fields, c.o, records...)
			want, err := all.finish(types.ArrowSchema(fields))
			if err != nil {
				t.Fatal(err)
			}
			f := open(t, data)
			if f.Rows() != want.NumRows() {
				t.Fatalf("the file says %d rows instead of %d", f.Rows(), want.NumRows())
			}
			same(t, read(t, f, fields), want)
			for i, field := range fields { // alone and reversed, too
				one := []types.Field{field}
				same(t, read(t, f, one), array.NewRecordBatch(types.ArrowSchema(one), want.Columns()[i:i+1], want.NumRows()))
			}
		})
	}
}
