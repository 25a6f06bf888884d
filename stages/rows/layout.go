// Package rows turns wire tuples, of the replication stream and of COPY alike, into the lake's Arrow columns and keys.
// One code path serves both, so that a value reads the same whichever way it came (promise 4).
package rows

import (
	"fmt"
	"slices"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/message"
)

// Layout maps the columns of a tuple to those of a lake schema. It is immutable and safe for concurrent use.
type Layout struct {
	schema  *formats.Schema
	options types.Options
	// columns[i] is the schema column of the tuple's column i; -1 for one that the lake leaves out.
	columns []int
	// wire[c] is the tuple's column for schema column c; -1 when the tuple does not carry it.
	wire []int
}

// NewLayout maps tuple columns, given by name in their order, to the schema. A schema column that the tuple does not
// carry reads NULL; key columns must be carried.
func NewLayout(schema *formats.Schema, names []string, o types.Options) (*Layout, error) {
	l := &Layout{schema: schema, options: o, columns: make([]int, len(names)), wire: make([]int, len(schema.Columns))}
	byName := make(map[string]int, len(schema.Columns))
	for i, c := range schema.Columns {
		byName[c.Name] = i
		l.wire[i] = -1
	}
	for i, name := range names {
		c, ok := byName[name]
		if !ok {
			l.columns[i] = -1
			continue
		}
		l.columns[i], l.wire[c] = c, i
	}
	for _, k := range schema.Key {
		if l.wire[k] < 0 {
			return nil, fmt.Errorf("key column %q is not sent by the source: the publication must include it", schema.Columns[k].Name)
		}
	}
	return l, nil
}

// Schema is the lake schema of the layout; it must not be changed.
func (l *Layout) Schema() *formats.Schema { return l.schema }

// Only gives the layout of some of the schema's columns, for the same tuples.
func (l *Layout) Only(columns []int) *Layout {
	schema := *l.schema
	schema.Columns, schema.Key = make([]formats.Column, len(columns)), nil
	only := &Layout{schema: &schema, options: l.options, columns: make([]int, len(l.columns)), wire: make([]int, len(columns))}
	for w := range only.columns {
		only.columns[w] = -1
	}
	for i, c := range columns {
		schema.Columns[i] = l.schema.Columns[c]
		if only.wire[i] = l.wire[c]; only.wire[i] >= 0 {
			only.columns[only.wire[i]] = i
		}
		if slices.Contains(l.schema.Key, c) {
			schema.Key = append(schema.Key, i)
		}
	}
	return only
}

// keyColumns are the schema columns that make up a row's identity, in order.
func (l *Layout) keyColumns() []int {
	if l.schema.KeyKind == formats.KeyFullRow {
		all := make([]int, len(l.schema.Columns))
		for i := range all {
			all[i] = i
		}
		return all
	}
	return l.schema.Key
}

// Keyer encodes keys of tuples. It is not safe for concurrent use.
type Keyer struct {
	layout  *Layout
	columns []int
	codecs  []*types.Codec
}

// NewKeyer makes a Keyer for the layout's key; for KeyFullRow the key is the whole row.
func (l *Layout) NewKeyer() (*Keyer, error) {
	k := &Keyer{layout: l, columns: l.keyColumns()}
	isKey := l.schema.KeyKind != formats.KeyFullRow
	for _, c := range k.columns {
		column := &l.schema.Columns[c]
		codec, err := types.NewCodec(column.Source, column.Type, l.options, isKey)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", column.Name, err)
		}
		k.codecs = append(k.codecs, codec)
	}
	return k, nil
}

// Append appends the key of a tuple to dst: the encoding of formats/types, self-delimiting, equal exactly for rows that
// are equal in the lake. An unchanged TOAST value has no place in a key and is an error.
func (k *Keyer) Append(dst []byte, tuple []message.Value) ([]byte, error) {
	for i, c := range k.columns {
		w := k.layout.wire[c]
		if w < 0 {
			dst = types.AppendKeyNull(dst)
			continue
		}
		if w >= len(tuple) {
			return dst, fmt.Errorf("tuple has %d columns, column %q is the %dth", len(tuple), k.layout.schema.Columns[c].Name, w+1)
		}
		var err error
		switch v := tuple[w]; v.Kind {
		case 'n':
			dst = types.AppendKeyNull(dst)
		case 't', 'b':
			dst, err = k.codecs[i].AppendKey(dst, v.Kind == 'b', v.Data)
		default:
			err = fmt.Errorf("the value was not sent (unchanged TOAST)")
		}
		if err != nil {
			return dst, fmt.Errorf("key column %q: %w", k.layout.schema.Columns[c].Name, err)
		}
	}
	return dst, nil
}

// Toasted lists the schema columns whose values the tuple does not carry because they did not change.
func (l *Layout) Toasted(tuple []message.Value, dst []int) []int {
	for i, v := range tuple {
		if v.Kind == 'u' && i < len(l.columns) && l.columns[i] >= 0 {
			dst = append(dst, l.columns[i])
		}
	}
	return dst
}

// KeyTuple makes TupleData (pgoutput's form) of a tuple's key columns alone, in key order; it copies.
func (l *Layout) KeyTuple(tuple []message.Value) ([]byte, error) {
	values := make([]message.Value, len(l.schema.Key))
	for i, k := range l.schema.Key {
		w := l.wire[k]
		if w < 0 || w >= len(tuple) {
			return nil, fmt.Errorf("key column %q is not in the tuple", l.schema.Columns[k].Name)
		}
		values[i] = tuple[w]
	}
	return message.AppendTuple(nil, values), nil
}
