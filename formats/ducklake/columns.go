package ducklake

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
)

// column is one row of ducklake_column: a column of a table or a child of a nested one.
type column struct {
	id, parent int64 // parent is 0 for a column of the table
	order      int64
	name, kind string
	nullable   bool
	// initial is the constant that rows of files without the column read.
	initial sql.NullString
	t       types.Type
}

// columnKinds are DuckLake's names of our types. An interval stays Postgres' ISO 8601 text: Parquet's own interval, to
// which a rewrite by DuckDB would turn it, counts milliseconds only (promise 4).
var columnKinds = map[types.Kind]string{
	types.Boolean: "boolean", types.Int: "int32", types.Long: "int64", types.Float: "float32", types.Double: "float64",
	types.String: "varchar", types.JSON: "json", types.Interval: "varchar", types.Binary: "blob", types.UUID: "uuid",
	types.Date: "date", types.Time: "time", types.Timestamp: "timestamp", types.TimestampTZ: "timestamptz",
	types.List: "list", types.Struct: "struct", types.Map: "map",
}

// columns flattens a schema, parents before their children. Column ids are the field ids of the Parquet files.
func columns(s *formats.Schema) ([]column, error) {
	if s == nil {
		return nil, nil
	}
	fields := s.Fields()
	f := flattener{}
	if err := f.add(fields, 0); err != nil {
		return nil, err
	}
	at := 0
	for i := range f.out {
		if f.out[i].parent != 0 {
			continue
		}
		f.out[i].initial = initialDefault(&s.Columns[at])
		at++
	}
	return f.out, nil
}

type flattener struct {
	out   []column
	order int64
}

func (f *flattener) add(fields []types.Field, parent int64) error {
	names := nameSet{}
	for _, field := range fields {
		kind := columnKinds[field.Type.Kind]
		if field.Type.Kind == types.Decimal {
			kind = fmt.Sprintf("decimal(%d,%d)", field.Type.Precision, field.Type.Scale)
		}
		if kind == "" || field.ID <= 0 {
			return fmt.Errorf("column %q of type %s with field id %d has no place in DuckLake", field.Name, field.Type, field.ID)
		}
		// Ids grow with the order of columns as a rule; a column that is dropped then changes no other's row.
		f.order = max(f.order+1, int64(field.ID))
		f.out = append(f.out, column{id: int64(field.ID), parent: parent, order: f.order, name: names.take(field.Name), kind: kind,
			nullable: !field.Required, t: field.Type})
		if err := f.add(field.Type.Fields, int64(field.ID)); err != nil {
			return err
		}
	}
	return nil
}

// initialDefault gives a column's constant default as text that DuckDB casts to the column's type. Nested defaults have
// no such text: DuckDB reads NULL there, queryd the default.
func initialDefault(c *formats.Column) sql.NullString {
	none := sql.NullString{}
	if c.Default == nil || c.Type.Nested() {
		return none
	}
	a, err := types.ParseDefault(c.Source, c.Type, *c.Default)
	if err != nil {
		return none
	}
	defer a.Release()
	if a.Len() != 1 || a.IsNull(0) {
		return none
	}
	text, ok := defaultText(c.Type, a)
	return sql.NullString{String: text, Valid: ok}
}

func defaultText(t types.Type, a interface{ ValueStr(int) string }) (string, bool) {
	switch a := a.(type) {
	case *array.String:
		return a.Value(0), true
	case *array.Binary:
		var b strings.Builder
		for _, c := range a.Value(0) {
			fmt.Fprintf(&b, `\x%02X`, c)
		}
		return b.String(), true
	case *array.Decimal128:
		return decimalText(a.Value(0).BigInt(), t.Scale), true
	case *array.Date32:
		return integerText(types.Type{Kind: types.Date}, int64(a.Value(0)))
	case *array.Time64:
		return integerText(t, int64(a.Value(0)))
	case *array.Timestamp:
		return integerText(t, int64(a.Value(0)))
	}
	return a.ValueStr(0), true // booleans, numbers, uuids
}

// columnChange is what makes one list of columns another.
type columnChange struct {
	// end are ids whose live row ends, begin are rows that begin.
	end   []int64
	begin []column
}

func (c *columnChange) empty() bool { return len(c.end) == 0 && len(c.begin) == 0 }

func diffColumns(old, next []column) columnChange {
	was := make(map[int64]column, len(old))
	for _, c := range old {
		was[c.id] = c
	}
	var change columnChange
	for _, c := range next {
		o, ok := was[c.id]
		delete(was, c.id)
		if ok && o.parent == c.parent && o.order == c.order && o.name == c.name && o.kind == c.kind && o.nullable == c.nullable && o.initial == c.initial {
			continue
		}
		if ok {
			change.end = append(change.end, c.id)
		}
		change.begin = append(change.begin, c)
	}
	for _, o := range old {
		if _, gone := was[o.id]; gone {
			change.end = append(change.end, o.id)
		}
	}
	return change
}

func encodeSchema(s *formats.Schema) (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}

func decodeSchema(text string) (s formats.Schema, err error) {
	err = json.Unmarshal([]byte(text), &s)
	return s, err
}
