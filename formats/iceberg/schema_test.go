package iceberg_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go/table"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/types"
)

func column(id int, name string, t types.Type, byDefault string) formats.Column {
	c := formats.Column{Field: types.Field{ID: id, Name: name, Type: t}, Attnum: int16(id), Source: types.Postgres{Typmod: -1, Name: "any"}}
	if byDefault != "" {
		c.Default = &byDefault
	}
	return c
}

func kind(k types.Kind) types.Type { return types.Type{Kind: k} }

// stockText reads a table with the stock scanner as text, one sorted line a row, columns in the table's order.
func stockText(t testing.TB, st *table.Table, options ...table.ScanOption) string {
	t.Helper()
	tb := must[arrow.Table](t)(st.Scan(options...).ToArrowTable(t.Context()))
	defer tb.Release()
	var lines []string
	for r := array.NewTableReader(tb, 0); r.Next(); {
		b := r.RecordBatch()
		for i := range int(b.NumRows()) {
			var line []string
			for j, c := range b.Columns() {
				line = append(line, b.ColumnName(j)+"="+c.ValueStr(i))
			}
			lines = append(lines, strings.Join(line, " "))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestStockScannerFollowsSchemaChanges(t *testing.T) {
	e := newEnv(t)
	name := formats.TableName{Schema: "public", Table: "orders"}
	ref := e.lake.NewTable(name)
	one := simpleSchema()
	one.Columns = append(one.Columns, column(3, "n", kind(types.Int), ""), column(4, "gone", kind(types.String), ""))
	one.LastFieldID = 4
	sc := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: fieldID(1)},
		{Name: "val", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: fieldID(2)},
		{Name: "n", Type: arrow.PrimitiveTypes.Int32, Nullable: true, Metadata: fieldID(3)},
		{Name: "gone", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: fieldID(4)}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	b.Field(0).(*array.Int64Builder).AppendValues([]int64{1, 2}, nil)
	b.Field(1).(*array.StringBuilder).AppendValues([]string{"x", "y"}, nil)
	b.Field(2).(*array.Int32Builder).AppendValues([]int32{-7, 7}, nil)
	b.Field(3).(*array.StringBuilder).AppendValues([]string{"g", "h"}, nil)
	file := e.file(ref, b, formats.FileStats{})
	e.commit(formats.TableChange{Table: ref, Create: true, Publish: true, Schema: one, Add: []formats.DataFile{file}})
	first := "id=1 val=x n=-7 gone=g\nid=2 val=y n=7 gone=h"
	if got := stockText(t, e.stock(name)); got != first {
		t.Fatalf("got\n%s", got)
	}
	before := e.stock(name).CurrentSnapshot().SnapshotID

	two := *one // renamed, widened, dropped, added with and without a default; no data
	two.ID, two.LastFieldID = 1, 9
	two.Columns = []formats.Column{one.Columns[0], one.Columns[1], one.Columns[2], column(5, "gone", kind(types.String), ""),
		column(6, "flag", kind(types.Boolean), "t"), column(7, "price", types.Type{Kind: types.Decimal, Precision: 10, Scale: 2}, "12.5"),
		column(8, "big", kind(types.Long), "4503599627370497"), column(9, "note", kind(types.String), `it's "so"`)}
	two.Columns[1].Name, two.Columns[2].Type = "value", kind(types.Long)
	e.commit(formats.TableChange{Table: ref, Schema: &two})
	second := `id=1 value=x n=-7 gone=(null) flag=true price=12.5 big=4503599627370497 note=it's "so"`
	if got, _, _ := strings.Cut(stockText(t, e.stock(name)), "\n"); got != second {
		t.Fatalf("got\n%s\nwant\n%s", got, second)
	}
	st := e.stock(name)
	if *st.CurrentSnapshot().SchemaID != 1 || st.Schema().ID != 1 || st.Metadata().LastColumnID() != 9 {
		t.Fatalf("snapshot's schema %d, table's %d, last column %d", *st.CurrentSnapshot().SchemaID, st.Schema().ID, st.Metadata().LastColumnID())
	}
	if got := stockText(t, st, table.WithSnapshotID(before)); got != first {
		t.Fatalf("the older snapshot reads\n%s", got)
	}
	// A change together with data and deletes, then back to what the schema was: an old schema id, but our newest.
	e.commit(formats.TableChange{Table: ref, Schema: &two, Deletes: map[string]*roaring.Bitmap{file.Path: positions(1)}})
	back := two
	back.ID = 2
	back.Columns = back.Columns[:3]
	e.commit(formats.TableChange{Table: ref, Schema: &back})
	again := two
	again.ID = 3
	e.commit(formats.TableChange{Table: ref, Schema: &again})
	if got := stockText(t, e.stock(name)); got != second {
		t.Fatalf("got\n%s", got)
	}
	view := must[*formats.View](t)(e.reader().Current(e.ctx))
	if view.Tables[0].Schema.ID != 3 {
		t.Fatalf("the reader has schema %d", view.Tables[0].Schema.ID)
	}
}

// TestDefaultsSurviveReopening has a default that no floating-point number holds, and kinds that iceberg-go's scanner
// does not read.
func TestDefaultsSurviveReopening(t *testing.T) {
	e := newEnv(t)
	ref := e.create("public", "orders")
	s := *simpleSchema()
	s.ID, s.LastFieldID = 1, 5
	s.Columns = append(s.Columns, column(3, "big", kind(types.Long), "9007199254740993"), column(4, "day", kind(types.Date), "2024-02-29"),
		column(5, "at", kind(types.TimestampTZ), "2024-02-29 12:00:00+00"))
	e.commit(formats.TableChange{Table: ref, Schema: &s})
	for range 2 {
		e.open()
		e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{e.rows(ref, e.number, 1, "a")}})
	}
	body := string(must[[]byte](t)(e.store.Get(e.ctx, e.stock(ref.Name).MetadataLocation())))
	for _, want := range []string{`"initial-default":9007199254740993`, `"initial-default":"2024-02-29"`, `"initial-default":"2024-02-29T12:00:00.000000+00:00"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the metadata has no %s", want)
		}
	}
}

func TestOldSchemasLeaveWithTheirSnapshots(t *testing.T) {
	e := newEnv(t, func(cfg *iceberg.Config) { cfg.Retention.Max = 3 })
	ref := e.create("public", "orders")
	s := simpleSchema()
	for i := range 12 {
		next := *s
		next.ID = i + 1
		next.Columns = slices.Clone(s.Columns)
		next.Columns[1].Name = fmt.Sprint("val", i)
		e.commit(formats.TableChange{Table: ref, Schema: &next})
	}
	st := e.stock(ref.Name)
	ours := 0
	for key := range st.Properties() {
		if strings.HasPrefix(key, "streambed.schema.") {
			ours++
		}
	}
	if n := len(st.Metadata().Schemas()); n > 4 || ours != n {
		t.Fatalf("%d schemas and %d properties are kept", n, ours)
	}
	e.open()
	e.check(ref.Name, contents{})
}

func TestEveryTypeAndItsKeyReachTheCatalog(t *testing.T) {
	e := newEnv(t)
	ref := e.lake.NewTable(formats.TableName{Schema: "public", Table: "types"})
	s := &formats.Schema{KeyKind: formats.KeyPrimary, Key: []int{1, 0}, LastFieldID: 40}
	for i, k := range []types.Kind{types.Long, types.String, types.Boolean, types.Int, types.Float, types.Double, types.JSON, types.Interval,
		types.Binary, types.UUID, types.Date, types.Time, types.Timestamp, types.TimestampTZ} {
		c := column(i+1, fmt.Sprint("c", i+1), kind(k), "")
		c.Required = i < 2
		s.Columns = append(s.Columns, c)
	}
	element := types.Field{ID: 21, Name: "element", Type: kind(types.Int)}
	s.Columns = append(s.Columns,
		column(20, "list", types.Type{Kind: types.List, Fields: []types.Field{element}}, ""),
		column(22, "struct", types.Type{Kind: types.Struct, Fields: []types.Field{{ID: 23, Name: "a.b", Type: kind(types.Int)}, {ID: 24, Name: "c", Type: kind(types.String)}}}, ""),
		column(25, "map", types.Type{Kind: types.Map, Fields: []types.Field{{ID: 26, Name: "key", Type: kind(types.String), Required: true}, {ID: 27, Name: "value", Type: kind(types.String)}}}, ""),
		column(28, "dec", types.Type{Kind: types.Decimal, Precision: 38, Scale: 18}, ""))
	e.commit(formats.TableChange{Table: ref, Create: true, Publish: true, Schema: s})
	st := e.stock(ref.Name)
	want := "1:long 2:string 3:boolean 4:int 5:float 6:double 7:string 8:string 9:binary 10:uuid 11:date 12:time 13:timestamp 14:timestamptz " +
		"20:list<int> 22:struct<23: a.b: optional int, 24: c: optional string> 25:map<string, string> 28:decimal(38, 18)"
	var got []string
	for _, f := range st.Schema().Fields() {
		got = append(got, fmt.Sprintf("%d:%s", f.ID, f.Type))
	}
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
	if !slices.Equal(st.Schema().IdentifierFieldIDs, []int{2, 1}) {
		t.Errorf("identifier fields %v", st.Schema().IdentifierFieldIDs)
	}
	if st.Metadata().Version() != 3 {
		t.Errorf("format version %d", st.Metadata().Version())
	}
}

func TestDefaultsTakeTheSpecifiedForm(t *testing.T) {
	decimal := types.Type{Kind: types.Decimal, Precision: 6, Scale: 2}
	for _, test := range []struct {
		t    types.Type
		text string
		want string // JSON, "" when it cannot be told
	}{
		{kind(types.Boolean), "f", "false"}, {kind(types.Int), "-5", "-5"}, {kind(types.Long), "9007199254740993", "9007199254740993"},
		{kind(types.Double), "0.1", "0.1"}, {kind(types.Double), "NaN", ""}, {kind(types.Float), "-Infinity", ""},
		{decimal, "1.5", `"1.50"`}, {decimal, "-0.05", `"-0.05"`}, {decimal, "1234", `"1234.00"`}, {decimal, "12345", ""}, {decimal, "1.505", ""}, {decimal, "NaN", ""},
		{types.Type{Kind: types.Decimal, Precision: 3}, "42", `"42"`},
		{kind(types.String), "", `""`}, {kind(types.JSON), `{"a": 1}`, `"{\"a\": 1}"`},
		{kind(types.UUID), "A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`},
		{kind(types.Date), "2024-02-29", `"2024-02-29"`}, {kind(types.Date), "infinity", ""}, {kind(types.Date), "0044-03-15 BC", ""}, {kind(types.Date), "10000-01-01", ""},
		{kind(types.Time), "22:31:08.5", `"22:31:08.500000"`}, {kind(types.Time), "24:00:00", ""},
		{kind(types.Timestamp), "2017-11-16 22:31:08", `"2017-11-16T22:31:08.000000"`},
		{kind(types.TimestampTZ), "2017-11-16 22:31:08.123456+00", `"2017-11-16T22:31:08.123456+00:00"`},
		{types.Type{Kind: types.List}, "{}", ""},
	} {
		v, ok := iceberg.DefaultValue(test.t, test.text)
		if !ok {
			if test.want != "" {
				t.Errorf("%v %q has no form", test.t.Kind, test.text)
			}
			continue
		}
		if got := string(must[[]byte](t)(json.Marshal(v))); got != test.want {
			t.Errorf("%v %q is %s, want %q", test.t.Kind, test.text, got, test.want)
		}
	}
}

func TestCatalogLooksAsOthersExpect(t *testing.T) {
	e := newEnv(t)
	for i, name := range []formats.TableName{{Schema: "a.b", Table: "c.d"}, {Schema: "a", Table: "b.c"}, {Schema: "Mixed Case", Table: `"q"`}} {
		ref := e.lake.NewTable(name)
		f := e.rows(ref, int64(i), 1, "v")
		e.commit(formats.TableChange{Table: ref, Create: true, Publish: true, Schema: simpleSchema(), Add: []formats.DataFile{f}})
		e.check(name, contents{}.fill(int64(i), 1, "v"))
	}
	cat := e.stockCatalog()
	namespaces := must[[]table.Identifier](t)(cat.ListNamespaces(e.ctx, nil))
	if len(namespaces) != 3 {
		t.Errorf("namespaces %q", namespaces)
	}
	count := 0
	for id, err := range cat.ListTables(e.ctx, table.Identifier{"a.b"}) {
		if err != nil {
			t.Fatal(err)
		}
		if count++; !slices.Equal(id, table.Identifier{"a.b", "c.d"}) {
			t.Errorf("table %q", id)
		}
	}
	if count != 1 {
		t.Errorf("%d tables in the namespace with a dot", count)
	}
}

func TestSummaryTellsThePosition(t *testing.T) {
	e := newEnv(t)
	ref := e.create("public", "orders")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{e.rows(ref, 0, 2, "a")}})
	p := e.stock(ref.Name).CurrentSnapshot().Summary.Properties
	for key, want := range map[string]string{"streambed.lsn": "0/C8", "streambed.checkpoint": "2", "streambed.commit-time": "2026-03-01T12:00:02Z",
		"added-data-files": "1", "added-records": "2", "total-records": "2", "total-data-files": "1", "total-delete-files": "0"} {
		if p[key] != want {
			t.Errorf("%s is %q, want %q", key, p[key], want)
		}
	}
	infos := must[[]formats.SnapshotInfo](t)(e.reader().Snapshots(e.ctx, ref.Name))
	if i := infos[1]; len(infos) != 2 || i.Checkpoint != 2 || i.Position != 200 || !i.CommitTime.Equal(e.now) || i.Rows != 2 || i.Files != 1 || i.Operation != "append" {
		t.Errorf("%+v", infos)
	}
}
