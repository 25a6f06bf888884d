package ducklake

import (
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/types"
)

// Rows are sorted in memory (promise 6): sortedBytes is the size up to which compaction joins the files of a table that is
// sorted, and sortedRun, in bytes of rows, what is sorted at a time. A file with more is made of several such runs.
const (
	sortedBytes = 8 << 20
	sortedRun   = 64 << 20
)

// sorted reports whether rows have an order; a may be nil.
func (a *arranger) sorted() bool { return a != nil && len(a.sorts) > 0 }

// pick gives the columns that the arranger looks at, of a batch with all of the schema's; the caller releases it.
func (a *arranger) pick(batch arrow.RecordBatch) arrow.RecordBatch {
	fields, columns := make([]arrow.Field, len(a.columns)), make([]arrow.Array, len(a.columns))
	for i, c := range a.columns {
		fields[i], columns[i] = batch.Schema().Field(c), batch.Column(c)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, batch.NumRows())
}

// rowSink takes the rows of a rewrite: it writes them on, sorted if the arranger has an order.
type rowSink struct {
	writer *parquet.Writer
	a      *arranger
	run    int64 // bytes that are sorted at a time
	kept   []arrow.RecordBatch
	size   int64 // of what is kept, in bytes
	n      int64
	// order tells where each row went; nil when they stay as they came.
	order []uint32
}

func (s *rowSink) write(batch arrow.RecordBatch) error {
	s.n += batch.NumRows()
	if !s.a.sorted() {
		return s.writer.Write(batch)
	}
	batch.Retain()
	s.kept = append(s.kept, batch)
	if s.size += parquet.RecordSize(batch); s.size >= s.run {
		return s.sort()
	}
	return nil
}

// writeLive writes the rows of a batch, whose first is row first of its file, but for those that are deleted.
func (s *rowSink) writeLive(batch arrow.RecordBatch, first int64, deleted *roaring.Bitmap) error {
	live, err := parquet.Live(batch, first, deleted)
	if err != nil {
		return err
	}
	defer live.Release()
	return s.write(live)
}

func (s *rowSink) release() {
	for _, b := range s.kept {
		b.Release()
	}
	s.kept, s.size = nil, 0
}

// gathered is the number of rows that are brought in order at a time.
const gathered = 16384

// sort writes what is kept in its order.
func (s *rowSink) sort() error {
	if len(s.kept) == 0 {
		return nil
	}
	all, err := parquet.Join(s.kept)
	s.release()
	if err != nil {
		return err
	}
	defer all.Release()
	looked := s.a.pick(all)
	defer looked.Release()
	sorted, err := (&arranger{columns: s.a.columns, sorts: s.a.sorts}).Arrange(looked)
	if err != nil {
		return err
	}
	rows, before := sorted[0].Rows, uint32(len(s.order))
	s.order = append(s.order, make([]uint32, len(rows))...)
	for to, from := range rows {
		s.order[before+uint32(from)] = before + uint32(to)
	}
	for part := range slices.Chunk(rows, gathered) {
		batch, err := parquet.Gather(all, part)
		if err != nil {
			return err
		}
		err = s.writer.Write(batch)
		batch.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// findPartitions finds out what partition the rows of inlined files are of. Rows of before the arrangement, or of another
// writer, may be of several: then the file is of none.
func (l *Lake) findPartitions(ctx context.Context, sources []source, schema *formats.Schema, a *arranger) error {
	if a == nil || len(a.parts) == 0 {
		return nil
	}
	for i := range sources {
		partition, err := l.findPartition(ctx, sources[i].file, schema, a)
		if err != nil {
			return err
		}
		sources[i].partition = partition
	}
	return nil
}

func (l *Lake) findPartition(ctx context.Context, f *dataFile, schema *formats.Schema, a *arranger) (partition string, err error) {
	object, err := l.cfg.Store.Open(ctx, f.path)
	if err != nil {
		return "", err
	}
	file, err := parquet.Open(ctx, object)
	if err != nil {
		return "", err
	}
	defer file.Close()
	defaults, release, err := schema.Defaults()
	if err != nil {
		return "", err
	}
	defer release()
	file.SetDefaults(defaults)
	fields := make([]types.Field, len(a.columns))
	for i, c := range a.columns {
		fields[i] = schema.Columns[c].Field
	}
	first := true
	for batch, err := range file.Batches(ctx, fields) {
		if err != nil {
			return "", err
		}
		groups, err := a.split(batch)
		batch.Release()
		if err != nil {
			return "", err
		}
		if len(groups) != 1 || !first && groups[0].Partition != partition {
			return "", nil
		}
		partition, first = groups[0].Partition, false
	}
	return partition, nil
}
