package types

import (
	"strconv"
	"strings"
)

// DefaultNumeric is the lake type of a numeric column without precision where the options name none.
var DefaultNumeric = Type{Kind: Decimal, Precision: 38, Scale: 18}

const maxPrecision = 38

// Lake gives the lake type of a source type. It never fails: a type that is not known is a string in Postgres' own
// text form. key tells that the column is part of the table's key, where no value may be bent: a numeric without
// precision is then a string. Field IDs of nested types are left zero; AssignIDs gives them.
func Lake(pg Postgres, o Options, key bool) Type {
	pg = pg.Resolve()
	if pg.IsArray() {
		return Type{Kind: List, Fields: []Field{{Name: "element", Type: Lake(pg.element(), o, key)}}}
	}
	switch pg.OID {
	case OIDBool:
		return Type{Kind: Boolean}
	case OIDInt2, OIDInt4:
		return Type{Kind: Int}
	case OIDInt8, OIDOID:
		return Type{Kind: Long}
	case OIDFloat4:
		return Type{Kind: Float}
	case OIDFloat8:
		return Type{Kind: Double}
	case OIDNumeric:
		return lakeNumeric(pg, o, key)
	case OIDJSON, OIDJSONB:
		return Type{Kind: JSON}
	case OIDInterval:
		return Type{Kind: Interval}
	case OIDBytea:
		return Type{Kind: Binary}
	case OIDUUID:
		return Type{Kind: UUID}
	case OIDDate:
		return Type{Kind: Date}
	case OIDTime:
		return Type{Kind: Time}
	case OIDTimestamp:
		return Type{Kind: Timestamp}
	case OIDTimestampTZ:
		return Type{Kind: TimestampTZ}
	}
	switch {
	case pg.Class == 'c' && len(pg.Attributes) > 0:
		t := Type{Kind: Struct, Fields: make([]Field, len(pg.Attributes))}
		for i, a := range pg.Attributes {
			t.Fields[i] = Field{Name: a.Name, Type: Lake(a.Type, o, key)}
		}
		return t
	case pg.Name == "hstore" && pg.plain():
		return Type{Kind: Map, Fields: []Field{
			{Name: "key", Type: Type{Kind: String}, Required: true},
			{Name: "value", Type: Type{Kind: String}},
		}}
	case pg.Name == "vector" && pg.plain():
		return Type{Kind: List, Fields: []Field{{Name: "element", Type: Type{Kind: Float}}}}
	}
	return Type{Kind: String}
}

// plain reports whether the type is a base type, as an extension's own types are.
func (pg Postgres) plain() bool { return pg.Class == 'b' || pg.Class == 0 }

func lakeNumeric(pg Postgres, o Options, key bool) Type {
	p, s, ok := pg.numeric()
	if !ok {
		switch {
		case key:
			return Type{Kind: String}
		case o.Numeric.Kind == 0:
			return DefaultNumeric
		}
		return o.Numeric
	}
	switch {
	case s < 0: // whole numbers with -s zeros at their end
		p, s = p-s, 0
	case s > p: // s-p zeros after the point
		p = s
	}
	if p > maxPrecision {
		return Type{Kind: String}
	}
	return Type{Kind: Decimal, Precision: p, Scale: s}
}

// AssignIDs gives every child of t, to any depth, a field ID: *next is the next free one and is moved on. t itself is
// not changed. Children of one level come before theirs.
func AssignIDs(t Type, next *int) Type {
	if len(t.Fields) == 0 {
		return t
	}
	fields := make([]Field, len(t.Fields))
	for i, f := range t.Fields {
		f.ID = *next
		*next++
		fields[i] = f
	}
	for i := range fields {
		fields[i].Type = AssignIDs(fields[i].Type, next)
	}
	t.Fields = fields
	return t
}

// Equal reports whether two types are the same but for field IDs.
func (t Type) Equal(u Type) bool {
	if t.Kind != u.Kind || t.Precision != u.Precision || t.Scale != u.Scale || len(t.Fields) != len(u.Fields) {
		return false
	}
	for i, f := range t.Fields {
		g := u.Fields[i]
		if f.Name != g.Name || f.Required != g.Required || !f.Type.Equal(g.Type) {
			return false
		}
	}
	return true
}

// Promotes reports whether files written with type t may be read as type u: the same type, or int to long, float to
// double, more decimal precision.
func (t Type) Promotes(u Type) bool {
	switch {
	case t.Equal(u):
		return true
	case t.Kind == Int && u.Kind == Long, t.Kind == Float && u.Kind == Double:
		return true
	case t.Kind == Decimal && u.Kind == Decimal:
		return t.Scale == u.Scale && t.Precision <= u.Precision
	}
	return false
}

// Nested reports whether t has children.
func (t Type) Nested() bool { return t.Kind == List || t.Kind == Struct || t.Kind == Map }

var kindNames = [...]string{
	Boolean: "boolean", Int: "int", Long: "long", Float: "float", Double: "double", Decimal: "decimal", String: "string",
	JSON: "json", Interval: "interval", Binary: "binary", UUID: "uuid", Date: "date", Time: "time",
	Timestamp: "timestamp", TimestampTZ: "timestamptz", List: "list", Struct: "struct", Map: "map",
}

// String gives the kind's name.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// String gives the type in the manner of Iceberg: "decimal(38,18)", "list<string>", "struct<a: int, b: string>".
func (t Type) String() string {
	switch t.Kind {
	case Decimal:
		return "decimal(" + strconv.Itoa(t.Precision) + "," + strconv.Itoa(t.Scale) + ")"
	case List, Map, Struct:
		parts := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			parts[i] = f.Type.String()
			if t.Kind == Struct {
				parts[i] = f.Name + ": " + parts[i]
			}
		}
		return t.Kind.String() + "<" + strings.Join(parts, ", ") + ">"
	}
	return t.Kind.String()
}
