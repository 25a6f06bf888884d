package parquet

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
)

// batchRows is the most rows of a batch that is read.
const batchRows = 16384

// File is an open Parquet file. Reading holds at most one row group's columns, decoded, beside what it hands out. Its methods are safe for concurrent use but for SetDefaults.
type File struct {
	object   storage.Object
	reader   *file.Reader
	defaults map[int]arrow.Array
	// columns are the file's top-level fields by field id.
	columns map[int]fileColumn
	// starts are the first row of each row group, with the file's rows as the last entry.
	starts []int64
}

// fileColumn is a top-level field of a file.
type fileColumn struct {
	index int
	// leaves are the indexes of its leaf columns.
	leaves []int
}

// Open reads the footer of an object. The file takes the object over and closes it, also on error. Reads end with the
// context under which the object was opened.
func Open(ctx context.Context, object storage.Object) (*File, error) {
	if ctx.Err() != nil {
		object.Close()
		return nil, context.Cause(ctx)
	}
	f := &File{object: object, columns: map[int]fileColumn{}}
	if err := f.readFooter(); err != nil {
		object.Close()
		return nil, fmt.Errorf("cannot read a Parquet footer: %w", err)
	}
	return f, nil
}

// caught makes an error of a panic: the library panics on some files that are damaged.
func caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the Parquet file is damaged: %v", r)
	}
}

func (f *File) readFooter() (err error) {
	defer caught(&err)
	f.reader, err = file.NewParquetReader(io.NewSectionReader(f.object, 0, f.object.Size()),
		file.WithReadProps(parquet.NewReaderProperties(memory.DefaultAllocator)))
	if err != nil {
		return err
	}
	meta := f.reader.MetaData()
	root := meta.Schema.Root()
	for i := range root.NumFields() {
		if id := root.Field(i).FieldID(); id > 0 {
			f.columns[int(id)] = fileColumn{index: i}
		}
	}
	for leaf := range meta.Schema.NumColumns() {
		id := int(meta.Schema.ColumnRoot(leaf).FieldID())
		if c, ok := f.columns[id]; ok {
			c.leaves = append(c.leaves, leaf)
			f.columns[id] = c
		}
	}
	rows := int64(0)
	for g := range meta.NumRowGroups() {
		n := meta.RowGroup(g).NumRows()
		if n < 0 || n > math.MaxInt64-rows {
			return fmt.Errorf("row group %d has %d rows", g, n)
		}
		f.starts = append(f.starts, rows)
		rows += n
	}
	f.starts = append(f.starts, rows)
	return nil
}

// Rows gives the file's number of rows.
func (f *File) Rows() int64 { return f.starts[len(f.starts)-1] }

// SetDefaults gives, by field id, arrays of one value that columns read which the file does not have; others read NULL.
// The caller keeps them alive and releases them after the last read.
func (f *File) SetDefaults(defaults map[int]arrow.Array) { f.defaults = defaults }

// Close closes the object.
func (f *File) Close() error { return f.object.Close() }

// selection is where wanted fields are in a file.
type selection struct {
	// places are the column of each field in the records read, -1 for those that the file does not have.
	places []int
	leaves []int
}

func (f *File) selection(fields []types.Field) selection {
	s := selection{places: make([]int, len(fields))}
	order := map[int]int{}
	for i, field := range fields {
		c, ok := f.columns[field.ID]
		if !ok {
			s.places[i] = -1
			continue
		}
		place, again := order[c.index]
		if !again {
			place = len(order)
			order[c.index] = place
			s.leaves = append(s.leaves, c.leaves...)
		}
		s.places[i] = place
	}
	return s
}

// records reads one row group in records of at most rows rows.
func (f *File) records(ctx context.Context, s selection, group int, rows int64) (r pqarrow.RecordReader, err error) {
	defer caught(&err)
	// A reader of its own each time: it keeps the state of reading.
	file, err := pqarrow.NewFileReader(f.reader, pqarrow.ArrowReadProperties{BatchSize: rows}, memory.DefaultAllocator)
	if err != nil {
		return nil, fmt.Errorf("cannot read a Parquet schema: %w", err)
	}
	r, err = file.GetRecordReader(ctx, s.leaves, []int{group})
	if err != nil {
		return nil, fmt.Errorf("cannot read Parquet columns: %w", err)
	}
	return r, nil
}

// next reads one record that belongs to r until the next call; an end is an error, for the rows are counted.
func next(r pqarrow.RecordReader) (rec arrow.RecordBatch, err error) {
	defer caught(&err)
	if r.Next() {
		if rec = r.RecordBatch(); rec.NumRows() > 0 {
			return rec, nil
		}
	}
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("cannot read Parquet rows: %w", err)
	}
	return nil, fmt.Errorf("cannot read Parquet rows: %w before the row count of the footer", io.ErrUnexpectedEOF)
}

// Batches reads the given columns of all rows in order, in batches of at most 16,384 rows. Columns are found by field
// id; those the file does not have read their default or NULL, and types that were promoted since are cast. The
// caller releases each batch. After an error there is nothing more.
func (f *File) Batches(ctx context.Context, fields []types.Field) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		p := newProjection(fields, f.defaults)
		s := f.selection(fields)
		for group := range len(f.starts) - 1 {
			more := true
			err := f.batchesOf(ctx, p, s, group, func(batch arrow.RecordBatch) bool {
				more = yield(batch, nil)
				return more
			})
			if err != nil {
				yield(nil, err)
				return
			}
			if !more {
				return
			}
		}
	}
}

// batchesOf hands out a row group's batches until give returns false.
func (f *File) batchesOf(ctx context.Context, p *projection, s selection, group int, give func(arrow.RecordBatch) bool) error {
	var r pqarrow.RecordReader
	if len(s.leaves) > 0 {
		var err error
		if r, err = f.records(ctx, s, group, batchRows); err != nil {
			return err
		}
		defer r.Release()
	}
	for left := f.starts[group+1] - f.starts[group]; left > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var rec arrow.RecordBatch
		n := min(batchRows, left)
		if r != nil {
			var err error
			if rec, err = next(r); err != nil {
				return err
			}
			n = rec.NumRows()
		}
		batch, err := p.project(rec, s.places, n)
		if err != nil {
			return err
		}
		if left -= n; !give(batch) {
			return nil
		}
	}
	return nil
}
