package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/streambed/streambed/formats/types"
)

// TestColumnsAreFoundByIDPromotedAndFilledIn reads a file with a later schema: renamed, reordered, promoted, added and
// dropped columns, at the top and inside of structs, lists and maps.
func TestColumnsAreFoundByIDPromotedAndFilledIn(t *testing.T) {
	kind := func(k types.Kind) types.Type { return types.Type{Kind: k} }
	field := func(id int, name string, t types.Type) types.Field { return types.Field{ID: id, Name: name, Type: t} }
	listOf := func(id int, t types.Type) types.Type {
		return types.Type{Kind: types.List, Fields: []types.Field{field(id, "element", t)}}
	}
	mapTo := func(key, value int, t types.Type) types.Type {
		return types.Type{Kind: types.Map, Fields: []types.Field{{ID: key, Name: "key", Type: kind(types.String), Required: true}, field(value, "value", t)}}
	}
	structOf := func(fields ...types.Field) types.Type { return types.Type{Kind: types.Struct, Fields: fields} }
	before := []types.Field{
		field(1, "i", kind(types.Int)), field(2, "f", kind(types.Float)), field(3, "d", types.Type{Kind: types.Decimal, Precision: 5, Scale: 2}),
		field(4, "gone", kind(types.String)), field(5, "s", structOf(field(6, "a", kind(types.Int)), field(7, "b", kind(types.UUID)))),
		field(8, "l", listOf(9, structOf(field(10, "x", kind(types.Float)), field(11, "y", kind(types.String))))),
		field(12, "m", mapTo(13, 14, kind(types.Int))),
	}
	after := []types.Field{
		field(12, "map renamed", mapTo(13, 14, kind(types.Long))),
		field(20, "added", kind(types.String)),
		field(8, "list renamed", listOf(9, structOf(field(21, "new", kind(types.Date)), field(11, "why", kind(types.String)), field(10, "x", kind(types.Double))))),
		field(5, "i", structOf(field(7, "bee", kind(types.UUID)), field(6, "a", kind(types.Long)), field(22, "l", listOf(23, kind(types.Int))))),
		field(3, "d", types.Type{Kind: types.Decimal, Precision: 38, Scale: 2}), field(2, "ff", kind(types.Double)), field(1, "gone", kind(types.Long)),
	}
	rec := randomRecord(before, 2000, 5)
	data, _ := write(t, before, Options{RowGroupRows: 600}, rec)
	f := open(t, data)
	got := read(t, f, after)
	if !got.Schema().Equal(types.ArrowSchema(after)) {
		t.Fatalf("the schema is %s", got.Schema())
	}
	for row := range int(rec.NumRows()) {
		text := func(r arrow.RecordBatch, column int) string { return number(r.Column(column), row) }
		for _, pair := range [][2]int{{0, 6}, {4, 2}, {5, 1}, {6, 0}} {
			if text(got, pair[0]) != text(rec, pair[1]) {
				t.Fatalf("row %d of %q reads %s and was %s", row, after[pair[0]].Name, text(got, pair[0]), text(rec, pair[1]))
			}
		}
		checkStruct(t, got.Column(3).(*array.Struct), rec.Column(4).(*array.Struct), row)
		checkList(t, got.Column(2).(*array.List), rec.Column(5).(*array.List), row)
		if !got.Column(1).IsNull(row) {
			t.Fatal("a column that the file does not have is not NULL")
		}
	}
	taken, err := f.Take(context.Background(), after, []int64{0, 599, 600, 1999})
	if err != nil {
		t.Fatal(err)
	}
	same(t, taken, pick(t, got, []int64{0, 599, 600, 1999}))
}

// number prints floats of both widths alike.
func number(a arrow.Array, row int) string {
	if f, ok := a.(*array.Float32); ok && !f.IsNull(row) {
		return fmt.Sprint(float64(f.Value(row)))
	}
	if f, ok := a.(*array.Float64); ok && !f.IsNull(row) {
		return fmt.Sprint(f.Value(row))
	}
	return a.ValueStr(row)
}

func checkStruct(t *testing.T, got, was *array.Struct, row int) {
	t.Helper()
	if got.IsNull(row) != was.IsNull(row) {
		t.Fatalf("row %d: a struct is NULL %v and was %v", row, got.IsNull(row), was.IsNull(row))
	}
	if got.IsNull(row) {
		return
	}
	if got.Field(0).ValueStr(row) != was.Field(1).ValueStr(row) || got.Field(1).ValueStr(row) != was.Field(0).ValueStr(row) || !got.Field(2).IsNull(row) {
		t.Fatalf("row %d: a struct reads %s and was %s", row, got.ValueStr(row), was.ValueStr(row))
	}
}

func checkList(t *testing.T, got, was *array.List, row int) {
	t.Helper()
	from, to := got.ValueOffsets(row)
	first, last := was.ValueOffsets(row)
	if got.IsNull(row) != was.IsNull(row) || to-from != last-first {
		t.Fatalf("row %d: a list reads %s and was %s", row, got.ValueStr(row), was.ValueStr(row))
	}
	g, w := got.ListValues().(*array.Struct), was.ListValues().(*array.Struct)
	for i := range int(to - from) {
		a, b := int(from)+i, int(first)+i
		if g.IsNull(a) != w.IsNull(b) || !g.IsNull(a) && (number(g.Field(2), a) != number(w.Field(0), b) || g.Field(1).ValueStr(a) != w.Field(1).ValueStr(b) || !g.Field(0).IsNull(a)) {
			t.Fatalf("row %d, element %d: %s was %s", row, i, g.ValueStr(a), w.ValueStr(b))
		}
	}
}

func TestMissingColumnsReadTheirDefault(t *testing.T) {
	fields, rec := column1(t, types.Int, func(b array.Builder) {
		for i := range int32(20000) {
			b.(*array.Int32Builder).Append(i)
		}
	})
	data, _ := write(t, fields, Options{}, rec)
	text := types.Postgres{OID: types.OIDText, Name: "text", Typmod: -1, Class: 'b'}
	one, err := types.ParseDefault(text, types.Type{Kind: types.String}, "new")
	if err != nil {
		t.Fatal(err)
	}
	short, err := types.ParseDefault(types.Postgres{OID: types.OIDInt4, Name: "int4", Typmod: -1, Class: 'b'}, types.Type{Kind: types.Int}, "7")
	if err != nil {
		t.Fatal(err)
	}
	wanted := []types.Field{{ID: 2, Name: "d", Type: types.Type{Kind: types.String}}, {ID: 3, Name: "n", Type: types.Type{Kind: types.String}},
		{ID: 4, Name: "promoted", Type: types.Type{Kind: types.Long}}}
	f := open(t, data)
	f.SetDefaults(map[int]arrow.Array{2: one, 4: short})
	for _, columns := range [][]types.Field{wanted, append(slices.Clone(wanted), fields...)} { // without and with one of the file's
		got := read(t, f, columns)
		if got.NumRows() != 20000 {
			t.Fatalf("%d rows are read", got.NumRows())
		}
		for row := range 20000 {
			if got.Column(0).ValueStr(row) != "new" || !got.Column(1).IsNull(row) || got.Column(2).ValueStr(row) != "7" {
				t.Fatalf("row %d reads %s, %s, %s", row, got.Column(0).ValueStr(row), got.Column(1).ValueStr(row), got.Column(2).ValueStr(row))
			}
		}
	}
	taken, err := f.Take(context.Background(), wanted, []int64{3, 19999})
	if err != nil {
		t.Fatal(err)
	}
	if taken.NumRows() != 2 || taken.Column(0).ValueStr(1) != "new" {
		t.Errorf("taking defaults gives %v", taken)
	}
}

func TestTypesThatWereNotPromotedAreErrors(t *testing.T) {
	fields := numbered([]types.Field{{Name: "a", Type: types.Type{Kind: types.Long}}, {Name: "b", Type: types.Type{Kind: types.Decimal, Precision: 9, Scale: 2}},
		{Name: "c", Type: list(types.Type{Kind: types.Int})}, {Name: "d", Type: types.Type{Kind: types.Timestamp}}})
	data, _ := write(t, fields, Options{}, randomRecord(fields, 10, 1))
	f := open(t, data)
	for i, wrong := range []types.Type{{Kind: types.Int}, {Kind: types.Decimal, Precision: 20, Scale: 3}, {Kind: types.String}, {Kind: types.TimestampTZ}} {
		wanted := []types.Field{{ID: fields[i].ID, Name: "x", Type: wrong}}
		_, err := f.Take(context.Background(), wanted, []int64{1})
		if err == nil || !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("%s is read as %s: %v", fields[i].Type, wrong, err)
		}
	}
}

func TestReadingStopsWithItsContextAndItsCaller(t *testing.T) {
	fields, rec := column1(t, types.Int, func(b array.Builder) {
		for i := range int32(100000) {
			b.(*array.Int32Builder).Append(i)
		}
	})
	data, _ := write(t, fields, Options{}, rec)
	f := open(t, data)
	n := 0
	for batch, err := range f.Batches(context.Background(), fields) {
		if err != nil {
			t.Fatal(err)
		}
		if batch.NumRows() > batchRows {
			t.Errorf("a batch has %d rows", batch.NumRows())
		}
		batch.Release()
		if n++; n == 2 {
			break
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	reason := errors.New("enough")
	n = 0
	for batch, err := range f.Batches(ctx, fields) {
		if n++; n == 1 {
			batch.Release()
			cancel(reason)
			continue
		}
		if !errors.Is(err, reason) {
			t.Errorf("after the context ended, reading gives %v", err)
		}
	}
	if n != 2 {
		t.Errorf("reading went on for %d batches", n)
	}
}

// brokenObject fails reads at or after an offset.
type brokenObject struct {
	bytesObject
	fails int64
}

var errBroken = errors.New("the store is gone")

func (o *brokenObject) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > o.fails && at < o.fails {
		return 0, errBroken
	}
	return o.Reader.ReadAt(p, at)
}

func TestFailedReadsAreErrors(t *testing.T) {
	fields := allFields()
	data, _ := write(t, fields, Options{}, randomRecord(fields, 1000, 2))
	object := &brokenObject{bytesObject{Reader: bytes.NewReader(data)}, int64(len(data) / 2)}
	f, err := Open(context.Background(), object)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var last error
	for batch, err := range f.Batches(context.Background(), fields) {
		if err != nil {
			last = err
			continue
		}
		batch.Release()
	}
	if !errors.Is(last, errBroken) {
		t.Errorf("reading from a broken object gives %v", last)
	}
	for _, cut := range [][]byte{nil, data[:10], data[:len(data)-1]} {
		object := &bytesObject{Reader: bytes.NewReader(cut)}
		if _, err := Open(context.Background(), object); err == nil || !object.closed {
			t.Errorf("a file cut to %d bytes: error %v, closed %v", len(cut), err, object.closed)
		}
	}
}
