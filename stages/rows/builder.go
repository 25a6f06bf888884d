package rows

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/scalar"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/message"
)

// ErrValue marks an error that one table's values cause: it sets the table aside and nothing else (promise 7).
var ErrValue = errors.New("value cannot be written")

// Base is the row of the lake from which unchanged TOAST values are taken.
type Base struct {
	Record arrow.RecordBatch
	// Columns[c] is the record's column for schema column c; absent for those that were not read.
	Columns map[int]int
	Row     int
}

// Builder collects tuples into Arrow columns. It is not safe for concurrent use.
type Builder struct {
	layout *Layout
	record *array.RecordBuilder
	codecs []*types.Codec
	rows   int
}

// NewBuilder makes a Builder; Release frees it.
func (l *Layout) NewBuilder() (*Builder, error) {
	b := &Builder{layout: l}
	for i := range l.schema.Columns {
		column := &l.schema.Columns[i]
		isKey := false
		for _, k := range l.schema.Key {
			isKey = isKey || k == i
		}
		codec, err := types.NewCodec(column.Source, column.Type, l.options, isKey)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", column.Name, err)
		}
		b.codecs = append(b.codecs, codec)
	}
	b.record = array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(l.schema.Fields()))
	return b, nil
}

// Append adds one tuple. base may be nil when the tuple carries all its values. After an error the builder holds a
// partial row and must be released.
func (b *Builder) Append(tuple []message.Value, base *Base) error {
	for c, w := range b.layout.wire {
		field := b.record.Field(c)
		if w < 0 {
			field.AppendNull()
			continue
		}
		if w >= len(tuple) {
			return fmt.Errorf("%w: the tuple has %d columns, %q is the %dth", ErrValue, len(tuple), b.layout.schema.Columns[c].Name, w+1)
		}
		switch v := tuple[w]; v.Kind {
		case 'n':
			field.AppendNull()
		case 't', 'b':
			if err := b.codecs[c].Append(field, v.Kind == 'b', v.Data); err != nil {
				return fmt.Errorf("%w: column %q: %w", ErrValue, b.layout.schema.Columns[c].Name, err)
			}
		case 'u':
			if err := appendBase(field, base, c); err != nil {
				return fmt.Errorf("%w: column %q: %w", ErrValue, b.layout.schema.Columns[c].Name, err)
			}
		default:
			return fmt.Errorf("%w: column %q: unknown tuple kind %q", ErrValue, b.layout.schema.Columns[c].Name, v.Kind)
		}
	}
	b.rows++
	return nil
}

func appendBase(field array.Builder, base *Base, column int) error {
	if base == nil {
		return errors.New("its value did not change and was not sent, and the lake has no earlier row")
	}
	index, ok := base.Columns[column]
	if !ok {
		return errors.New("its value did not change and was not sent, and was not read from the lake")
	}
	values := base.Record.Column(index)
	if values.IsNull(base.Row) {
		field.AppendNull()
		return nil
	}
	switch values := values.(type) { // the common TOASTable types without boxing
	case *array.String:
		if to, ok := field.(*array.StringBuilder); ok {
			to.Append(values.Value(base.Row))
			return nil
		}
	case *array.Binary:
		if to, ok := field.(*array.BinaryBuilder); ok {
			to.Append(values.Value(base.Row))
			return nil
		}
	}
	value, err := scalar.GetScalar(values, base.Row)
	if err != nil {
		return err
	}
	return scalar.Append(field, value)
}

// Rows counts the tuples since the last Record.
func (b *Builder) Rows() int { return b.rows }

// Record gives the collected rows, to be released by the caller, and starts anew.
func (b *Builder) Record() arrow.RecordBatch {
	b.rows = 0
	return b.record.NewRecordBatch()
}

// Bent counts the values that were bent to the lake's types since the builder was made, by schema column.
func (b *Builder) Bent() []int64 {
	counts := make([]int64, len(b.codecs))
	for i, c := range b.codecs {
		counts[i] = c.Bent()
	}
	return counts
}

// Release frees the builder's memory.
func (b *Builder) Release() { b.record.Release() }
