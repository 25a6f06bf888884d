package queryd

import (
	"strings"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/queryd/rewrite"
	"github.com/streambed/streambed/queryd/values"
)

// numeric is the type of values that were cast to numeric without precision.
var numeric = &types.Postgres{OID: values.OIDNumeric, Typmod: -1, Name: "numeric", Schema: "pg_catalog", Class: 'b'}

// Numeric implements rewrite.Environment.
func (e *environment) Numeric() any { return numeric }

// Literal implements rewrite.Environment.
func (e *environment) Literal(origin any, value string) rewrite.Node {
	source, ok := origin.(*types.Postgres)
	if ok && source.Resolve().OID == values.OIDBpchar {
		return rewrite.Text(strings.TrimRight(value, " "))
	}
	if !ok || source.Resolve().OID != values.OIDBytea {
		return nil
	}
	digits, err := byteaHex(value)
	if err != nil {
		return nil
	}
	return rewrite.Call("from_hex", rewrite.Text(digits))
}

// Type implements rewrite.Environment.
func (e *environment) Type(schema, name string) rewrite.Node {
	switch strings.ToLower(name) {
	case "name", "citext", "char", "xml", "inet", "cidr", "macaddr", "macaddr8", "money", "tsvector", "tsquery", "pg_lsn":
		return rewrite.SimpleType("VARCHAR")
	case "sql_identifier", "character_data", "yes_or_no", "cstring", "unknown", "anyarray", "pg_node_tree", "aclitem":
		return rewrite.SimpleType("VARCHAR")
	case "cardinal_number":
		return rewrite.SimpleType("INTEGER")
	case "int2vector":
		return rewrite.ListType(rewrite.SimpleType("SMALLINT"))
	case "oidvector":
		return rewrite.ListType(rewrite.SimpleType("UINTEGER"))
	case "jsonb":
		return rewrite.NamedType("json")
	case "timestamp with time zone":
		return rewrite.SimpleType("TIMESTAMP WITH TIME ZONE")
	}
	if v := e.plan.view; v != nil && isSourceType(v, name) {
		return rewrite.SimpleType("VARCHAR")
	}
	return nil
}

// isSourceType tells whether a column of the source has the type: an enum, a domain, one of an extension.
func isSourceType(view *formats.View, name string) bool {
	for i := range view.Tables {
		for _, c := range view.Tables[i].Schema.Columns {
			if c.Source.Name == name {
				return true
			}
		}
	}
	return false
}

// typeNode makes the parse tree of the type that takes a parameter of a Postgres type.
func typeNode(oid uint32) rewrite.Node {
	if element := values.Element(oid); element != 0 {
		return rewrite.ListType(typeNode(element))
	}
	sql := values.SQL(oid)
	switch {
	case sql == "":
		return rewrite.SimpleType("VARCHAR")
	case oid == values.OIDNumeric:
		return rewrite.DecimalType(38, 18)
	}
	if sql == "JSON" {
		return rewrite.NamedType("json")
	}
	return rewrite.SimpleType(sql)
}
