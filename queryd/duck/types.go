package duck

import bindings "github.com/duckdb/duckdb-go-bindings"

// TypeID is DuckDB's number of a type.
type TypeID = bindings.Type

// Type is a DuckDB type.
type Type struct {
	ID TypeID
	// Alias is the name of a type made with CREATE TYPE, or "JSON".
	Alias string
	// Width and Scale are a DECIMAL's.
	Width, Scale int
	// Children are a LIST's or ARRAY's element, a STRUCT's members, a MAP's key and value.
	Children []Type
	// Names are those of a STRUCT's members, or an ENUM's values.
	Names []string
	// Size is an ARRAY's number of elements.
	Size int
	// Internal is the physical type of a DECIMAL or ENUM.
	Internal TypeID
}

// Invalid reports that DuckDB could not tell the type.
func (t *Type) Invalid() bool { return t.ID == bindings.TypeInvalid || t.ID == bindings.TypeAny }

func readType(t bindings.LogicalType) Type {
	r := Type{ID: bindings.GetTypeId(t), Alias: bindings.LogicalTypeGetAlias(t)}
	child := func(c bindings.LogicalType) {
		r.Children = append(r.Children, readType(c))
		bindings.DestroyLogicalType(&c)
	}
	switch r.ID {
	case bindings.TypeDecimal:
		r.Width, r.Scale = int(bindings.DecimalWidth(t)), int(bindings.DecimalScale(t))
		r.Internal = bindings.DecimalInternalType(t)
	case bindings.TypeEnum:
		r.Internal = bindings.EnumInternalType(t)
		n := bindings.EnumDictionarySize(t)
		for i := range n {
			r.Names = append(r.Names, bindings.EnumDictionaryValue(t, bindings.IdxT(i)))
		}
	case bindings.TypeList:
		child(bindings.ListTypeChildType(t))
	case bindings.TypeArray:
		child(bindings.ArrayTypeChildType(t))
		r.Size = int(bindings.ArrayTypeArraySize(t))
	case bindings.TypeMap:
		child(bindings.MapTypeKeyType(t))
		child(bindings.MapTypeValueType(t))
	case bindings.TypeStruct:
		for i := range bindings.StructTypeChildCount(t) {
			r.Names = append(r.Names, bindings.StructTypeChildName(t, i))
			child(bindings.StructTypeChildType(t, i))
		}
	case bindings.TypeUnion:
		// Shown as text by a cast; its members are not read.
	}
	return r
}
