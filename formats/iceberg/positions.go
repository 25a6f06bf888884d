package iceberg

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
)

// The reserved field ids of position delete files (table spec, "Reserved Field IDs").
const (
	pathField     = 2147483546
	positionField = 2147483545
)

var positionFields = []types.Field{
	{ID: pathField, Name: "file_path", Type: types.Type{Kind: types.String}, Required: true},
	{ID: positionField, Name: "pos", Type: types.Type{Kind: types.Long}, Required: true},
}

// positionBatch is the number of positions encoded at once.
const positionBatch = 16384

// positionDeletes encodes the deleted rows of one data file, in order, as a position delete file (table spec, "Position
// Delete Files"). Its bounds of file_path are the data file's path: planners then pair it with no other.
func positionDeletes(spec iceberg.PartitionSpec, uri string, data iceberg.DataFile, bits *roaring.Bitmap) ([]byte, iceberg.DataFile, error) {
	var body bytes.Buffer
	w, err := parquet.NewWriter(&body, positionFields, parquet.Options{})
	if err != nil {
		return nil, nil, err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(positionFields))
	defer b.Release()
	paths, positions := b.Field(0).(*array.StringBuilder), b.Field(1).(*array.Int64Builder)
	for it := bits.Iterator(); it.HasNext(); {
		for n := 0; n < positionBatch && it.HasNext(); n++ {
			paths.Append(data.FilePath())
			positions.Append(int64(it.Next()))
		}
		record := b.NewRecordBatch()
		err := w.Write(record)
		record.Release()
		if err != nil {
			return nil, nil, err
		}
	}
	rows, size, stats, err := w.Close()
	if err != nil {
		return nil, nil, err
	}
	file, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentPosDeletes, uri, iceberg.ParquetFile, data.Partition(), nil, nil, rows, size)
	if err != nil {
		return nil, nil, err
	}
	path := []byte(data.FilePath())
	first := binary.LittleEndian.AppendUint64(nil, uint64(bits.Minimum()))
	last := binary.LittleEndian.AppendUint64(nil, uint64(bits.Maximum()))
	file.ColumnSizes(stats.ColumnSizes).ValueCounts(stats.ValueCounts).NullValueCounts(stats.NullCounts).
		LowerBoundValues(map[int][]byte{pathField: path, positionField: first}).
		UpperBoundValues(map[int][]byte{pathField: path, positionField: last}).
		ReferencedDataFile(data.FilePath())
	return body.Bytes(), file.Build(), nil
}

// aboutOne gives the data file that a position delete file is about, "" when it may be about several. Bounds that were
// cut short never agree: the upper one is raised then.
func aboutOne(f iceberg.DataFile) string {
	if one := f.ReferencedDataFile(); one != nil {
		return *one
	}
	lower, upper := f.LowerBoundValues()[pathField], f.UpperBoundValues()[pathField]
	if lower != nil && bytes.Equal(lower, upper) {
		return string(lower)
	}
	return ""
}

// readPositions reads a position delete file: the deleted rows by data file.
func readPositions(ctx context.Context, store storage.Store, uri string) (map[string]*roaring.Bitmap, error) {
	object, err := store.Open(ctx, uri)
	if err != nil {
		return nil, err
	}
	file, err := parquet.Open(ctx, object)
	if err != nil {
		return nil, fmt.Errorf("position delete file %s: %w", uri, err)
	}
	defer file.Close()
	out := map[string]*roaring.Bitmap{}
	var path string
	var bits *roaring.Bitmap
	for batch, err := range file.Batches(ctx, positionFields) {
		if err != nil {
			return nil, fmt.Errorf("position delete file %s: %w", uri, err)
		}
		paths, positions := batch.Column(0).(*array.String), batch.Column(1).(*array.Int64)
		for i := range int(batch.NumRows()) {
			if at := paths.Value(i); bits == nil || at != path {
				path = string([]byte(at)) // the batch's memory goes
				if bits = out[path]; bits == nil {
					bits = roaring.New()
					out[path] = bits
				}
			}
			at := positions.Value(i)
			if at < 0 || at > math.MaxUint32 {
				batch.Release()
				return nil, fmt.Errorf("position delete file %s names row %d of %s", uri, at, path)
			}
			bits.Add(uint32(at))
		}
		batch.Release()
	}
	return out, nil
}
