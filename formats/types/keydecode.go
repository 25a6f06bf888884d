package types

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow/array"
)

// AppendKeyTo appends the value that an encoded key begins with to b, a builder of t's Arrow type, and gives the rest of
// the key. t is neither nested nor a floating-point type. What is appended is what the key was made from.
func AppendKeyTo(b array.Builder, t Type, key []byte) (rest []byte, err error) {
	var v cell
	if rest, err = readKey(&v, &t, key); err != nil {
		return key, err
	}
	return rest, appendCell(b, &t, &v)
}

func readKey(v *cell, t *Type, key []byte) ([]byte, error) {
	wrong := fmt.Errorf("the bytes are not an encoded key of type %s", *t)
	if len(key) == 0 {
		return nil, wrong
	}
	tag, rest := key[0], key[1:]
	if tag == keyNull {
		v.null = true
		return rest, nil
	}
	switch t.Kind {
	case Boolean:
		v.lo = uint64(tag - keyValue)
		if tag != keyValue && tag != keyTrue {
			return nil, wrong
		}
		return rest, nil
	case Int, Long, Date, Time, Timestamp, TimestampTZ, Decimal:
		return readKeyNumber(v, tag, rest, wrong)
	case Float, Double, List, Map, Struct:
		return nil, wrong
	}
	if tag != keyValue {
		return nil, wrong
	}
	if t.Kind == UUID {
		if len(rest) < 16 {
			return nil, wrong
		}
		v.hi, v.lo = binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:])
		return rest[16:], nil
	}
	v.b = nil
	for {
		zero := bytes.IndexByte(rest, 0)
		if zero < 0 || zero+1 >= len(rest) {
			return nil, wrong
		}
		v.b = append(v.b, rest[:zero]...)
		end := rest[zero+1]
		rest = rest[zero+2:]
		switch end {
		case 1:
			return rest, nil
		case 0xff:
			v.b = append(v.b, 0)
		default:
			return nil, wrong
		}
	}
}

// readKeyNumber undoes appendKeyMagnitude: hi and lo become the number in two's complement.
func readKeyNumber(v *cell, tag byte, rest []byte, wrong error) ([]byte, error) {
	n := int(tag) - keyNumber
	negative := n < 0
	n = max(n, -n)
	if n > 16 || len(rest) < n {
		return nil, wrong
	}
	var b [16]byte
	for i, c := range rest[:n] {
		if negative {
			c = ^c
		}
		b[16-n+i] = c
	}
	v.hi, v.lo = binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])
	if negative {
		var borrow uint64
		v.lo, borrow = bits.Sub64(0, v.lo, 0)
		v.hi, _ = bits.Sub64(0, v.hi, borrow)
	}
	return rest[n:], nil
}
