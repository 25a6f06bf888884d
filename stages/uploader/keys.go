package uploader

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/rows"
)

// Keys are encoded keys in flat memory, to be stored as a file of their columns.
type Keys struct {
	Fields []types.Field
	Bytes  []byte
	Ends   []uint32
}

// Add appends a key; it copies.
func (k *Keys) Add(key []byte) {
	k.Bytes = append(k.Bytes, key...)
	k.Ends = append(k.Ends, uint32(len(k.Bytes)))
}

func (k *Keys) at(i uint32) []byte {
	from := uint32(0)
	if i > 0 {
		from = k.Ends[i-1]
	}
	return k.Bytes[from:k.Ends[i]]
}

// encodeKeys writes the job's keys in their order, by which they compress best.
func encodeKeys(_ context.Context, job *Job, writer *parquet.Writer) error {
	k := job.Keys
	order := make([]uint32, len(k.Ends))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return bytes.Compare(k.at(a), k.at(b)) })
	b := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(k.Fields))
	defer b.Release()
	for from := 0; from < len(order); from += batchRows {
		for _, i := range order[from:min(from+batchRows, len(order))] {
			rest := k.at(i)
			for c := range k.Fields {
				var err error
				if rest, err = types.AppendKeyTo(b.Field(c), k.Fields[c].Type, rest); err != nil {
					return fmt.Errorf("%w: the keys of %s: %w", rows.ErrValue, job.Path, err)
				}
			}
		}
		record := b.NewRecordBatch()
		err := writer.Write(record)
		record.Release()
		if err != nil {
			return fmt.Errorf("%w: encoding %s: %w", rows.ErrValue, job.Path, err)
		}
	}
	return nil
}
