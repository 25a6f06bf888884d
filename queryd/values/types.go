// Package values shows DuckDB's values as Postgres types: which type a result column is, and its text and binary form
// straight from DuckDB's vectors.
package values

import (
	bindings "github.com/duckdb/duckdb-go-bindings"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/queryd/duck"
)

// The OIDs of Postgres' types.
const (
	OIDBool        = 16
	OIDBytea       = 17
	OIDName        = 19
	OIDInt8        = 20
	OIDInt2        = 21
	OIDInt4        = 23
	OIDText        = 25
	OIDOid         = 26
	OIDJSON        = 114
	OIDXML         = 142
	OIDFloat4      = 700
	OIDFloat8      = 701
	OIDUnknown     = 705
	OIDInet        = 869
	OIDCidr        = 650
	OIDBpchar      = 1042
	OIDVarchar     = 1043
	OIDDate        = 1082
	OIDTime        = 1083
	OIDTimestamp   = 1114
	OIDTimestampTZ = 1184
	OIDInterval    = 1186
	OIDTimeTZ      = 1266
	OIDBit         = 1560
	OIDVarbit      = 1562
	OIDNumeric     = 1700
	OIDRecord      = 2249
	OIDUUID        = 2950
	OIDJSONB       = 3802
	OIDRegclass    = 2205
	OIDRegtype     = 2206
	OIDVoid        = 2278
	OIDRecordArray = 2287
)

// Type is a Postgres type as RowDescription tells it.
type Type struct {
	OID    uint32
	Size   int16
	Typmod int32
}

// arrays are the array types of element types.
var arrays = map[uint32]uint32{
	OIDBool: 1000, OIDBytea: 1001, OIDName: 1003, OIDInt2: 1005, OIDInt4: 1007, OIDText: 1009, OIDInt8: 1016, OIDFloat4: 1021,
	OIDFloat8: 1022, OIDOid: 1028, OIDTimestamp: 1115, OIDDate: 1182, OIDTime: 1183, OIDTimestampTZ: 1185, OIDInterval: 1187,
	OIDNumeric: 1231, OIDTimeTZ: 1270, OIDUUID: 2951, OIDJSON: 199, OIDJSONB: 3807, OIDRecord: OIDRecordArray, OIDVarchar: 1015,
	OIDBpchar: 1014, OIDBit: 1561, OIDVarbit: 1563, OIDXML: 143, OIDInet: 1041, OIDCidr: 651, OIDRegclass: 2210,
}

// Array gives the array type of an element type, text[] for one that is not known.
func Array(element uint32) uint32 {
	if a, ok := arrays[element]; ok {
		return a
	}
	return arrays[OIDText]
}

// Element gives the element type of an array type, 0 if it is none.
func Element(array uint32) uint32 {
	for e, a := range arrays {
		if a == array {
			return e
		}
	}
	return 0
}

var simple = map[duck.TypeID]Type{
	bindings.TypeBoolean:     {OIDBool, 1, -1},
	bindings.TypeTinyInt:     {OIDInt2, 2, -1},
	bindings.TypeSmallInt:    {OIDInt2, 2, -1},
	bindings.TypeInteger:     {OIDInt4, 4, -1},
	bindings.TypeBigInt:      {OIDInt8, 8, -1},
	bindings.TypeUTinyInt:    {OIDInt2, 2, -1},
	bindings.TypeUSmallInt:   {OIDInt4, 4, -1},
	bindings.TypeUInteger:    {OIDOid, 4, -1},
	bindings.TypeUBigInt:     {OIDNumeric, -1, -1},
	bindings.TypeHugeInt:     {OIDNumeric, -1, -1},
	bindings.TypeUHugeInt:    {OIDNumeric, -1, -1},
	bindings.TypeFloat:       {OIDFloat4, 4, -1},
	bindings.TypeDouble:      {OIDFloat8, 8, -1},
	bindings.TypeVarchar:     {OIDText, -1, -1},
	bindings.TypeEnum:        {OIDText, -1, -1},
	bindings.TypeBlob:        {OIDBytea, -1, -1},
	bindings.TypeBit:         {OIDVarbit, -1, -1},
	bindings.TypeDate:        {OIDDate, 4, -1},
	bindings.TypeTime:        {OIDTime, 8, -1},
	bindings.TypeTimeNS:      {OIDTime, 8, -1},
	bindings.TypeTimeTZ:      {OIDTimeTZ, 12, -1},
	bindings.TypeTimestamp:   {OIDTimestamp, 8, -1},
	bindings.TypeTimestampS:  {OIDTimestamp, 8, -1},
	bindings.TypeTimestampMS: {OIDTimestamp, 8, -1},
	bindings.TypeTimestampNS: {OIDTimestamp, 8, -1},
	bindings.TypeTimestampTZ: {OIDTimestampTZ, 8, -1},
	bindings.TypeInterval:    {OIDInterval, 16, -1},
	bindings.TypeUUID:        {OIDUUID, 16, -1},
	bindings.TypeSQLNull:     {OIDText, -1, -1},
}

// Of gives the Postgres type of a DuckDB type.
func Of(t *duck.Type) Type {
	if t.Alias == "JSON" {
		return Type{OIDJSON, -1, -1}
	}
	switch t.ID {
	case bindings.TypeDecimal:
		return Type{OIDNumeric, -1, int32(t.Width)<<16 | int32(t.Scale) + 4}
	case bindings.TypeList, bindings.TypeArray:
		element := Of(&t.Children[0])
		if Element(element.OID) != 0 {
			return element // Postgres has one type for arrays of any number of dimensions
		}
		return Type{Array(element.OID), -1, element.Typmod}
	case bindings.TypeStruct:
		return Type{OIDRecord, -1, -1}
	}
	if s, ok := simple[t.ID]; ok {
		return s
	}
	return Type{OIDText, -1, -1}
}

// FromSource gives the type that a column of the source has, where DuckDB's type is only how the lake keeps it: the
// second result is false when DuckDB's type says it all.
func FromSource(t *duck.Type, source *types.Postgres) (Type, bool) {
	source = resolve(source)
	switch {
	case t.ID == bindings.TypeVarchar && t.Alias == "":
		switch source.OID {
		case OIDJSON, OIDJSONB, OIDXML:
			return Type{source.OID, -1, -1}, true
		case OIDVarchar, OIDBpchar:
			return Type{source.OID, -1, source.Typmod}, true
		case OIDName:
			return Type{OIDName, 64, -1}, true
		}
	case t.ID == bindings.TypeList && (source.OID == types.OIDInt2Vector || source.OID == types.OIDOIDVector):
		return Type{source.OID, -1, -1}, true
	case t.ID == bindings.TypeDecimal && source.OID == OIDNumeric && source.Typmod < 0:
		return Type{OIDNumeric, -1, -1}, true
	}
	return Type{}, false
}

// resolve gives the type below any domains.
func resolve(source *types.Postgres) *types.Postgres {
	r := source.Resolve()
	return &r
}

// SQL names the DuckDB type that takes a parameter of a Postgres type, "" when there is none.
func SQL(oid uint32) string {
	if e := Element(oid); e != 0 {
		if s := SQL(e); s != "" {
			return s + "[]"
		}
		return "VARCHAR[]"
	}
	return sqlTypes[oid]
}

var sqlTypes = map[uint32]string{
	OIDBool: "BOOLEAN", OIDBytea: "BLOB", OIDName: "VARCHAR", OIDInt8: "BIGINT", OIDInt2: "SMALLINT", OIDInt4: "INTEGER", OIDText: "VARCHAR",
	OIDOid: "UINTEGER", OIDJSON: "JSON", OIDXML: "VARCHAR", OIDFloat4: "FLOAT", OIDFloat8: "DOUBLE", OIDBpchar: "VARCHAR",
	OIDVarchar: "VARCHAR", OIDDate: "DATE", OIDTime: "TIME", OIDTimestamp: "TIMESTAMP", OIDTimestampTZ: "TIMESTAMP WITH TIME ZONE",
	OIDInterval: "INTERVAL", OIDTimeTZ: "TIME WITH TIME ZONE", OIDNumeric: "DECIMAL(38,18)", OIDUUID: "UUID", OIDJSONB: "JSON",
	OIDVarbit: "BIT", OIDBit: "BIT", OIDInet: "VARCHAR", OIDCidr: "VARCHAR", OIDRegclass: "UINTEGER", OIDRegtype: "UINTEGER",
}
