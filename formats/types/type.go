// Package types is the one table of truth between Postgres' types, the lake's types (Iceberg, DuckLake) and Arrow:
// how a source type maps, how its wire values decode, and what happens to a value that the lake's type cannot hold.
package types

// Kind is the kind of a lake type.
type Kind uint8

// The kinds of lake types. JSON and Interval are stored as strings; the kind is kept so that queryd shows the right
// type. Timestamp and TimestampTZ count microseconds.
const (
	Boolean Kind = iota + 1
	Int
	Long
	Float
	Double
	Decimal
	String
	JSON
	Interval
	Binary
	UUID
	Date
	Time
	Timestamp
	TimestampTZ
	List
	Struct
	Map
)

// Type is a lake type. Two types are the same when they are deeply equal but for field IDs.
type Type struct {
	Kind Kind `json:"kind"`
	// Precision and Scale are of Decimal; 1 <= Precision <= 38, 0 <= Scale <= Precision.
	Precision int `json:"precision,omitempty"`
	Scale     int `json:"scale,omitempty"`
	// Fields are the children: of List one named "element", of Map "key" and "value", of Struct its fields.
	Fields []Field `json:"fields,omitempty"`
}

// Field is a named, numbered place in a schema: a column, or a child of a nested type.
type Field struct {
	// ID is the Iceberg field id (DuckLake column id): unique in its table, from 1, never reused.
	ID       int    `json:"id"`
	Name     string `json:"name"`
	Type     Type   `json:"type"`
	Required bool   `json:"required,omitempty"`
}

// Postgres describes a source type as its catalog (pg_type) has it.
type Postgres struct {
	OID uint32 `json:"oid"`
	// Typmod is pg_attribute.atttypmod; -1 when none.
	Typmod int32 `json:"typmod"`
	// Name is pg_type.typname ("int4", "numeric", "_text", "mood"), Schema its namespace.
	Name   string `json:"name"`
	Schema string `json:"schema,omitempty"`
	// Class is pg_type.typtype: b base, c composite, d domain, e enum, r range, m multirange, p pseudo.
	Class byte `json:"class,omitempty"`
	// Element is the element type of an array, Base that of a domain; else nil.
	Element *Postgres `json:"element,omitempty"`
	Base    *Postgres `json:"base,omitempty"`
	// Attributes are those of a composite type, in order, dropped ones left out.
	Attributes []Attribute `json:"attributes,omitempty"`
}

// Attribute is one attribute of a composite source type.
type Attribute struct {
	Name string   `json:"name"`
	Type Postgres `json:"type"`
}
