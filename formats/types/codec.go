package types

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/array"
)

// ErrUnrepresentable means that the lake's type cannot hold a source value and that bending it is not allowed: the
// policy is Refuse, or the column is part of the key (promise 4).
var ErrUnrepresentable = errors.New("a value cannot be held by the lake's type")

// ErrFull means that an Arrow builder cannot take a value because its strings or binaries would exceed 2 GiB together:
// the record has to be finished first, and the value appended to a new one.
var ErrFull = errors.New("the Arrow builder is full")

// errMalformed marks bytes that are not what Postgres sends for the type.
var errMalformed = errors.New("malformed value")

// Codec decodes one column's wire values. It is safe for concurrent use.
type Codec struct {
	root   node
	binary bool
	// plainText and plainBinary tell that values of the format need no scratch memory.
	plainText, plainBinary bool

	bent   atomic.Int64
	sample atomic.Pointer[string]
}

// NewCodec makes a codec from a source type to a lake type: that which Lake gives for it, one that it promotes to, or
// string. key tells that the column is part of the table's key, in which nothing is bent.
func NewCodec(pg Postgres, t Type, o Options, key bool) (*Codec, error) {
	c := &Codec{}
	if err := c.root.init(pg, t); err != nil {
		return nil, err
	}
	c.root.strict = key || o.Unrepresentable == Refuse
	c.plainText = !t.Nested() && t.Kind != Binary
	c.plainBinary = !t.Nested() && !c.root.rendered()
	c.binary = c.root.decodesBinary()
	return c, nil
}

// Type gives the lake type that values are decoded to.
func (c *Codec) Type() Type { return c.root.lake }

// Binary reports whether the type's binary form can be decoded, that of every nested part too. Where it is false the
// column has to be asked for as text.
func (c *Codec) Binary() bool { return c.binary }

// Bent counts the values that did not fit the lake's type and were bent by Append: each value once, however many of its
// elements were.
func (c *Codec) Bent() int64 { return c.bent.Load() }

// BentSample describes the first value that was bent, in a sentence for a log; "" while there is none.
func (c *Codec) BentSample() string {
	if s := c.sample.Load(); s != nil {
		return *s
	}
	return ""
}

// Append decodes one value that is not NULL and appends it to b, a builder of the codec's Arrow type. src is Postgres'
// text form under TimeZone=UTC, DateStyle=ISO, IntervalStyle=iso_8601 and extra_float_digits=3, or its binary form; it
// is not kept. A value that the lake's type cannot hold is bent and counted, or refused with ErrUnrepresentable; ErrFull
// when b cannot take it. On any error b is unchanged. For types without children it does not allocate, but for the
// builder's own growth.
func (c *Codec) Append(b array.Builder, binary bool, src []byte) error {
	if c.plain(binary) {
		var s scratch
		var v cell
		if err := c.root.scalar(&v, binary, src, &s); err != nil {
			return c.malformed(binary, src, err)
		}
		if s.bent != fits && c.root.strict {
			return c.refuse(&s, binary, src)
		}
		if err := appendCell(b, &c.root.lake, &v); err != nil {
			return err
		}
		if s.bent != fits {
			c.bend(&s, binary, src)
		}
		return nil
	}
	s := getScratch()
	defer putScratch(s)
	if err := c.decode(s, binary, src); err != nil {
		return err
	}
	if s.bent != fits && c.root.strict {
		return c.refuse(s, binary, src)
	}
	size := 0
	for i := range s.cells {
		size += len(s.cells[i].b)
	}
	if err := checkBuilder(b, &c.root.lake, size); err != nil {
		return err
	}
	if _, err := appendCells(b, &c.root.lake, s.cells); err != nil {
		return err
	}
	if s.bent != fits {
		c.bend(s, binary, src)
	}
	return nil
}

// AppendKey appends the key encoding (see AppendKeyNull) of one value that is not NULL, as Append would store it. It
// counts nothing; what Append refuses it refuses too. On error dst is returned unchanged.
func (c *Codec) AppendKey(dst []byte, binary bool, src []byte) ([]byte, error) {
	if c.plain(binary) {
		var s scratch
		var v cell
		if err := c.root.scalar(&v, binary, src, &s); err != nil {
			return dst, c.malformed(binary, src, err)
		}
		if s.bent != fits && c.root.strict {
			return dst, c.refuse(&s, binary, src)
		}
		return appendKeyCell(dst, &c.root.lake, &v), nil
	}
	s := getScratch()
	defer putScratch(s)
	if err := c.decode(s, binary, src); err != nil {
		return dst, err
	}
	if s.bent != fits && c.root.strict {
		return dst, c.refuse(s, binary, src)
	}
	dst, _ = appendKeyCells(dst, &c.root.lake, s.cells)
	return dst, nil
}

func (c *Codec) plain(binary bool) bool {
	if binary {
		return c.plainBinary
	}
	return c.plainText
}

// decode fills s.cells with the value and its children in order.
func (c *Codec) decode(s *scratch, binary bool, src []byte) error {
	if binary && !c.binary {
		return fmt.Errorf("cannot decode the binary form of %s: the column has to be read as text", c.root.source)
	}
	if err := c.root.decode(s, binary, src); err != nil {
		return c.malformed(binary, src, err)
	}
	return nil
}

// bend counts a bent value.
func (c *Codec) bend(s *scratch, binary bool, src []byte) {
	if c.bent.Add(1) == 1 {
		sentence := c.describe(s.bent, binary, src)
		c.sample.Store(&sentence)
	}
}

func (c *Codec) refuse(s *scratch, binary bool, src []byte) error {
	return fmt.Errorf("%w: %s", ErrUnrepresentable, c.describe(s.bent, binary, src))
}

func (c *Codec) describe(why reason, binary bool, src []byte) string {
	return fmt.Sprintf("the %s value %s does not fit %s: %s", c.root.source, shown(binary, src), c.root.lake, why)
}

func (c *Codec) malformed(binary bool, src []byte, err error) error {
	return fmt.Errorf("cannot read the %s value %s as %s: %w", c.root.source, shown(binary, src), c.root.lake, err)
}

// shown gives a value, or its beginning, for a message.
func shown(binary bool, src []byte) string {
	const most = 80
	more := ""
	if len(src) > most {
		src, more = src[:most], "..."
	}
	if binary {
		return fmt.Sprintf("(binary) %x%s", src, more)
	}
	return fmt.Sprintf("%q%s", src, more)
}

// reason says why a value does not fit.
type reason uint8

const (
	fits reason = iota
	tooEarly
	tooLate
	notANumber
	infinite
	tooLarge
	tooPrecise
	tooManyDimensions
	otherSubscripts
	endOfDay
	notUTF8
)

// String gives the reason as the end of a sentence.
func (r reason) String() string {
	switch r {
	case tooEarly:
		return "it is before the year 0001"
	case tooLate:
		return "it is after the year 9999"
	case notANumber:
		return "it is not a number"
	case infinite:
		return "it is infinite"
	case tooLarge:
		return "it has too many digits before the decimal point"
	case tooPrecise:
		return "it has too many digits after the decimal point"
	case tooManyDimensions:
		return "the array has more dimensions than one"
	case otherSubscripts:
		return "the array's subscripts do not begin at 1"
	case endOfDay:
		return "a time of day ends before 24:00:00"
	case notUTF8:
		return "it is not valid UTF-8"
	}
	return "it fits"
}

// cell is one decoded value. A nested one is followed by its children's cells: those of a list's n elements, a map's n
// keys and values in turn, a struct's fields; none when it is null.
type cell struct {
	// hi and lo hold booleans (lo), integers and counts of days or microseconds (lo), float bits (lo, as float64),
	// decimals (both, two's complement), uuids (both, big-endian).
	hi, lo uint64
	// b holds strings and binaries: part of src or of scratch.
	b    []byte
	n    int
	null bool
}

// scratch is the memory of one decoding.
type scratch struct {
	cells []cell
	buf   []byte
	bent  reason
}

// mark notes that a value was bent; the first reason stays.
func (s *scratch) mark(why reason) {
	if s.bent == fits {
		s.bent = why
	}
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func getScratch() *scratch { return scratches.Get().(*scratch) }

// putScratch gives s back, without the memory of an unusually large value and without references into wire buffers.
func putScratch(s *scratch) {
	const keepBytes, keepCells = 1 << 20, 1 << 14
	if cap(s.buf) > keepBytes || cap(s.cells) > keepCells {
		return
	}
	clear(s.cells)
	s.cells, s.buf, s.bent = s.cells[:0], s.buf[:0], fits
	scratches.Put(s)
}
