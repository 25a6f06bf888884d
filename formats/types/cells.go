package types

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

func wrongBuilder(b array.Builder, t *Type) error {
	return fmt.Errorf("a %s value was to go into an Arrow builder of %s: the table's schema and its builders do not agree", t, b.Type())
}

// full reports whether size more bytes exceed what the builder's 32-bit offsets can hold; Append would wrap around.
func full(b *array.BinaryBuilder, size int) bool { return size > math.MaxInt32-b.DataLen() }

// appendCell appends a value without children; b is unchanged on error.
func appendCell(b array.Builder, t *Type, v *cell) error {
	if v.null {
		b.AppendNull()
		return nil
	}
	switch b := b.(type) {
	case *array.StringBuilder:
		if full(b.BinaryBuilder, len(v.b)) {
			return ErrFull
		}
		b.BinaryBuilder.Append(v.b)
		return nil
	case *array.Int64Builder:
		if t.Kind == Long {
			b.Append(int64(v.lo))
			return nil
		}
	case *array.Int32Builder:
		if t.Kind == Int {
			b.Append(int32(v.lo))
			return nil
		}
	case *array.TimestampBuilder:
		if t.Kind == Timestamp || t.Kind == TimestampTZ {
			b.Append(arrow.Timestamp(v.lo))
			return nil
		}
	case *array.BooleanBuilder:
		b.Append(v.lo != 0)
		return nil
	case *array.Float64Builder:
		if t.Kind == Double {
			b.Append(math.Float64frombits(v.lo))
			return nil
		}
	case *array.Float32Builder:
		if t.Kind == Float {
			b.Append(float32(math.Float64frombits(v.lo)))
			return nil
		}
	case *array.Decimal128Builder:
		b.Append(decimal128.New(int64(v.hi), v.lo))
		return nil
	case *array.Date32Builder:
		b.Append(arrow.Date32(int32(v.lo)))
		return nil
	case *array.Time64Builder:
		b.Append(arrow.Time64(v.lo))
		return nil
	case *array.BinaryBuilder:
		switch {
		case t.Kind != Binary:
		case full(b, len(v.b)):
			return ErrFull
		default:
			b.Append(v.b)
			return nil
		}
	}
	if storage := uuidBuilder(b); storage != nil && t.Kind == UUID {
		var u [16]byte
		binary.BigEndian.PutUint64(u[:], v.hi)
		binary.BigEndian.PutUint64(u[8:], v.lo)
		storage.Append(u[:])
		return nil
	}
	return wrongBuilder(b, t)
}

func uuidBuilder(b array.Builder) *array.FixedSizeBinaryBuilder {
	switch b := b.(type) {
	case *extensions.UUIDBuilder:
		storage, _ := b.StorageBuilder().(*array.FixedSizeBinaryBuilder)
		return storage
	case *array.FixedSizeBinaryBuilder:
		if b.Type().(*arrow.FixedSizeBinaryType).ByteWidth == 16 {
			return b
		}
	}
	return nil
}

// checkBuilder reports an error unless b takes values of the type, at every depth, and size bytes more of strings.
func checkBuilder(b array.Builder, t *Type, size int) error {
	ok := true
	switch t.Kind {
	case List:
		l, is := b.(*array.ListBuilder)
		if !is {
			return wrongBuilder(b, t)
		}
		return checkBuilder(l.ValueBuilder(), &t.Fields[0].Type, size)
	case Map:
		m, is := b.(*array.MapBuilder)
		if !is {
			return wrongBuilder(b, t)
		}
		if err := checkBuilder(m.KeyBuilder(), &t.Fields[0].Type, size); err != nil {
			return err
		}
		return checkBuilder(m.ItemBuilder(), &t.Fields[1].Type, size)
	case Struct:
		s, is := b.(*array.StructBuilder)
		if !is || s.NumField() != len(t.Fields) {
			return wrongBuilder(b, t)
		}
		for i := range t.Fields {
			if err := checkBuilder(s.FieldBuilder(i), &t.Fields[i].Type, size); err != nil {
				return err
			}
		}
	case Boolean:
		_, ok = b.(*array.BooleanBuilder)
	case Int:
		_, ok = b.(*array.Int32Builder)
	case Long:
		_, ok = b.(*array.Int64Builder)
	case Float:
		_, ok = b.(*array.Float32Builder)
	case Double:
		_, ok = b.(*array.Float64Builder)
	case Decimal:
		_, ok = b.(*array.Decimal128Builder)
	case Binary:
		var binary *array.BinaryBuilder
		if binary, ok = b.(*array.BinaryBuilder); ok && full(binary, size) {
			return ErrFull
		}
	case UUID:
		ok = uuidBuilder(b) != nil
	case Date:
		_, ok = b.(*array.Date32Builder)
	case Time:
		_, ok = b.(*array.Time64Builder)
	case Timestamp, TimestampTZ:
		_, ok = b.(*array.TimestampBuilder)
	default:
		var text *array.StringBuilder
		if text, ok = b.(*array.StringBuilder); ok && full(text.BinaryBuilder, size) {
			return ErrFull
		}
	}
	if !ok {
		return wrongBuilder(b, t)
	}
	return nil
}

// appendCells appends the first value of cells, with its children, and gives the cells that follow it. b has been
// checked, so there is no error half-way.
func appendCells(b array.Builder, t *Type, cells []cell) ([]cell, error) {
	v := &cells[0]
	cells = cells[1:]
	if v.null || !t.Nested() {
		return cells, appendCell(b, t, v)
	}
	var err error
	switch b := b.(type) {
	case *array.ListBuilder:
		b.Append(true)
		for range v.n {
			if cells, err = appendCells(b.ValueBuilder(), &t.Fields[0].Type, cells); err != nil {
				return nil, err
			}
		}
	case *array.MapBuilder:
		b.Append(true)
		for range v.n {
			if cells, err = appendCells(b.KeyBuilder(), &t.Fields[0].Type, cells); err != nil {
				return nil, err
			}
			if cells, err = appendCells(b.ItemBuilder(), &t.Fields[1].Type, cells); err != nil {
				return nil, err
			}
		}
	case *array.StructBuilder:
		b.Append(true)
		for i := range v.n {
			if cells, err = appendCells(b.FieldBuilder(i), &t.Fields[i].Type, cells); err != nil {
				return nil, err
			}
		}
	default:
		return nil, wrongBuilder(b, t)
	}
	return cells, nil
}
