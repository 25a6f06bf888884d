package message

import (
	"encoding/binary"
	"fmt"
)

// TupleError says where a pgoutput tuple departs from the protocol.
type TupleError struct {
	// Offset is in bytes from the tuple's start.
	Offset int
	Reason string
}

func (e *TupleError) Error() string {
	return fmt.Sprintf("a tuple of the replication stream is malformed at byte %d: %s", e.Offset, e.Reason)
}

// Columns splits a tuple (pgoutput's TupleData) into its columns. The result reuses dst's memory from its start, and the
// values alias tuple; nothing is allocated once dst has the capacity. The tuple must be whole: bytes after it are an
// error. Errors are *TupleError.
func Columns(tuple []byte, dst []Value) ([]Value, error) {
	dst = dst[:0]
	if len(tuple) < 2 {
		return dst, &TupleError{0, "no column count"}
	}
	at := 2
	for range binary.BigEndian.Uint16(tuple) {
		if at >= len(tuple) {
			return dst, &TupleError{at, "fewer columns than announced"}
		}
		kind := tuple[at]
		switch kind {
		case 'n', 'u':
			dst = append(dst, Value{Kind: kind})
			at++
		case 't', 'b':
			from, to, err := value(tuple, at)
			if err != nil {
				return dst, err
			}
			dst = append(dst, Value{kind, tuple[from:to:to]})
			at = to
		default:
			return dst, unknownKind(at, kind)
		}
	}
	if at != len(tuple) {
		return dst, &TupleError{at, "bytes after the last column"}
	}
	return dst, nil
}

// TupleLength gives the length in bytes of the tuple that data starts with. It checks all that Columns does, except for
// bytes after the tuple. Errors are *TupleError.
func TupleLength(data []byte) (int, error) {
	if len(data) < 2 {
		return 0, &TupleError{0, "no column count"}
	}
	at := 2
	for range binary.BigEndian.Uint16(data) {
		if at >= len(data) {
			return 0, &TupleError{at, "fewer columns than announced"}
		}
		switch kind := data[at]; kind {
		case 'n', 'u':
			at++
		case 't', 'b':
			_, to, err := value(data, at)
			if err != nil {
				return 0, err
			}
			at = to
		default:
			return 0, unknownKind(at, kind)
		}
	}
	return at, nil
}

// value finds the bytes of the column that starts at at.
func value(tuple []byte, at int) (from, to int, err error) {
	if len(tuple)-at < 5 {
		return 0, 0, &TupleError{at, "a column's length is cut off"}
	}
	from = at + 5
	length := binary.BigEndian.Uint32(tuple[at+1:])
	if uint64(length) > uint64(len(tuple)-from) {
		return 0, 0, &TupleError{at, fmt.Sprintf("a column of %d bytes in %d", length, len(tuple)-from)}
	}
	return from, from + int(length), nil
}

func unknownKind(at int, kind byte) error {
	return &TupleError{at, fmt.Sprintf("unknown column kind %q", kind)}
}
