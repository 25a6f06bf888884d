package ducklake

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats/types"
	"github.com/twmb/murmur3"
)

// bucketHash gives the hash of a type's values by which DuckLake puts rows into buckets; nil for a type without one. It is
// Murmur3 (x86, 32 bits) of integers and times as 64 bits, and of text as UTF-8; a uuid counts as text.
func bucketHash(t types.Type) func(arrow.Array, int) (uint32, bool) {
	integers := func(value func(arrow.Array, int) (int64, bool)) func(arrow.Array, int) (uint32, bool) {
		return func(a arrow.Array, row int) (uint32, bool) {
			n, ok := value(a, row)
			return murmur3.Sum32(binary.LittleEndian.AppendUint64(nil, uint64(n))), ok
		}
	}
	switch t.Kind {
	case types.Int, types.Long, types.Date, types.Time, types.Timestamp, types.TimestampTZ:
		return integers(integerOf)
	case types.Decimal:
		if t.Precision > 18 { // beyond 64 bits
			return nil
		}
		return integers(func(a arrow.Array, row int) (int64, bool) {
			d, ok := a.(*array.Decimal128)
			if !ok {
				return 0, false
			}
			return int64(d.Value(row).LowBits()), true
		})
	case types.String, types.UUID:
		return func(a arrow.Array, row int) (uint32, bool) {
			if e, is := a.(array.ExtensionArray); is {
				a = e.Storage()
			}
			switch a := a.(type) {
			case *array.String:
				return murmur3.StringSum32(a.Value(row)), true
			case *array.FixedSizeBinary:
				u, err := uuid.FromBytes(a.Value(row))
				return murmur3.StringSum32(u.String()), err == nil
			}
			return 0, false
		}
	}
	return nil
}

// integerOf gives a value that is stored as an integer.
func integerOf(a arrow.Array, row int) (int64, bool) {
	switch a := a.(type) {
	case *array.Int32:
		return int64(a.Value(row)), true
	case *array.Int64:
		return a.Value(row), true
	case *array.Date32:
		return int64(a.Value(row)), true
	case *array.Time64:
		return int64(a.Value(row)), true
	case *array.Timestamp:
		return int64(a.Value(row)), true
	}
	return 0, false
}
