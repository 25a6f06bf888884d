package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/rows"
	"github.com/streambed/streambed/stages/source"
)

// shape is what of a table is compared, and how rows of both sides are read into the same Arrow columns. It is immutable.
type shape struct {
	// schema has the lake's columns that are compared, with the source's present types and names.
	schema formats.Schema
	fields []types.Field
	// identity are the columns that identify a row, the key's or all, rest the others.
	identity, rest []int
	keyed          bool
	layout         *rows.Layout
	// list selects the columns at the source, in the schema's order.
	list   string
	binary bool
	// casts are the types of the key's columns at the source as SQL; nil when rows cannot be asked for by key.
	casts []string
}

// shapeOf matches the lake's columns with the source's, by attnum, which outlives renames.
func (v *verifier) shapeOf(lake *formats.Schema) error {
	s := &shape{}
	bySource := map[int16]source.Column{}
	for _, c := range v.table.Columns {
		bySource[c.Attnum] = c
	}
	places := map[int]int{} // lake column -> compared column
	var left []string
	for i, c := range lake.Columns {
		from, ok := bySource[c.Attnum]
		if !ok {
			left = append(left, source.Quote(c.Name))
			continue
		}
		delete(bySource, c.Attnum)
		c.Name, c.Source = from.Name, from.Type
		places[i] = len(s.schema.Columns)
		s.schema.Columns = append(s.schema.Columns, c)
	}
	for _, c := range bySource {
		left = append(left, source.Quote(c.Name))
	}
	if len(left) > 0 {
		slices.Sort(left)
		v.note("columns that only one side has are not compared: %s", strings.Join(left, ", "))
	}
	s.schema.KeyKind = lake.KeyKind
	for _, k := range lake.Key {
		place, ok := places[k]
		if !ok {
			return fmt.Errorf("%w: the source has no key column %q of table %s any more; wait until the lake has followed", ErrNotComparable, lake.Columns[k].Name, v.result.Table)
		}
		s.schema.Key = append(s.schema.Key, place)
	}
	if len(s.schema.Columns) == 0 {
		return fmt.Errorf("%w: the lake and the source have no column of table %s in common", ErrNotComparable, v.result.Table)
	}
	v.shape = s
	return s.complete(v.o.Values)
}

func (s *shape) complete(o types.Options) (err error) {
	s.fields = s.schema.Fields()
	s.keyed = len(s.schema.Key) > 0
	s.identity = s.schema.Key
	for i := range s.fields {
		switch {
		case !s.keyed:
			s.identity = append(s.identity, i)
		case !slices.Contains(s.schema.Key, i):
			s.rest = append(s.rest, i)
		}
	}
	names, quoted := make([]string, len(s.fields)), make([]string, len(s.fields))
	s.binary = true
	for i := range s.schema.Columns {
		c := &s.schema.Columns[i]
		names[i], quoted[i] = c.Name, source.Quote(c.Name)
		codec, err := types.NewCodec(c.Source, c.Type, o, false)
		if err != nil {
			return fmt.Errorf("%w: column %q: %w", ErrNotComparable, c.Name, err)
		}
		s.binary = s.binary && codec.Binary()
	}
	s.list = strings.Join(quoted, ", ")
	if s.layout, err = rows.NewLayout(&s.schema, names, o); err != nil {
		return fmt.Errorf("%w: %w", ErrNotComparable, err)
	}
	s.casts = s.keyCasts()
	return nil
}

// digest identifies bytes: equal ones have equal digests, and others, for all purposes, have not.
type digest [16]byte

// hasher gives the digests of rows. It is not safe for concurrent use.
type hasher struct {
	*shape
	buf []byte
}

// row gives the digest of a row's identity and that of all its values. rec has the columns of shape.fields.
func (h *hasher) row(rec arrow.RecordBatch, row int) (identity, content digest, err error) {
	h.buf = h.buf[:0]
	for _, c := range h.identity {
		if h.buf, err = types.AppendKeyValue(h.buf, h.fields[c].Type, rec.Column(c), row); err != nil {
			return identity, content, fmt.Errorf("column %q: %w", h.fields[c].Name, err)
		}
	}
	identity = sum(h.buf)
	for _, c := range h.rest {
		if h.buf, err = types.AppendKeyValue(h.buf, h.fields[c].Type, rec.Column(c), row); err != nil {
			return identity, content, fmt.Errorf("column %q: %w", h.fields[c].Name, err)
		}
	}
	if len(h.rest) == 0 {
		return identity, identity, nil
	}
	return identity, sum(h.buf), nil
}

func sum(b []byte) digest {
	full := sha256.Sum256(b)
	return digest(full[:16])
}

// pile is a number of rows and the sum of their digests: equal piles hold equal rows, in any order, duplicates counted.
type pile struct {
	rows   int64
	lo, hi uint64
}

func (p *pile) add(content digest) {
	p.rows++
	// Two sums of 64 bits: a set of other rows with both the same is not going to come up.
	p.lo += binary.LittleEndian.Uint64(content[:])
	p.hi += binary.LittleEndian.Uint64(content[8:])
}
