package conformance

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
)

// keyField is the field id of the key, a bigint; all other columns are text.
const keyField = 1

// Row is a row's values by field id, the key left out; a missing one is NULL.
type Row map[int]string

// Rows are a table's rows by key.
type Rows map[int64]Row

func (r Rows) clone() Rows {
	out := make(Rows, len(r))
	for key, row := range r {
		out[key] = maps.Clone(row)
	}
	return out
}

// render writes rows as a reader with the given schema sees them.
func (r Rows) render(s *formats.Schema) string {
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(r)) {
		fmt.Fprintf(&b, "%d:", key)
		for _, c := range s.Columns[1:] {
			v, ok := r[key][c.ID]
			if !ok {
				v = "NULL"
			}
			fmt.Fprintf(&b, " %s=%s", c.Name, v)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// NewSchema makes a schema of a bigint key "id" and one text column "val".
func NewSchema() *formats.Schema {
	return &formats.Schema{KeyKind: formats.KeyPrimary, Key: []int{0}, LastFieldID: 2, Columns: []formats.Column{
		{Field: types.Field{ID: keyField, Name: "id", Type: types.Type{Kind: types.Long}, Required: true}, Attnum: 1,
			Source: types.Postgres{OID: 20, Typmod: -1, Name: "int8", Schema: "pg_catalog", Class: 'b'}},
		textColumn(2, 2, "val", nil),
	}}
}

func textColumn(id int, attnum int16, name string, byDefault *string) formats.Column {
	return formats.Column{Field: types.Field{ID: id, Name: name, Type: types.Type{Kind: types.String}}, Attnum: attnum,
		Source: types.Postgres{OID: 25, Typmod: -1, Name: "text", Schema: "pg_catalog", Class: 'b'}, Default: byDefault}
}

// WriteFile stores rows as one Parquet file of a table, in the order of their keys.
func WriteFile(t testing.TB, store storage.Store, ref formats.TableRef, s *formats.Schema, rows Rows) formats.DataFile {
	t.Helper()
	fields := make([]arrow.Field, len(s.Columns))
	for i, c := range s.Columns {
		fields[i] = arrow.Field{Name: c.Name, Type: arrow.BinaryTypes.String, Nullable: true,
			Metadata: arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{strconv.Itoa(c.ID)})}
	}
	fields[0].Type, fields[0].Nullable = arrow.PrimitiveTypes.Int64, false
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	stats := formats.FileStats{ColumnSizes: map[int]int64{}, ValueCounts: map[int]int64{}, NullCounts: map[int]int64{}}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		b.Field(0).(*array.Int64Builder).Append(key)
		for i, c := range s.Columns[1:] {
			if v, ok := rows[key][c.ID]; ok {
				b.Field(i + 1).(*array.StringBuilder).Append(v)
			} else {
				b.Field(i + 1).AppendNull()
				stats.NullCounts[c.ID]++
			}
		}
	}
	for _, c := range s.Columns {
		stats.ValueCounts[c.ID] = int64(len(rows))
		stats.ColumnSizes[c.ID] = int64(8 * len(rows))
		stats.NullCounts[c.ID] += 0
	}
	var buf bytes.Buffer
	record := b.NewRecordBatch()
	w, err := pqarrow.NewFileWriter(record.Schema(), &buf, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err == nil {
		err = w.Write(record)
	}
	if err == nil {
		err = w.Close()
	}
	uri := ref.Location + "/data/" + uuid.NewString() + ".parquet"
	if err == nil {
		err = store.Put(context.Background(), uri, buf.Bytes())
	}
	if err != nil {
		t.Fatal(err)
	}
	return formats.DataFile{Path: uri, Rows: int64(len(rows)), Size: int64(buf.Len()), Stats: stats}
}

// EachRow calls f for each row of a file that is not deleted. Columns that the file lacks read as their default.
func EachRow(t testing.TB, store storage.Store, path string, s *formats.Schema, deleted *roaring.Bitmap, f func(position uint32, key int64, row Row)) int64 {
	t.Helper()
	ctx := context.Background()
	body, err := store.Get(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	tb, err := pqarrow.ReadTable(ctx, bytes.NewReader(body), nil, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Release()
	at := map[int]int{}
	for i, field := range tb.Schema().Fields() {
		text, _ := field.Metadata.GetValue("PARQUET:field_id")
		id, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: column %s has no field id", path, field.Name)
		}
		at[id] = i
	}
	position := uint32(0)
	for r := array.NewTableReader(tb, tb.NumRows()+1); r.Next(); {
		b := r.RecordBatch()
		for i := range int(b.NumRows()) {
			if deleted == nil || !deleted.Contains(position) {
				f(position, b.Column(at[keyField]).(*array.Int64).Value(i), rowAt(b, i, s, at))
			}
			position++
		}
	}
	return int64(position)
}

func rowAt(b arrow.RecordBatch, i int, s *formats.Schema, at map[int]int) Row {
	row := Row{}
	for _, c := range s.Columns[1:] {
		column, ok := at[c.ID]
		switch {
		case ok && !b.Column(column).IsNull(i):
			row[c.ID] = b.Column(column).ValueStr(i)
		case !ok && c.Default != nil:
			row[c.ID] = *c.Default
		}
	}
	return row
}

// Read reads a table at a view by its plan.
func Read(t testing.TB, r formats.Reader, store storage.Store, view *formats.View, name formats.TableName) (Rows, *formats.Schema) {
	t.Helper()
	plan, err := r.Plan(context.Background(), view, name)
	if err != nil {
		t.Fatal(err)
	}
	rows := Rows{}
	for _, file := range plan.Files {
		n := EachRow(t, store, file.Path, &plan.Schema, file.Deleted, func(_ uint32, key int64, row Row) {
			if _, twice := rows[key]; twice {
				t.Fatalf("key %d is in table %v twice", key, name)
			}
			rows[key] = row
		})
		if n != file.Rows {
			t.Fatalf("%s has %d rows, the plan says %d", file.Path, n, file.Rows)
		}
	}
	return rows, &plan.Schema
}

// place is where a row is.
type place struct {
	path     string
	position uint32
}

// locate gives the place of every live row of an incarnation, by what the lake says of its files.
func locate(t testing.TB, lake formats.Lake, store storage.Store, ref formats.TableRef, s *formats.Schema) map[int64]place {
	t.Helper()
	files, _, err := lake.Files(context.Background(), ref, 0)
	if err != nil {
		t.Fatal(err)
	}
	places := map[int64]place{}
	for _, file := range files {
		EachRow(t, store, file.Path, s, file.Deleted, func(position uint32, key int64, _ Row) {
			if _, twice := places[key]; twice {
				t.Fatalf("key %d is live twice", key)
			}
			places[key] = place{file.Path, position}
		})
	}
	return places
}
