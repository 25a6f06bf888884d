package types

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Key encoding. A key is the concatenation of its columns' encodings. Each is prefix-free, so a key reads in one way
// only, and two encodings are equal exactly when the lake's values are. They sort as the values do, lists and maps
// aside. The first byte tells:
//
//	0x00        NULL
//	0x01        a value whose end follows from its type, or that ends in 00 01 (strings, where 00 inside is 00 ff);
//	            false
//	0x02        true
//	0x70..0x90  a number: 0x80 plus the count of its magnitude's bytes, or minus for negative ones, whose bytes are
//	            complemented. int and long, and decimals of every precision, are written alike: a promoted column
//	            keeps its keys. float is written as double for the same reason.
//	0xff        the end of a list or map
//
// The encoding is stored in the key index: changing it means rebuilding every index.
const (
	keyNull   = 0x00
	keyValue  = 0x01
	keyTrue   = 0x02
	keyNumber = 0x80
	keyEnd    = 0xff
)

// AppendKeyNull appends the key encoding of NULL.
func AppendKeyNull(dst []byte) []byte { return append(dst, keyNull) }

func appendKeyInt(dst []byte, n int64) []byte {
	if n < 0 {
		return appendKeyMagnitude(dst, true, 0, -uint64(n))
	}
	return appendKeyMagnitude(dst, false, 0, uint64(n))
}

// appendKeyWide appends a number of 128 bits in two's complement.
func appendKeyWide(dst []byte, hi, lo uint64) []byte {
	if int64(hi) >= 0 {
		return appendKeyMagnitude(dst, false, hi, lo)
	}
	lo, borrow := bits.Sub64(0, lo, 0)
	hi, _ = bits.Sub64(0, hi, borrow)
	return appendKeyMagnitude(dst, true, hi, lo)
}

func appendKeyMagnitude(dst []byte, negative bool, hi, lo uint64) []byte {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	n := (bits.Len64(lo) + 7) / 8
	if hi != 0 {
		n = 8 + (bits.Len64(hi)+7)/8
	}
	if !negative {
		return append(append(dst, byte(keyNumber+n)), b[16-n:]...)
	}
	for i := range b {
		b[i] = ^b[i]
	}
	return append(append(dst, byte(keyNumber-n)), b[16-n:]...)
}

func appendKeyFloat(dst []byte, f float64) []byte {
	b := floatBits(f)
	if int64(b) < 0 {
		b = ^b
	} else {
		b |= 1 << 63
	}
	return binary.BigEndian.AppendUint64(append(dst, keyValue), b)
}

func appendKeyBytes(dst, b []byte) []byte {
	dst = append(dst, keyValue)
	for {
		zero := bytes.IndexByte(b, 0)
		if zero < 0 {
			return append(append(dst, b...), 0, 1)
		}
		dst = append(append(dst, b[:zero]...), 0, 0xff)
		b = b[zero+1:]
	}
}

func appendKeyBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, keyTrue)
	}
	return append(dst, keyValue)
}

// appendKeyCell appends a decoded value without children.
func appendKeyCell(dst []byte, t *Type, v *cell) []byte {
	if v.null {
		return AppendKeyNull(dst)
	}
	switch t.Kind {
	case Boolean:
		return appendKeyBool(dst, v.lo != 0)
	case Int, Long, Date, Time, Timestamp, TimestampTZ:
		return appendKeyInt(dst, int64(v.lo))
	case Float, Double:
		return appendKeyFloat(dst, math.Float64frombits(v.lo))
	case Decimal:
		return appendKeyWide(dst, v.hi, v.lo)
	case UUID:
		dst = binary.BigEndian.AppendUint64(append(dst, keyValue), v.hi)
		return binary.BigEndian.AppendUint64(dst, v.lo)
	}
	return appendKeyBytes(dst, v.b)
}

// appendKeyCells appends the first value of cells with its children and gives the cells that follow it.
func appendKeyCells(dst []byte, t *Type, cells []cell) ([]byte, []cell) {
	v := &cells[0]
	cells = cells[1:]
	if v.null || !t.Nested() {
		return appendKeyCell(dst, t, v), cells
	}
	dst = append(dst, keyValue)
	switch t.Kind {
	case Struct:
		for i := range v.n {
			dst, cells = appendKeyCells(dst, &t.Fields[i].Type, cells)
		}
		return dst, cells
	case List:
		for range v.n {
			dst, cells = appendKeyCells(dst, &t.Fields[0].Type, cells)
		}
	case Map:
		for range v.n {
			dst, cells = appendKeyCells(dst, &t.Fields[0].Type, cells)
			dst, cells = appendKeyCells(dst, &t.Fields[1].Type, cells)
		}
	}
	return append(dst, keyEnd), cells
}

// AppendKeyValue appends the key encoding of row of a, an array of t's Arrow type or of one that t was promoted from.
// It gives the same bytes as AppendKey does for the value it was stored from. On error dst is returned unchanged.
func AppendKeyValue(dst []byte, t Type, a arrow.Array, row int) ([]byte, error) {
	out, ok := appendKeyArray(dst, &t, a, row)
	if !ok {
		return dst, fmt.Errorf("an Arrow array of %s cannot give keys of type %s", a.DataType(), t)
	}
	return out, nil
}

func appendKeyArray(dst []byte, t *Type, a arrow.Array, row int) ([]byte, bool) {
	if a.IsNull(row) {
		return AppendKeyNull(dst), true
	}
	switch t.Kind {
	case Boolean:
		if a, ok := a.(*array.Boolean); ok {
			return appendKeyBool(dst, a.Value(row)), true
		}
	case Int, Long:
		switch a := a.(type) {
		case *array.Int32:
			return appendKeyInt(dst, int64(a.Value(row))), true
		case *array.Int64:
			return appendKeyInt(dst, a.Value(row)), true
		}
	case Float, Double:
		switch a := a.(type) {
		case *array.Float32:
			return appendKeyFloat(dst, float64(a.Value(row))), true
		case *array.Float64:
			return appendKeyFloat(dst, a.Value(row)), true
		}
	case Decimal:
		if a, ok := a.(*array.Decimal128); ok && a.DataType().(*arrow.Decimal128Type).Scale == int32(t.Scale) {
			n := a.Value(row)
			return appendKeyWide(dst, uint64(n.HighBits()), n.LowBits()), true
		}
	case Date:
		if a, ok := a.(*array.Date32); ok {
			return appendKeyInt(dst, int64(a.Value(row))), true
		}
	case Time:
		if a, ok := a.(*array.Time64); ok && a.DataType().(*arrow.Time64Type).Unit == arrow.Microsecond {
			return appendKeyInt(dst, int64(a.Value(row))), true
		}
	case Timestamp, TimestampTZ:
		if a, ok := a.(*array.Timestamp); ok && a.DataType().(*arrow.TimestampType).Unit == arrow.Microsecond {
			return appendKeyInt(dst, int64(a.Value(row))), true
		}
	case UUID:
		if e, ok := a.(array.ExtensionArray); ok {
			a = e.Storage()
		}
		if a, ok := a.(*array.FixedSizeBinary); ok {
			return append(append(dst, keyValue), a.Value(row)...), true
		}
	case List, Map, Struct:
		return appendKeyNested(dst, t, a, row)
	default:
		switch a := a.(type) {
		case *array.String:
			return appendKeyBytes(dst, stringBytes(a.Value(row))), true
		case *array.LargeString:
			return appendKeyBytes(dst, stringBytes(a.Value(row))), true
		case *array.Binary:
			return appendKeyBytes(dst, a.Value(row)), true
		case *array.LargeBinary:
			return appendKeyBytes(dst, a.Value(row)), true
		}
	}
	return dst, false
}

// stringBytes gives a string's bytes, which must not be changed.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

func appendKeyNested(dst []byte, t *Type, a arrow.Array, row int) ([]byte, bool) {
	dst = append(dst, keyValue)
	var ok bool
	switch a := a.(type) {
	case *array.Struct:
		if t.Kind != Struct || a.NumField() != len(t.Fields) {
			return dst, false
		}
		for i := range t.Fields {
			if dst, ok = appendKeyArray(dst, &t.Fields[i].Type, a.Field(i), row); !ok {
				return dst, false
			}
		}
		return dst, true
	case *array.Map:
		if t.Kind != Map {
			return dst, false
		}
		from, to := a.ValueOffsets(row)
		for i := int(from); i < int(to); i++ {
			if dst, ok = appendKeyArray(dst, &t.Fields[0].Type, a.Keys(), i); !ok {
				return dst, false
			}
			if dst, ok = appendKeyArray(dst, &t.Fields[1].Type, a.Items(), i); !ok {
				return dst, false
			}
		}
	case *array.List:
		if t.Kind != List {
			return dst, false
		}
		from, to := a.ValueOffsets(row)
		for i := int(from); i < int(to); i++ {
			if dst, ok = appendKeyArray(dst, &t.Fields[0].Type, a.ListValues(), i); !ok {
				return dst, false
			}
		}
	default:
		return dst, false
	}
	return append(dst, keyEnd), true
}
