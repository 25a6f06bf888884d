package types

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// ParseDefault gives a column's constant default, in Postgres' text form, as an Arrow array of one value. A value that
// the lake's type cannot hold is bent. The caller releases the array.
func ParseDefault(pg Postgres, t Type, text string) (arrow.Array, error) {
	c, err := NewCodec(pg, t, Options{}, false)
	if err != nil {
		return nil, err
	}
	b := array.NewBuilder(memory.DefaultAllocator, t.Arrow())
	defer b.Release()
	if err := c.Append(b, false, []byte(text)); err != nil {
		return nil, err
	}
	return b.NewArray(), nil
}
