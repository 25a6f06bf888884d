package types

import (
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

// FieldIDKey is the Arrow metadata key under which a field's ID goes to and comes from Parquet.
const FieldIDKey = "PARQUET:field_id"

var uuidType = extensions.NewUUIDType()

// Arrow gives the Arrow type of a lake type. JSON and Interval are strings; UUID is the extension arrow.uuid over
// fixed_size_binary(16), which Parquet stores with its UUID logical type. Children carry their field IDs.
func (t Type) Arrow() arrow.DataType {
	switch t.Kind {
	case Boolean:
		return arrow.FixedWidthTypes.Boolean
	case Int:
		return arrow.PrimitiveTypes.Int32
	case Long:
		return arrow.PrimitiveTypes.Int64
	case Float:
		return arrow.PrimitiveTypes.Float32
	case Double:
		return arrow.PrimitiveTypes.Float64
	case Decimal:
		return &arrow.Decimal128Type{Precision: int32(t.Precision), Scale: int32(t.Scale)}
	case Binary:
		return arrow.BinaryTypes.Binary
	case UUID:
		return uuidType
	case Date:
		return arrow.FixedWidthTypes.Date32
	case Time:
		return arrow.FixedWidthTypes.Time64us
	case Timestamp:
		return &arrow.TimestampType{Unit: arrow.Microsecond}
	case TimestampTZ:
		return arrow.FixedWidthTypes.Timestamp_us
	case List:
		element := t.Fields[0].Arrow()
		// A required element would be written with wrong levels by older readers' rules; elements are always optional.
		element.Nullable = true
		return arrow.ListOfField(element)
	case Map:
		key, value := t.Fields[0].Arrow(), t.Fields[1].Arrow()
		key.Nullable = false
		return arrow.MapOfFields(key, value)
	case Struct:
		fields := make([]arrow.Field, len(t.Fields))
		for i, f := range t.Fields {
			fields[i] = f.Arrow()
		}
		return arrow.StructOf(fields...)
	}
	return arrow.BinaryTypes.String
}

// Arrow gives the Arrow field, with its ID in the metadata where it has one.
func (f Field) Arrow() arrow.Field {
	a := arrow.Field{Name: f.Name, Type: f.Type.Arrow(), Nullable: !f.Required}
	if f.ID != 0 {
		a.Metadata = arrow.NewMetadata([]string{FieldIDKey}, []string{strconv.Itoa(f.ID)})
	}
	return a
}

// ArrowSchema gives the Arrow schema of columns, every field with its ID in the metadata.
func ArrowSchema(fields []Field) *arrow.Schema {
	columns := make([]arrow.Field, len(fields))
	for i, f := range fields {
		columns[i] = f.Arrow()
	}
	return arrow.NewSchema(columns, nil)
}
