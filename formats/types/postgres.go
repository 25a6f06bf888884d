package types

import (
	"strconv"
	"strings"
)

// Object ids of Postgres' built-in types, the same in every database.
const (
	OIDBool        uint32 = 16
	OIDBytea       uint32 = 17
	OIDChar        uint32 = 18
	OIDName        uint32 = 19
	OIDInt8        uint32 = 20
	OIDInt2        uint32 = 21
	OIDInt2Vector  uint32 = 22
	OIDInt4        uint32 = 23
	OIDText        uint32 = 25
	OIDOID         uint32 = 26
	OIDOIDVector   uint32 = 30
	OIDJSON        uint32 = 114
	OIDXML         uint32 = 142
	OIDBox         uint32 = 603
	OIDCIDR        uint32 = 650
	OIDFloat4      uint32 = 700
	OIDFloat8      uint32 = 701
	OIDUnknown     uint32 = 705
	OIDMacaddr8    uint32 = 774
	OIDMoney       uint32 = 790
	OIDMacaddr     uint32 = 829
	OIDInet        uint32 = 869
	OIDBpchar      uint32 = 1042
	OIDVarchar     uint32 = 1043
	OIDDate        uint32 = 1082
	OIDTime        uint32 = 1083
	OIDTimestamp   uint32 = 1114
	OIDTimestampTZ uint32 = 1184
	OIDInterval    uint32 = 1186
	OIDTimeTZ      uint32 = 1266
	OIDBit         uint32 = 1560
	OIDVarbit      uint32 = 1562
	OIDNumeric     uint32 = 1700
	OIDUUID        uint32 = 2950
	OIDJSONB       uint32 = 3802
)

// IsArray reports whether the type is a true array. int2vector and oidvector have elements but are written otherwise.
func (pg Postgres) IsArray() bool {
	return pg.Element != nil && pg.OID != OIDInt2Vector && pg.OID != OIDOIDVector
}

// Resolve gives the type below any domains, with the type modifier that holds for its values.
func (pg Postgres) Resolve() Postgres {
	for pg.Base != nil {
		pg = *pg.Base
	}
	return pg
}

// element gives an array's element type; an array column's type modifier is its elements'.
func (pg Postgres) element() Postgres {
	element := *pg.Element
	if element.Typmod < 0 && pg.Typmod >= 0 && element.Base == nil {
		element.Typmod = pg.Typmod
	}
	return element
}

// numeric gives a numeric type's declared precision and scale; ok is false when it has none.
func (pg Postgres) numeric() (precision, scale int, ok bool) {
	if pg.Typmod < 4 {
		return 0, 0, false
	}
	m := pg.Typmod - 4
	// The scale is the low 11 bits in two's complement (negative scales exist from Postgres 15).
	return int(m>>16) & 0xffff, int((m&0x7ff)^1024) - 1024, true
}

// delimiter is what stands between an array's elements of this type in text.
func (pg Postgres) delimiter() byte {
	switch {
	case pg.OID == OIDBox:
		return ';'
	case pg.Name == "geometry" || pg.Name == "geography":
		return ':'
	}
	return ','
}

var sqlNames = map[uint32]string{
	OIDBool: "boolean", OIDChar: `"char"`, OIDInt8: "bigint", OIDInt2: "smallint", OIDInt4: "integer",
	OIDFloat4: "real", OIDFloat8: "double precision", OIDBpchar: "character", OIDVarchar: "character varying",
	OIDTime: "time without time zone", OIDTimestamp: "timestamp without time zone",
	OIDTimestampTZ: "timestamp with time zone", OIDTimeTZ: "time with time zone", OIDVarbit: "bit varying",
}

// SourceName gives the type as Postgres' format_type prints it: "numeric(10,2)", "integer[]", "character varying(20)".
// A type of another schema than pg_catalog and public is qualified.
func SourceName(pg Postgres) string {
	if pg.IsArray() {
		return SourceName(pg.element()) + "[]"
	}
	name, ok := sqlNames[pg.OID]
	if !ok {
		name = quoteIdentifier(pg.Name)
		if pg.Schema != "" && pg.Schema != "pg_catalog" && pg.Schema != "public" {
			name = quoteIdentifier(pg.Schema) + "." + name
		}
	}
	if pg.Typmod < 0 || pg.Class == 'd' {
		return name
	}
	switch pg.OID {
	case OIDNumeric:
		if p, s, ok := pg.numeric(); ok {
			return name + "(" + strconv.Itoa(p) + "," + strconv.Itoa(s) + ")"
		}
	case OIDVarchar, OIDBpchar:
		if pg.Typmod >= 4 {
			return name + "(" + strconv.Itoa(int(pg.Typmod-4)) + ")"
		}
	case OIDBit, OIDVarbit:
		return name + "(" + strconv.Itoa(int(pg.Typmod)) + ")"
	case OIDTime, OIDTimestamp, OIDTimestampTZ, OIDTimeTZ:
		kind, rest, _ := strings.Cut(name, " ")
		return kind + "(" + strconv.Itoa(int(pg.Typmod)) + ") " + rest
	}
	return name
}

func quoteIdentifier(name string) string {
	plain := name != ""
	for i := 0; i < len(name); i++ {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c == '_' || i > 0 && c >= '0' && c <= '9') {
			plain = false
		}
	}
	if plain {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
