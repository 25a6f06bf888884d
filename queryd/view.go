package queryd

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	bindings "github.com/duckdb/duckdb-go-bindings"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/queryd/names"
	"github.com/streambed/streambed/queryd/values"
)

// viewSQL makes the view of a table version. Columns are found in the files by field id: a file may be older than a
// rename, a widening or a new column, whose default it then reads. Inside the scan columns have names of ours, so that no
// column of a user can be taken for the file's own row number.
func viewSQL(v *tableVersion, schema *formats.Schema, paths []string) (string, error) {
	if len(schema.Columns) == 0 {
		return "", failf("0A000", "a table without columns cannot be read")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE VIEW %s.%s AS SELECT ", lakeSchema, v.view)
	for i, c := range schema.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		value := fmt.Sprintf("c%d", c.ID)
		if len(paths) == 0 {
			value = "CAST(NULL AS " + scanType(&c) + ")"
		}
		b.WriteString(shown(&c, value) + " AS " + duck.Identifier(names.Encode(c.Name)))
	}
	if len(paths) == 0 {
		b.WriteString(" WHERE false")
		return b.String(), nil
	}
	b.WriteString(" FROM read_parquet([")
	for i, p := range paths {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(duck.Literal(escapeGlob(p)))
	}
	b.WriteString("], hive_partitioning = false, union_by_name = false, schema = MAP {")
	for i, c := range schema.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d: {name: 'c%d', type: %s, default_value: %s}", c.ID, c.ID, duck.Literal(scanType(&c)), defaultValue(&c))
	}
	b.WriteString("})")
	switch {
	case v.deletes != nil && len(paths) == 1:
		fmt.Fprintf(&b, " WHERE %s(%d::UINTEGER, file_row_number)", duck.LiveInOneFunction, v.deletes.Slot)
	case v.deletes != nil:
		fmt.Fprintf(&b, " WHERE %s(%d::UINTEGER, file_index, file_row_number)", duck.LiveFunction, v.deletes.Slot)
	}
	return b.String(), nil
}

// escapeGlob keeps DuckDB from taking a path for a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]").Replace(path)
}

// shownType is the Postgres type that results show a column as.
func shownType(c *formats.Column) values.Type {
	t := duck.Type{ID: bindings.TypeVarchar}
	if c.Type.Kind == types.Decimal {
		t = duck.Type{ID: bindings.TypeDecimal, Width: c.Type.Precision, Scale: c.Type.Scale}
	}
	if c.Type.Kind == types.String || c.Type.Kind == types.JSON || c.Type.Kind == types.Decimal {
		if as, ok := values.FromSource(&t, &c.Source); ok {
			return as
		}
	}
	switch scanType(c) {
	case "SMALLINT":
		return values.Type{OID: values.OIDInt2, Size: 2, Typmod: -1}
	case "UINTEGER":
		return values.Type{OID: values.OIDOid, Size: 4, Typmod: -1}
	}
	return kindType(&c.Type)
}

var kindOIDs = map[types.Kind]uint32{
	types.Boolean: values.OIDBool, types.Int: values.OIDInt4, types.Long: values.OIDInt8, types.Float: values.OIDFloat4, types.Double: values.OIDFloat8,
	types.Decimal: values.OIDNumeric, types.Interval: values.OIDInterval, types.Binary: values.OIDBytea, types.UUID: values.OIDUUID, types.Date: values.OIDDate,
	types.Time: values.OIDTime, types.Timestamp: values.OIDTimestamp, types.TimestampTZ: values.OIDTimestampTZ, types.Struct: values.OIDRecord,
}

func kindType(t *types.Type) values.Type {
	switch t.Kind {
	case types.List:
		element := kindType(&t.Fields[0].Type)
		if values.Element(element.OID) != 0 {
			return element
		}
		return values.Type{OID: values.Array(element.OID), Size: -1, Typmod: element.Typmod}
	case types.Decimal:
		return values.Type{OID: values.OIDNumeric, Size: -1, Typmod: int32(t.Precision)<<16 | int32(t.Scale) + 4}
	}
	if oid := kindOIDs[t.Kind]; oid != 0 {
		return values.Type{OID: oid, Typmod: -1}
	}
	return values.Type{OID: values.OIDText, Size: -1, Typmod: -1}
}

// scanType is the DuckDB type that a column is read as.
func scanType(c *formats.Column) string {
	switch c.Source.Name {
	case "int2":
		if c.Type.Kind == types.Int {
			return "SMALLINT"
		}
	case "oid":
		if c.Type.Kind == types.Long {
			return "UINTEGER"
		}
	}
	return duckType(&c.Type)
}

var duckTypes = map[types.Kind]string{
	types.Boolean: "BOOLEAN", types.Int: "INTEGER", types.Long: "BIGINT", types.Float: "FLOAT", types.Double: "DOUBLE", types.String: "VARCHAR",
	types.JSON: "VARCHAR", types.Interval: "VARCHAR", types.Binary: "BLOB", types.UUID: "UUID", types.Date: "DATE", types.Time: "TIME",
	types.Timestamp: "TIMESTAMP", types.TimestampTZ: "TIMESTAMP WITH TIME ZONE",
}

func duckType(t *types.Type) string {
	switch t.Kind {
	case types.Decimal:
		return fmt.Sprintf("DECIMAL(%d,%d)", t.Precision, t.Scale)
	case types.List:
		return duckType(&t.Fields[0].Type) + "[]"
	case types.Map:
		return "MAP(" + duckType(&t.Fields[0].Type) + ", " + duckType(&t.Fields[1].Type) + ")"
	case types.Struct:
		members := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			members[i] = duck.Identifier(f.Name) + " " + duckType(&f.Type)
		}
		return "STRUCT(" + strings.Join(members, ", ") + ")"
	}
	return duckTypes[t.Kind]
}

// shown makes the expression that clients see of a column.
func shown(c *formats.Column, value string) string {
	if c.Type.Kind == types.Interval {
		return duck.IntervalFunction + "(" + value + ")"
	}
	if source := c.Source.Resolve(); source.OID == values.OIDBpchar && source.Typmod >= 0 {
		// The blanks that fill a char(n) count in no comparison and are no part of its text: Postgres' own rule. Results
		// that show the column itself have them (values.TextAs).
		return "rtrim(" + value + ", ' ')"
	}
	return value
}

// defaultValue writes a column's default, in Postgres' text, as DuckDB's text of the same value.
func defaultValue(c *formats.Column) string {
	if c.Default == nil {
		return "NULL::VARCHAR"
	}
	text := *c.Default
	switch c.Type.Kind {
	case types.Binary:
		raw, err := hex.DecodeString(strings.TrimPrefix(text, `\x`))
		if err != nil {
			return "NULL::VARCHAR"
		}
		text = blobText(raw)
	case types.List, types.Map, types.Struct:
		value, err := types.ParseDefault(c.Source, c.Type, text)
		if err != nil {
			return "NULL::VARCHAR"
		}
		defer value.Release()
		text = nestedText(value, 0)
	}
	return duck.Literal(text)
}

// nestedText writes a value as the text that DuckDB casts to a list, map or struct.
func nestedText(a arrow.Array, i int) string {
	if a.IsNull(i) {
		return "NULL"
	}
	items := func(values array.ListLike, item func(j int) string) string {
		var items []string
		for from, to := values.ValueOffsets(i); from < to; from++ {
			items = append(items, item(int(from)))
		}
		return strings.Join(items, ", ")
	}
	switch a := a.(type) {
	case *array.Map:
		return "{" + items(a, func(j int) string { return nestedText(a.Keys(), j) + "=" + nestedText(a.Items(), j) }) + "}"
	case array.ListLike:
		return "[" + items(a, func(j int) string { return nestedText(a.ListValues(), j) }) + "]"
	case *array.Struct:
		fields := a.DataType().(*arrow.StructType).Fields()
		members := make([]string, len(fields))
		for f := range fields {
			members[f] = quoted(fields[f].Name) + ": " + nestedText(a.Field(f), i)
		}
		return "{" + strings.Join(members, ", ") + "}"
	case *array.Binary:
		return quoted(blobText(a.Value(i)))
	}
	return quoted(a.ValueStr(i))
}

// quoted writes text inside a nested value.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// blobText writes bytes as the text that DuckDB casts to a BLOB.
func blobText(raw []byte) string {
	var b strings.Builder
	for _, x := range raw {
		fmt.Fprintf(&b, `\x%02X`, x)
	}
	return b.String()
}
