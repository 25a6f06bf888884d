// Package parquet writes Arrow records to Parquet files with the column statistics that table formats want, and reads
// them back by field id.
package parquet

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
)

// Options bound a file's row groups. The zero value gives the defaults.
type Options struct {
	// RowGroupRows is the most rows of a row group; default 131,072.
	RowGroupRows int64
	// RowGroupBytes is about the most bytes of a row group before encoding, unless one row is larger; default 64 MiB.
	RowGroupBytes int64
	// Allocator is for the writer's buffers; default Go's heap.
	Allocator memory.Allocator
}

func (o *Options) fill() {
	if o.RowGroupRows <= 0 {
		o.RowGroupRows = 131072
	}
	if o.RowGroupBytes <= 0 {
		o.RowGroupBytes = 64 << 20
	}
	if o.Allocator == nil {
		o.Allocator = memory.DefaultAllocator
	}
}

// Writer encodes one Parquet file: zstd, dictionaries, page index, decimals as integers up to 18 digits, field ids. Its
// memory is bounded by one row group (promise 6). It is not safe for concurrent use. A writer that is given up needs no
// closing.
type Writer struct {
	out    *counter
	schema *arrow.Schema
	file   *pqarrow.FileWriter
	stats  []*column
	o      Options

	rows      int64
	groupRows int64
	groupRaw  int64
	// closedRaw and closedSize are of the row groups that are written, before and after encoding.
	closedRaw int64
	failed    error
}

// counter counts the bytes that go out. It hides an io.Closer, which the Parquet library would close.
type counter struct {
	out io.Writer
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	c.n += int64(n)
	return n, err
}

// createdBy has the form that Java's Parquet reader looks for: it ignores the statistics of a writer whose name it cannot
// parse.
const createdBy = "streambed version 1.0.0 (build 1)"

// NewWriter begins a file with the given columns on out. It writes a few bytes at once.
func NewWriter(out io.Writer, fields []types.Field, o Options) (*Writer, error) {
	o.fill()
	if len(fields) == 0 {
		return nil, errors.New("a Parquet file needs a column at least")
	}
	w := &Writer{out: &counter{out: out}, schema: types.ArrowSchema(fields), o: o}
	options := []parquet.WriterProperty{
		parquet.WithAllocator(o.Allocator),
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithStoreDecimalAsInteger(true),
		parquet.WithMaxRowGroupLength(o.RowGroupRows),
		parquet.WithPageIndexEnabled(true),
		parquet.WithCreatedBy(createdBy),
	}
	for _, f := range fields {
		options = withoutFloatStatistics(options, nil, f)
	}
	if key := onlyRequired(fields); key != nil {
		options = append(options, parquet.WithDictionaryPath(parquet.ColumnPath{key.Name}, false))
	}
	props := parquet.NewWriterProperties(options...)
	file, err := pqarrow.NewFileWriter(w.schema, w.out, props, pqarrow.NewArrowWriterProperties(pqarrow.WithAllocator(o.Allocator)))
	if err != nil {
		return nil, fmt.Errorf("cannot begin a Parquet file: %w", err)
	}
	w.file = file
	for _, f := range fields {
		w.stats = append(w.stats, newColumn(f))
	}
	return w, nil
}

// onlyRequired gives the required column where there is one alone: a table's key, whose values are all different, so that
// a dictionary of them would cost time and space for nothing. nil when there is none, or several.
func onlyRequired(fields []types.Field) *types.Field {
	var found *types.Field
	for i := range fields {
		if fields[i].Required {
			if found != nil {
				return nil
			}
			found = &fields[i]
		}
	}
	return found
}

// Write appends the rows of rec, whose columns are the file's in their order. rec is not kept. After an error the
// writer is of no more use.
func (w *Writer) Write(rec arrow.RecordBatch) error {
	if w.failed != nil {
		return w.failed
	}
	if err := w.write(rec); err != nil {
		w.failed = fmt.Errorf("cannot write %d rows to a Parquet file: %w", rec.NumRows(), err)
		return w.failed
	}
	return nil
}

func (w *Writer) write(rec arrow.RecordBatch) error {
	if !rec.Schema().Equal(w.schema) {
		return fmt.Errorf("the record's schema is not the file's: %s instead of %s", rec.Schema(), w.schema)
	}
	rows := rec.NumRows()
	if rows == 0 {
		return nil
	}
	for i, c := range w.stats {
		c.observe(rec.Column(i), nil)
	}
	raw := RecordSize(rec)
	perRow := max(raw/rows, 1)
	for from := int64(0); from < rows; {
		if w.groupRows >= w.o.RowGroupRows || w.groupRows > 0 && w.groupRaw >= w.o.RowGroupBytes {
			if err := w.file.NewBufferedRowGroupChecked(); err != nil {
				return err
			}
			w.closedRaw += w.groupRaw
			w.groupRows, w.groupRaw = 0, 0
		}
		n := min(rows-from, w.o.RowGroupRows-w.groupRows, max((w.o.RowGroupBytes-w.groupRaw)/perRow, 1))
		if err := w.writeSlice(rec, from, n); err != nil {
			return err
		}
		from += n
		w.rows += n
		w.groupRows += n
		w.groupRaw += n * perRow
	}
	return nil
}

func (w *Writer) writeSlice(rec arrow.RecordBatch, from, n int64) error {
	if from == 0 && n == rec.NumRows() {
		return w.file.WriteBuffered(rec)
	}
	part := rec.NewSlice(from, from+n)
	defer part.Release()
	return w.file.WriteBuffered(part)
}

// Rows gives the rows written so far.
func (w *Writer) Rows() int64 { return w.rows }

// Written estimates the size in bytes that the file has so far: what went out, and what the open row group will come
// to.
func (w *Writer) Written() int64 {
	open := w.file.RowGroupTotalBytesWritten()
	// Half a megabyte of every column is held unencoded, so the pages made so far tell little of a small group.
	guess := w.groupRaw / 3
	if w.closedRaw > 0 {
		guess = int64(float64(w.groupRaw) * float64(w.out.n) / float64(w.closedRaw))
	}
	return w.out.n + max(open, guess)
}

// Close writes the footer and gives what a catalog needs to know of the file. It does not close the underlying writer.
func (w *Writer) Close() (rows, size int64, stats formats.FileStats, err error) {
	if w.failed != nil {
		return 0, 0, stats, w.failed
	}
	w.failed = errors.New("the Parquet file is closed")
	if err := w.file.Close(); err != nil {
		return 0, 0, stats, fmt.Errorf("cannot finish a Parquet file: %w", err)
	}
	footer, err := w.file.FileMetadata()
	if err != nil {
		return 0, 0, stats, fmt.Errorf("cannot read back a Parquet footer: %w", err)
	}
	if footer.NumRows != w.rows {
		return 0, 0, stats, fmt.Errorf("the Parquet footer counts %d rows where %d were written", footer.NumRows, w.rows)
	}
	stats = formats.FileStats{
		ValueCounts: map[int]int64{}, NullCounts: map[int]int64{}, NaNCounts: map[int]int64{},
		Lower: map[int][]byte{}, Upper: map[int][]byte{},
	}
	for _, c := range w.stats {
		c.fill(&stats)
	}
	stats.ColumnSizes, stats.SplitOffsets, err = sizes(footer)
	return w.rows, w.out.n, stats, err
}

// sizes reads compressed column sizes by field id, and where the row groups begin, off a footer.
func sizes(footer *metadata.FileMetaData) (map[int]int64, []int64, error) {
	columns := map[int]int64{}
	offsets := make([]int64, 0, footer.NumRowGroups())
	for g := range footer.NumRowGroups() {
		group := footer.RowGroup(g)
		for c := range group.NumColumns() {
			chunk, err := group.ColumnChunk(c)
			if err != nil {
				return nil, nil, fmt.Errorf("cannot read back a Parquet footer: %w", err)
			}
			if id := footer.Schema.Column(c).SchemaNode().FieldID(); id > 0 {
				columns[int(id)] += chunk.TotalCompressedSize()
			}
			if c == 0 {
				offset := chunk.DataPageOffset()
				if chunk.HasDictionaryPage() && chunk.DictionaryPageOffset() > 0 {
					offset = min(offset, chunk.DictionaryPageOffset())
				}
				offsets = append(offsets, offset)
			}
		}
	}
	slices.Sort(offsets)
	return columns, offsets, nil
}

// RecordSize estimates the bytes of a record before encoding.
func RecordSize(rec arrow.RecordBatch) int64 {
	var n int64
	for _, c := range rec.Columns() {
		n += arraySize(c)
	}
	return n
}

func arraySize(a arrow.Array) int64 {
	rows := int64(a.Len())
	switch a := a.(type) {
	case *array.String:
		return 4*rows + int64(len(a.ValueBytes()))
	case *array.Binary:
		return 4*rows + int64(len(a.ValueBytes()))
	case *array.Struct:
		n := rows / 8
		for i := range a.NumField() {
			n += arraySize(a.Field(i))
		}
		return n
	case array.ListLike:
		if rows == 0 {
			return 0
		}
		from, _ := a.ValueOffsets(0)
		_, to := a.ValueOffsets(int(rows - 1))
		part := array.NewSlice(a.ListValues(), from, to)
		defer part.Release()
		return 4*rows + arraySize(part)
	}
	if t, ok := a.DataType().(arrow.FixedWidthDataType); ok {
		return rows*int64(t.BitWidth())/8 + rows/8
	}
	return 16 * rows
}

// withoutFloatStatistics leaves minimum and maximum of float columns out of the file: Parquet's do not count NaN, and a
// reader that orders NaN above all numbers, as DuckDB does, would pass over the rows that have it.
func withoutFloatStatistics(options []parquet.WriterProperty, parent parquet.ColumnPath, f types.Field) []parquet.WriterProperty {
	path := append(slices.Clone(parent), f.Name)
	switch f.Type.Kind {
	case types.Float, types.Double:
		return append(options, parquet.WithStatsPath(path, false))
	case types.List:
		path = append(path, "list")
	case types.Map:
		path = append(path, "key_value")
	}
	for _, child := range f.Type.Fields {
		options = withoutFloatStatistics(options, path, child)
	}
	return options
}
