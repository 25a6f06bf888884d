package parquet

import (
	"bytes"
	"encoding/binary"
	"math"
	"unicode/utf8"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
)

// boundLength is how much of a string (in code points) or binary (in bytes) a bound keeps.
const boundLength = 16

// column gathers the statistics of one field; a struct's are those of its fields, a list or map has none (its leaves
// repeat, and a bound over them prunes nothing).
type column struct {
	field    types.Field
	children []*column

	values, nulls, nans int64
	// seen tells that the bounds hold a value; which pair is in use follows from the type.
	seen          bool
	least, most   int64 // integers, dates, times; booleans as 0 and 1
	leastF, mostF float64
	leastD, mostD decimal128.Num
	leastB, mostB []byte // strings, binaries (prefixes), uuids
	mostCut       bool   // a value longer than mostB begins with it
	uuidSigns     [4]bool
}

func newColumn(f types.Field) *column {
	c := &column{field: f}
	if f.Type.Kind == types.Struct {
		for _, child := range f.Type.Fields {
			c.children = append(c.children, newColumn(child))
		}
	}
	return c
}

// observe takes in an array's values. dead marks the rows in which a struct around the field is NULL; nil for none.
func (c *column) observe(a arrow.Array, dead []bool) {
	switch c.field.Type.Kind {
	case types.List, types.Map:
		return
	case types.Struct:
		s := a.(*array.Struct)
		if s.NullN() > 0 || dead != nil {
			below := make([]bool, s.Len())
			for i := range below {
				below[i] = s.IsNull(i) || dead != nil && dead[i]
			}
			dead = below
		}
		for i, child := range c.children {
			child.observe(s.Field(i), dead)
		}
		return
	}
	c.values += int64(a.Len())
	null := func(i int) bool { return a.IsNull(i) || dead != nil && dead[i] }
	if dead == nil && a.NullN() == 0 {
		null = nil
	}
	c.nulls += countNulls(a, null)
	switch a := a.(type) {
	case *array.Boolean:
		each(a.Len(), null, func(i int) {
			n := int64(0)
			if a.Value(i) {
				n = 1
			}
			c.integer(n)
		})
	case *array.Int32:
		integers(c, a.Int32Values(), null)
	case *array.Int64:
		integers(c, a.Int64Values(), null)
	case *array.Date32:
		integers(c, a.Date32Values(), null)
	case *array.Time64:
		integers(c, a.Time64Values(), null)
	case *array.Timestamp:
		integers(c, a.TimestampValues(), null)
	case *array.Float32:
		floats(c, a.Float32Values(), null)
	case *array.Float64:
		floats(c, a.Float64Values(), null)
	case *array.Decimal128:
		each(a.Len(), null, func(i int) { c.decimal(a.Value(i)) })
	case *array.String:
		if c.field.Type.Kind == types.String { // a bound of JSON or of an interval's text would prune nothing
			each(a.Len(), null, func(i int) { c.bytes(stringBytes(a.Value(i)), textPrefix) })
		}
	case *array.Binary:
		each(a.Len(), null, func(i int) { c.bytes(a.Value(i), bytesPrefix) })
	case array.ExtensionArray:
		storage := a.Storage().(*array.FixedSizeBinary)
		each(a.Len(), null, func(i int) { c.uuid(storage.Value(i)) })
	}
}

func countNulls(a arrow.Array, null func(int) bool) int64 {
	if null == nil {
		return 0
	}
	var n int64
	for i := range a.Len() {
		if null(i) {
			n++
		}
	}
	return n
}

// each calls f for the rows that are not NULL.
func each(n int, null func(int) bool, f func(int)) {
	for i := range n {
		if null == nil || !null(i) {
			f(i)
		}
	}
}

func integers[T ~int32 | ~int64](c *column, values []T, null func(int) bool) {
	if null == nil && len(values) > 0 {
		least, most := values[0], values[0]
		for _, v := range values[1:] {
			least, most = min(least, v), max(most, v)
		}
		c.integer(int64(least))
		c.integer(int64(most))
		return
	}
	each(len(values), null, func(i int) { c.integer(int64(values[i])) })
}

func (c *column) integer(n int64) {
	if !c.seen {
		c.seen, c.least, c.most = true, n, n
		return
	}
	c.least, c.most = min(c.least, n), max(c.most, n)
}

func floats[T float32 | float64](c *column, values []T, null func(int) bool) {
	each(len(values), null, func(i int) {
		f := float64(values[i])
		switch {
		case math.IsNaN(f):
			c.nans++
		case !c.seen:
			c.seen, c.leastF, c.mostF = true, f, f
		default:
			c.leastF, c.mostF = math.Min(c.leastF, f), math.Max(c.mostF, f)
		}
	})
}

func (c *column) decimal(n decimal128.Num) {
	switch {
	case !c.seen:
		c.seen, c.leastD, c.mostD = true, n, n
	case n.Less(c.leastD):
		c.leastD = n
	case n.Greater(c.mostD):
		c.mostD = n
	}
}

// bytes takes in a value of which prefix keeps the beginning. A prefix of the least value is a lower bound as it is;
// one of the greatest is raised at the end.
func (c *column) bytes(v []byte, prefix func([]byte) []byte) {
	if !c.seen || bytes.Compare(v, c.leastB) < 0 {
		c.leastB = append(c.leastB[:0], prefix(v)...)
	}
	if c.seen && bytes.Compare(v, c.mostB) <= 0 {
		return
	}
	p := prefix(v)
	if c.seen && bytes.Equal(p, c.mostB) {
		c.mostCut = c.mostCut || len(v) > len(p)
		return
	}
	c.seen = true
	c.mostB = append(c.mostB[:0], p...)
	c.mostCut = len(v) > len(p)
}

func (c *column) uuid(v []byte) {
	// One reader compares uuids as two signed numbers, others as bytes; the bounds hold for both only while all values
	// have the same signs.
	c.uuidSigns[v[0]>>7<<1|v[8]>>7] = true
	c.bytes(v, func(v []byte) []byte { return v })
}

func bytesPrefix(v []byte) []byte { return v[:min(len(v), boundLength)] }

func textPrefix(v []byte) []byte {
	at := 0
	for range boundLength {
		if at >= len(v) {
			break
		}
		_, n := utf8.DecodeRune(v[at:])
		at += n
	}
	return v[:at]
}

// fill writes the column's statistics under its field id.
func (c *column) fill(s *formats.FileStats) {
	for _, child := range c.children {
		child.fill(s)
	}
	id, t := c.field.ID, c.field.Type
	if id == 0 || t.Nested() {
		return
	}
	s.ValueCounts[id], s.NullCounts[id] = c.values, c.nulls
	if t.Kind == types.Float || t.Kind == types.Double {
		s.NaNCounts[id] = c.nans
	}
	if !c.seen {
		return
	}
	lower, upper := c.bounds()
	if lower != nil {
		s.Lower[id] = lower
	}
	if upper != nil {
		s.Upper[id] = upper
	}
}

// bounds gives the bounds in Iceberg's single-value serialization; nil for one that is not known.
func (c *column) bounds() (lower, upper []byte) {
	switch c.field.Type.Kind {
	case types.Boolean:
		return []byte{byte(c.least)}, []byte{byte(c.most)}
	case types.Int, types.Date:
		return littleEndian32(uint32(c.least)), littleEndian32(uint32(c.most))
	case types.Long, types.Time, types.Timestamp, types.TimestampTZ:
		return littleEndian64(uint64(c.least)), littleEndian64(uint64(c.most))
	case types.Float, types.Double:
		// Readers differ in whether -0 is before 0: these bounds hold for both.
		if c.leastF == 0 {
			c.leastF = math.Copysign(0, -1)
		}
		if c.mostF == 0 {
			c.mostF = 0
		}
		if c.field.Type.Kind == types.Float {
			return littleEndian32(math.Float32bits(float32(c.leastF))), littleEndian32(math.Float32bits(float32(c.mostF)))
		}
		return littleEndian64(math.Float64bits(c.leastF)), littleEndian64(math.Float64bits(c.mostF))
	case types.Decimal:
		return decimalBytes(c.leastD), decimalBytes(c.mostD)
	case types.UUID:
		kinds := 0
		for _, seen := range c.uuidSigns {
			if seen {
				kinds++
			}
		}
		if kinds > 1 {
			return nil, nil
		}
		return bytes.Clone(c.leastB), bytes.Clone(c.mostB)
	case types.String:
		return append([]byte{}, c.leastB...), c.upperBytes(nextText)
	case types.Binary:
		return append([]byte{}, c.leastB...), c.upperBytes(nextBytes)
	}
	return nil, nil
}

func (c *column) upperBytes(next func([]byte) []byte) []byte {
	upper := append([]byte{}, c.mostB...)
	if !c.mostCut {
		return upper
	}
	return next(upper)
}

// nextBytes gives the least byte string of at most the same length above all that begin with b; nil when there is none.
func nextBytes(b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return b[:i+1]
		}
	}
	return nil
}

// nextText does the same for text, by code points.
func nextText(b []byte) []byte {
	for len(b) > 0 {
		r, n := utf8.DecodeLastRune(b)
		if r == utf8.RuneError && n <= 1 {
			return nil // not UTF-8
		}
		b = b[:len(b)-n]
		switch {
		case r == utf8.MaxRune:
			continue
		case r == 0xd7ff:
			r = 0xe000 // over the surrogates, which are no text
		default:
			r++
		}
		return utf8.AppendRune(b, r)
	}
	return nil
}

// stringBytes gives a string's bytes, which must not be changed.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

func littleEndian32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

func littleEndian64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// decimalBytes gives the unscaled value in two's complement, big-endian, in as few bytes as hold it.
func decimalBytes(n decimal128.Num) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(n.HighBits()))
	b = binary.BigEndian.AppendUint64(b, n.LowBits())
	for len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80) {
		b = b[1:]
	}
	return b
}
