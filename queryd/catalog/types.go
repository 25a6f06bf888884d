package catalog

import "strings"

// typeRow is what pg_attribute repeats of pg_type.
type typeRow struct {
	name           string
	length         int64
	byValue        bool
	align, storage string
	collation      int64
	dimensions     int64
	category       string
	element        uint32
}

var (
	typesByOID  = map[uint32]*typeRow{}
	oidsByTypes = map[string]uint32{}
)

func init() {
	for _, line := range lines("pg_type.tsv") {
		t := &typeRow{name: line[1], length: number(line[4]), byValue: line[5] == "t", category: line[7], element: uint32(number(line[13])), align: line[22], storage: line[23], collation: number(line[28])}
		if t.category == "A" {
			t.dimensions = 1
		}
		typesByOID[uint32(number(line[0]))] = t
		oidsByTypes[t.name] = uint32(number(line[0]))
	}
}

// typeByName gives a catalog column's type; the domains of information_schema are shown as what they are made of.
func typeByName(name string) uint32 {
	switch name {
	case "sql_identifier":
		name = "name"
	case "character_data", "yes_or_no":
		name = "varchar"
	case "cardinal_number":
		name = "int4"
	case "time_stamp":
		name = "timestamptz"
	}
	if oid := oidsByTypes[name]; oid != 0 {
		return oid
	}
	return oidsByTypes["text"]
}

// KnownType tells whether the catalog describes a type.
func KnownType(oid uint32) bool { return typesByOID[oid] != nil }

// standardNames are the names of SQL's standard for Postgres' types.
var standardNames = map[string]string{
	"int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real", "float8": "double precision", "bool": "boolean", "bpchar": "character",
	"varchar": "character varying", "timestamp": "timestamp without time zone", "timestamptz": "timestamp with time zone", "time": "time without time zone",
	"timetz": "time with time zone", "bit": "bit", "varbit": "bit varying", "char": `"char"`,
}

// addInformation describes a table in information_schema.
func (c *Catalog) addInformation(t *Table, kind byte) {
	kinds, insertable := "BASE TABLE", "YES"
	if kind == 'v' {
		kinds, insertable = "VIEW", "NO"
		c.add("information_schema", "views", map[string]any{"table_catalog": c.database, "table_schema": t.Schema, "table_name": t.Name, "is_updatable": "NO", "is_insertable_into": "NO"})
	}
	c.add("information_schema", "tables", map[string]any{"table_catalog": c.database, "table_schema": t.Schema, "table_name": t.Name, "table_type": kinds, "is_insertable_into": insertable, "is_typed": "NO"})
	c.add("information_schema", "table_privileges", map[string]any{"grantor": c.owner, "grantee": c.owner, "table_catalog": c.database, "table_schema": t.Schema, "table_name": t.Name, "privilege_type": "SELECT", "is_grantable": "NO", "with_hierarchy": "YES"})
	for _, column := range t.Columns {
		c.addInformationColumn(t, &column)
	}
}

func (c *Catalog) addInformationColumn(t *Table, column *TableColumn) {
	row := typesByOID[column.Type]
	values := map[string]any{"table_catalog": c.database, "table_schema": t.Schema, "table_name": t.Name, "column_name": column.Name, "ordinal_position": int64(column.Number),
		"is_nullable": "YES", "udt_catalog": c.database, "udt_schema": "pg_catalog", "udt_name": row.name, "dtd_identifier": itoa(column.Number), "is_self_referencing": "NO",
		"is_identity": "NO", "is_generated": "NEVER", "is_updatable": "NO"}
	if column.NotNull {
		values["is_nullable"] = "NO"
	}
	name := row.name
	if standard := standardNames[name]; standard != "" {
		name = standard
	}
	if row.category == "A" && strings.HasPrefix(row.name, "_") {
		name = "ARRAY"
	}
	values["data_type"] = name
	switch row.name {
	case "varchar", "bpchar":
		if column.Typmod >= 4 {
			values["character_maximum_length"] = int64(column.Typmod - 4)
			values["character_octet_length"] = int64(column.Typmod-4) * 4
		} else {
			values["character_octet_length"] = int64(1 << 30)
		}
	case "text":
		values["character_octet_length"] = int64(1 << 30)
	case "int2", "int4", "int8":
		values["numeric_precision"], values["numeric_precision_radix"], values["numeric_scale"] = map[string]int64{"int2": 16, "int4": 32, "int8": 64}[row.name], int64(2), int64(0)
	case "float4", "float8":
		values["numeric_precision"], values["numeric_precision_radix"] = map[string]int64{"float4": 24, "float8": 53}[row.name], int64(2)
	case "numeric":
		values["numeric_precision_radix"] = int64(10)
		if column.Typmod >= 4 {
			values["numeric_precision"], values["numeric_scale"] = int64(column.Typmod-4)>>16, int64(column.Typmod-4)&0x7ff
		}
	case "timestamp", "timestamptz", "time", "timetz", "interval":
		values["datetime_precision"] = int64(6)
	case "date":
		values["datetime_precision"] = int64(0)
	}
	c.add("information_schema", "columns", values)
}
