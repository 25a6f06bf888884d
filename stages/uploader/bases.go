package uploader

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/rows"
)

// bases holds the lake rows that a batch takes unchanged TOAST values from, by file.
type bases map[string]*baseFile

type baseFile struct {
	after     *message.Segment
	positions []int64
	columns   map[int]int
	record    arrow.RecordBatch
}

// of gives the base of a row, nil when it needs none.
func (b bases) of(row *Row) *rows.Base {
	file := b[row.Base.Path]
	if file == nil {
		return nil
	}
	at, found := slices.BinarySearch(file.positions, int64(row.Base.Row))
	if !found {
		return nil
	}
	return &rows.Base{Record: file.record, Columns: file.columns, Row: at}
}

func (b bases) release() {
	for _, file := range b {
		if file.record != nil {
			file.record.Release()
		}
	}
}

// readBases reads, file by file, the values that the rows of a batch refer to: only their columns and row groups.
func (p *Pool) readBases(ctx context.Context, layout *rows.Layout, batch []Row) (bases, error) {
	var all bases
	var values []message.Value
	var columns []int
	var err error
	for i := range batch {
		base := &batch[i].Base
		if base.Path == "" {
			continue
		}
		if all == nil {
			all = bases{}
		}
		file := all[base.Path]
		if file == nil {
			file = &baseFile{after: base.After, columns: map[int]int{}}
			all[base.Path] = file
		}
		file.positions = append(file.positions, int64(base.Row))
		if values, err = message.Columns(batch[i].Tuple, values[:0]); err != nil {
			return nil, fmt.Errorf("%w: %w", rows.ErrValue, err)
		}
		columns = layout.Toasted(values, columns[:0])
		for _, c := range columns {
			if _, ok := file.columns[c]; !ok {
				file.columns[c] = len(file.columns)
			}
		}
	}
	for path, file := range all {
		if err := p.readBase(ctx, layout, path, file); err != nil {
			all.release()
			return nil, err
		}
	}
	return all, nil
}

func (p *Pool) readBase(ctx context.Context, layout *rows.Layout, path string, file *baseFile) error {
	if file.after != nil { // submitted before this segment, so a worker has it or had it: no circle of waiting
		if _, err := file.after.Wait(ctx); err != nil {
			return err
		}
	}
	slices.Sort(file.positions)
	file.positions = slices.Compact(file.positions)
	fields := make([]types.Field, len(file.columns))
	for c, i := range file.columns {
		fields[i] = layout.Schema().Columns[c].Field
	}
	object, err := p.store.Open(ctx, path)
	if err != nil {
		return fmt.Errorf("reading unchanged values from %s: %w", path, err)
	}
	defer object.Close()
	reader, err := parquet.Open(ctx, object)
	if err != nil {
		return fmt.Errorf("reading unchanged values from %s: %w", path, err)
	}
	if file.record, err = reader.Take(ctx, fields, file.positions); err != nil {
		return fmt.Errorf("reading unchanged values from %s: %w", path, err)
	}
	return nil
}
