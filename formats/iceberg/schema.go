package iceberg

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
)

// Properties of a table that are ours.
const (
	// schemaProperty with an Iceberg schema id holds the formats.Schema it was made from.
	schemaProperty = "streambed.schema."
	// publishedProperty is the number of the checkpoint in which the incarnation became visible.
	publishedProperty = "streambed.published"
	tableProperty     = "streambed.table"
)

// icebergSchema converts a schema, keeping its field ids. Columns of a key that Iceberg allows as one (required, of a
// primitive type other than a floating-point one) become identifier fields.
func icebergSchema(s *formats.Schema, version int) (*iceberg.Schema, error) {
	fields := make([]iceberg.NestedField, len(s.Columns))
	for i, c := range s.Columns {
		field, err := icebergField(c.Field)
		if err != nil {
			return nil, err
		}
		if c.Default != nil && version >= 3 {
			// What the JSON form cannot hold reads as NULL elsewhere; queryd takes it from the schema property.
			if value, ok := defaultValue(c.Type, *c.Default); ok {
				field.InitialDefault = value
			}
		}
		fields[i] = field
	}
	return iceberg.NewSchemaWithIdentifiers(s.ID, identifiers(s), fields...), nil
}

func identifiers(s *formats.Schema) []int {
	ids := []int{}
	if s.KeyKind != formats.KeyPrimary && s.KeyKind != formats.KeyIdentity {
		return ids
	}
	for _, at := range s.Key {
		c := s.Columns[at]
		switch c.Type.Kind {
		case types.Float, types.Double, types.List, types.Struct, types.Map:
			return []int{}
		}
		if !c.Required {
			return []int{}
		}
		ids = append(ids, c.ID)
	}
	return ids
}

func icebergField(f types.Field) (iceberg.NestedField, error) {
	t, err := icebergType(f.Type)
	if err != nil {
		return iceberg.NestedField{}, fmt.Errorf("column %q: %w", f.Name, err)
	}
	return iceberg.NestedField{ID: f.ID, Name: f.Name, Type: t, Required: f.Required}, nil
}

var primitives = map[types.Kind]iceberg.Type{
	types.Boolean:     iceberg.PrimitiveTypes.Bool,
	types.Int:         iceberg.PrimitiveTypes.Int32,
	types.Long:        iceberg.PrimitiveTypes.Int64,
	types.Float:       iceberg.PrimitiveTypes.Float32,
	types.Double:      iceberg.PrimitiveTypes.Float64,
	types.String:      iceberg.PrimitiveTypes.String,
	types.JSON:        iceberg.PrimitiveTypes.String,
	types.Interval:    iceberg.PrimitiveTypes.String,
	types.Binary:      iceberg.PrimitiveTypes.Binary,
	types.UUID:        iceberg.PrimitiveTypes.UUID,
	types.Date:        iceberg.PrimitiveTypes.Date,
	types.Time:        iceberg.PrimitiveTypes.Time,
	types.Timestamp:   iceberg.PrimitiveTypes.Timestamp,
	types.TimestampTZ: iceberg.PrimitiveTypes.TimestampTz,
}

func icebergType(t types.Type) (iceberg.Type, error) {
	if p, ok := primitives[t.Kind]; ok {
		return p, nil
	}
	if t.Kind == types.Decimal {
		return iceberg.DecimalTypeOf(t.Precision, t.Scale), nil
	}
	children := make([]iceberg.NestedField, len(t.Fields))
	for i, f := range t.Fields {
		child, err := icebergField(f)
		if err != nil {
			return nil, err
		}
		children[i] = child
	}
	switch {
	case t.Kind == types.List && len(children) == 1:
		return &iceberg.ListType{ElementID: children[0].ID, Element: children[0].Type, ElementRequired: children[0].Required}, nil
	case t.Kind == types.Map && len(children) == 2:
		return &iceberg.MapType{KeyID: children[0].ID, KeyType: children[0].Type,
			ValueID: children[1].ID, ValueType: children[1].Type, ValueRequired: children[1].Required}, nil
	case t.Kind == types.Struct:
		return &iceberg.StructType{FieldList: children}, nil
	}
	return nil, fmt.Errorf("lake type %d with %d children has no Iceberg type", t.Kind, len(children))
}

// defaultValue turns a constant in Postgres' text form (ISO styles, UTC) into the value whose JSON form the table
// specification prescribes (appendix C). It is false for what that form cannot hold.
func defaultValue(t types.Type, text string) (any, bool) {
	switch t.Kind {
	case types.Boolean:
		return text == "t" || text == "true", true
	case types.Int, types.Long:
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	case types.Float, types.Double:
		f, err := strconv.ParseFloat(text, 64)
		return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
	case types.Decimal:
		return decimalDefault(t, text)
	case types.String, types.JSON, types.Interval:
		return text, true
	case types.Binary:
		b, err := hex.DecodeString(strings.TrimPrefix(text, `\x`))
		return b, err == nil && strings.HasPrefix(text, `\x`)
	case types.UUID:
		u, err := uuid.Parse(text)
		return u.String(), err == nil
	case types.Date:
		return timeDefault(text, "2006-01-02", "2006-01-02")
	case types.Time:
		return timeDefault(text, "15:04:05.999999", "15:04:05.000000")
	case types.Timestamp:
		return timeDefault(text, "2006-01-02 15:04:05.999999", "2006-01-02T15:04:05.000000")
	case types.TimestampTZ:
		return timeDefault(strings.TrimSuffix(text, "+00"), "2006-01-02 15:04:05.999999", "2006-01-02T15:04:05.000000+00:00")
	}
	return nil, false
}

func timeDefault(text, from, to string) (any, bool) {
	at, err := time.Parse(from, text)
	if err != nil || at.Year() > 9999 {
		return nil, false
	}
	return at.Format(to), true
}

// decimalDefault gives a decimal's text exactly the scale of its type.
func decimalDefault(t types.Type, text string) (any, bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	digits := strings.TrimLeft(strings.TrimPrefix(whole, "-"), "0")
	if strings.ContainsFunc(digits+fraction, func(r rune) bool { return r < '0' || r > '9' }) {
		return nil, false // NaN or infinity
	}
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > t.Scale || len(digits)+t.Scale > t.Precision {
		return nil, false
	}
	if t.Scale == 0 {
		return whole, true
	}
	return whole + "." + fraction + strings.Repeat("0", t.Scale-len(fraction)), true
}

func encodeSchema(s *formats.Schema) (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}

func decodeSchema(text string) (formats.Schema, error) {
	var s formats.Schema
	if text == "" {
		return s, fmt.Errorf("the table has no Streambed schema: it was not written by Streambed")
	}
	err := json.Unmarshal([]byte(text), &s)
	return s, err
}
