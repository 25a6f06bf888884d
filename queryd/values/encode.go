package values

import (
	"encoding/binary"
	"math"
	"time"

	bindings "github.com/duckdb/duckdb-go-bindings"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/queryd/pgtext"
)

// Style is what a session's settings say about text.
type Style struct {
	Zone     *time.Location
	Interval pgtext.IntervalStyle
}

// Encoder appends the row's value, which is not NULL, to dst.
type Encoder func(dst []byte, v *duck.Vector, row int) []byte

// Readable tells whether the type's values can be shown; others (unions, big integers) must be cast to VARCHAR first.
func Readable(t *duck.Type) bool {
	switch t.ID {
	case bindings.TypeUnion, bindings.TypeBigNum, bindings.TypeInvalid, bindings.TypeAny:
		return false
	}
	for i := range t.Children {
		if !Readable(&t.Children[i]) {
			return false
		}
	}
	_, known := simple[t.ID]
	return known || t.ID == bindings.TypeDecimal || len(t.Children) > 0
}

// interval is DuckDB's layout.
type interval struct {
	months, days int32
	micros       int64
}

// timeTZ splits DuckDB's TIME WITH TIME ZONE: 40 bits of microseconds, 24 bits of offset, stored so that order is right.
func timeTZ(bits uint64) (micros int64, offset int) {
	const maxOffset = 16*60*60 - 1
	return int64(bits >> 24), maxOffset - int(bits&0xffffff)
}

// micros gives the reader of a timestamp type in microseconds; infinities stay.
func micros(id duck.TypeID) func(*duck.Vector, int) int64 {
	scale := func(up, down int64) func(*duck.Vector, int) int64 {
		return func(v *duck.Vector, row int) int64 {
			n := duck.At[int64](v, row)
			if n == math.MaxInt64 || n == -math.MaxInt64 {
				return n
			}
			if down > 1 {
				q := n / down
				if n%down < 0 {
					q--
				}
				return q
			}
			return n * up
		}
	}
	switch id {
	case bindings.TypeTimestampS:
		return scale(1_000_000, 1)
	case bindings.TypeTimestampMS:
		return scale(1_000, 1)
	case bindings.TypeTimestampNS, bindings.TypeTimeNS:
		return scale(1, 1_000)
	}
	return duck.At[int64]
}

func decimal(t *duck.Type) func(*duck.Vector, int) pgtext.Int128 {
	small := func(n int64) pgtext.Int128 { return pgtext.Int128{Low: uint64(n), High: n >> 63} }
	switch t.Internal {
	case bindings.TypeSmallInt:
		return func(v *duck.Vector, row int) pgtext.Int128 { return small(int64(duck.At[int16](v, row))) }
	case bindings.TypeInteger:
		return func(v *duck.Vector, row int) pgtext.Int128 { return small(int64(duck.At[int32](v, row))) }
	case bindings.TypeBigInt:
		return func(v *duck.Vector, row int) pgtext.Int128 { return small(duck.At[int64](v, row)) }
	}
	return duck.At[pgtext.Int128]
}

// AppendSized writes a value after its length, -1 for NULL.
func AppendSized(dst []byte, v *duck.Vector, row int, encode Encoder) []byte {
	if v.Null(row) {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	at := len(dst)
	dst = encode(append(dst, 0, 0, 0, 0), v, row)
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// AppendRow writes a DataRow message.
func AppendRow(dst []byte, chunk *duck.Chunk, row int, encoders []Encoder) []byte {
	start := len(dst)
	dst = append(dst, 'D', 0, 0, 0, 0, byte(len(encoders)>>8), byte(len(encoders)))
	for i, encode := range encoders {
		dst = AppendSized(dst, &chunk.Columns[i], row, encode)
	}
	binary.BigEndian.PutUint32(dst[start+1:], uint32(len(dst)-start-1))
	return dst
}
