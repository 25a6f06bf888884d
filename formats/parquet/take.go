package parquet

import (
	"context"
	"fmt"
	"iter"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/streambed/streambed/formats/types"
)

// seekRows is the most rows that are read after a seek.
const seekRows = 64

// Take reads the given columns of some rows. positions count from 0, ascend, and may repeat. Only the row groups that
// hold them are read, and of flat columns with large values only the pages. The caller releases the batch, which has a
// row for each position.
func (f *File) Take(ctx context.Context, fields []types.Field, positions []int64) (arrow.RecordBatch, error) {
	p := newProjection(fields, f.defaults)
	s := f.selection(fields)
	t := taker{}
	defer t.release()
	for group := 0; group+1 < len(f.starts) && len(positions) > 0; group++ {
		from, to := f.starts[group], f.starts[group+1]
		n := 0
		for n < len(positions) && positions[n] < to {
			if positions[n] < from || n > 0 && positions[n] < positions[n-1] {
				return nil, fmt.Errorf("positions to take must ascend from 0: %d does not", positions[n])
			}
			n++
		}
		if n == 0 {
			continue
		}
		if err := f.takeGroup(ctx, p, s, &t, group, positions[:n]); err != nil {
			return nil, err
		}
		positions = positions[n:]
	}
	if len(positions) > 0 {
		return nil, fmt.Errorf("there is no row %d in a Parquet file of %d rows", positions[0], f.Rows())
	}
	return t.finish(p.schema)
}

// takeGroup takes rows of one row group; positions are of the file.
func (f *File) takeGroup(ctx context.Context, p *projection, s selection, t *taker, group int, positions []int64) error {
	if len(s.leaves) == 0 {
		batch, err := p.project(nil, s.places, int64(len(positions)))
		if err != nil {
			return err
		}
		t.parts = append(t.parts, batch)
		return nil
	}
	seeks, err := f.seekable(s, group, positions)
	if err != nil {
		return err
	}
	if seeks {
		return f.takeSeeking(ctx, p, s, t, group, positions)
	}
	row := f.starts[group]
	var failed error
	err = f.batchesOf(ctx, p, s, group, func(batch arrow.RecordBatch) bool {
		defer batch.Release()
		n := before(positions, row+batch.NumRows())
		failed = t.take(batch, positions[:n], row)
		positions = positions[n:]
		row += batch.NumRows()
		return failed == nil && len(positions) > 0
	})
	if err == nil {
		err = failed
	}
	return err
}

// before counts the positions before end.
func before(positions []int64, end int64) int {
	n := 0
	for n < len(positions) && positions[n] < end {
		n++
	}
	return n
}

// seekable reports whether seeking to each run of positions reads less than the whole row group. Only plain columns are
// sought in: in repeated ones the library's seek gives wrong rows at times.
func (f *File) seekable(s selection, group int, positions []int64) (bool, error) {
	const page = 1 << 20 // the library's default, before compression; a seek decodes one page of each column, or two
	meta := f.reader.MetaData()
	var size int64
	for _, leaf := range s.leaves {
		if c := meta.Schema.Column(leaf); c.MaxRepetitionLevel() > 0 || c.MaxDefinitionLevel() > 1 {
			return false, nil
		}
		chunk, err := meta.RowGroup(group).ColumnChunk(leaf)
		if err != nil {
			return false, fmt.Errorf("cannot read a Parquet footer: %w", err)
		}
		if chunk.GetOffsetIndexLocation() == nil {
			return false, nil
		}
		size += chunk.TotalUncompressedSize()
	}
	runs := int64(0)
	for i, p := range positions {
		if i == 0 || p > positions[i-1]+seekRows {
			runs++
		}
	}
	return runs*2*page*int64(len(s.leaves)) < size, nil
}

func (f *File) takeSeeking(ctx context.Context, p *projection, s selection, t *taker, group int, positions []int64) error {
	r, err := f.records(ctx, s, group, seekRows)
	if err != nil {
		return err
	}
	defer r.Release()
	first := f.starts[group]
	for len(positions) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		row := positions[0]
		if err := seek(r, row-first); err != nil {
			return fmt.Errorf("cannot find row %d of a Parquet file: %w", row, err)
		}
		rec, err := next(r)
		if err != nil {
			return err
		}
		batch, err := p.project(rec, s.places, rec.NumRows())
		if err != nil {
			return err
		}
		n := before(positions, row+batch.NumRows())
		err = t.take(batch, positions[:n], row)
		batch.Release()
		if err != nil {
			return err
		}
		positions = positions[n:]
	}
	return nil
}

func seek(r pqarrow.RecordReader, row int64) (err error) {
	defer caught(&err)
	return r.SeekToRow(row)
}

// taker gathers rows. It holds copies, so that a row does not keep the batch alive that it was read with.
type taker struct{ parts []arrow.RecordBatch }

// take adds rows of batch, whose first row is at position first.
func (t *taker) take(batch arrow.RecordBatch, positions []int64, first int64) error {
	var runs taker
	defer runs.release()
	for i := 0; i < len(positions); {
		j := i + 1
		for j < len(positions) && positions[j] == positions[j-1]+1 {
			j++
		}
		runs.parts = append(runs.parts, batch.NewSlice(positions[i]-first, positions[j-1]+1-first))
		i = j
	}
	if len(runs.parts) == 0 {
		return nil
	}
	part, err := runs.finish(batch.Schema())
	if err != nil {
		return err
	}
	t.parts = append(t.parts, part)
	return nil
}

// Without gives a batch without some of its rows, positions counting from 0 in the batch and ascending. The caller
// releases the result, which may share memory with the batch.
func Without(batch arrow.RecordBatch, deleted iter.Seq[int64]) (arrow.RecordBatch, error) {
	var kept taker
	defer kept.release()
	from := int64(0)
	keep := func(to int64) {
		if to > from {
			kept.parts = append(kept.parts, batch.NewSlice(from, to))
		}
	}
	for row := range deleted {
		keep(row)
		from = row + 1
	}
	keep(batch.NumRows())
	if len(kept.parts) == 1 {
		kept.parts[0].Retain()
		return kept.parts[0], nil
	}
	return kept.finish(batch.Schema())
}

// Join makes one batch of several of the same columns; the caller releases it.
func Join(batches []arrow.RecordBatch) (arrow.RecordBatch, error) {
	if len(batches) == 1 {
		batches[0].Retain()
		return batches[0], nil
	}
	all := taker{parts: batches}
	return all.finish(batches[0].Schema())
}

// Gather copies rows of a batch, in any order; the caller releases the result.
func Gather(batch arrow.RecordBatch, rows []int) (arrow.RecordBatch, error) {
	positions := make([]int64, len(rows))
	for i, row := range rows {
		positions[i] = int64(row)
	}
	var gathered taker
	defer gathered.release()
	if err := gathered.take(batch, positions, 0); err != nil {
		return nil, err
	}
	if len(gathered.parts) == 1 {
		gathered.parts[0].Retain()
		return gathered.parts[0], nil
	}
	return gathered.finish(batch.Schema())
}

// Live gives the rows of a batch, whose first is row first of its file, but for those of the file that are deleted (nil for
// none). The caller releases the result, which may share memory with the batch.
func Live(batch arrow.RecordBatch, first int64, deleted *roaring.Bitmap) (arrow.RecordBatch, error) {
	if deleted == nil {
		batch.Retain()
		return batch, nil
	}
	end := first + batch.NumRows()
	return Without(batch, func(yield func(int64) bool) {
		it := deleted.Iterator()
		for it.AdvanceIfNeeded(uint32(first)); it.HasNext() && int64(it.PeekNext()) < end; {
			if !yield(int64(it.Next()) - first) {
				return
			}
		}
	})
}

// WriteWithout writes the rows that Live gives. They go to the writer at once: many short runs would cost twice as much.
func (w *Writer) WriteWithout(batch arrow.RecordBatch, first int64, deleted *roaring.Bitmap) error {
	live, err := Live(batch, first, deleted)
	if err != nil {
		return err
	}
	defer live.Release()
	return w.Write(live)
}

func (t *taker) release() {
	for _, p := range t.parts {
		p.Release()
	}
}

// finish copies all parts into one record.
func (t *taker) finish(schema *arrow.Schema) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, schema.NumFields())
	defer releaseAll(columns)
	rows := int64(0)
	for _, p := range t.parts {
		rows += p.NumRows()
	}
	for c := range columns {
		if len(t.parts) == 0 {
			columns[c] = array.MakeArrayOfNull(memory.DefaultAllocator, schema.Field(c).Type, 0)
			continue
		}
		pieces := make([]arrow.Array, len(t.parts))
		for i, p := range t.parts {
			pieces[i] = p.Column(c)
		}
		var err error
		if columns[c], err = array.Concatenate(pieces, memory.DefaultAllocator); err != nil {
			return nil, fmt.Errorf("cannot gather rows: %w", err)
		}
	}
	return array.NewRecordBatch(schema, columns, rows), nil
}

func releaseAll(arrays []arrow.Array) {
	for _, a := range arrays {
		if a != nil {
			a.Release()
		}
	}
}
