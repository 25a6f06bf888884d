package ducklake

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
)

const (
	// deleteBatch is the number of positions that are turned into Arrow at once (promise 6).
	deleteBatch = 1 << 16
	pathColumn  = "file_path"
	posColumn   = "pos"
)

// The field ids that table formats keep for the two columns of a positional delete file.
var deleteSchema = arrow.NewSchema([]arrow.Field{
	{Name: pathColumn, Type: arrow.BinaryTypes.String, Metadata: arrow.NewMetadata([]string{types.FieldIDKey}, []string{"2147483546"})},
	{Name: posColumn, Type: arrow.PrimitiveTypes.Int64, Metadata: arrow.NewMetadata([]string{types.FieldIDKey}, []string{"2147483545"})},
}, nil)

var deleteProperties = parquet.NewWriterProperties(
	parquet.WithCompression(compress.Codecs.Zstd),
	parquet.WithDictionaryFor(posColumn, false),
	parquet.WithEncodingFor(posColumn, parquet.Encodings.DeltaBinaryPacked),
	parquet.WithMaxRowGroupLength(1<<20),
	parquet.WithCreatedBy("streambed"),
)

// encodeDeletes writes the positional delete file of one data file: its path as readers see it, and all of its deleted
// positions, increasing.
func encodeDeletes(path string, bits *roaring.Bitmap) ([]byte, error) {
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(deleteSchema, &out, deleteProperties, pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, deleteSchema)
	defer b.Release()
	paths, positions := b.Field(0).(*array.StringBuilder), b.Field(1).(*array.Int64Builder)
	flush := func() error {
		record := b.NewRecordBatch()
		defer record.Release()
		return w.WriteBuffered(record)
	}
	for it := bits.Iterator(); it.HasNext(); {
		paths.Append(path)
		positions.Append(int64(it.Next()))
		if positions.Len() == deleteBatch {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	if positions.Len() > 0 {
		if err := flush(); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// footerSize reads the length of a Parquet file's footer off its end.
func footerSize(body []byte) int64 {
	return int64(binary.LittleEndian.Uint32(body[len(body)-8:]))
}

// decodeDeletes reads the positions of a delete file, which must be count many.
func decodeDeletes(body []byte, count int64) (*roaring.Bitmap, error) {
	f, err := file.NewParquetReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	at := f.MetaData().Schema.ColumnIndexByName(posColumn)
	if at < 0 {
		return nil, fmt.Errorf("it has no column %q", posColumn)
	}
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: deleteBatch}, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	records, err := r.GetRecordReader(context.Background(), []int{at}, nil)
	if err != nil {
		return nil, err
	}
	defer records.Release()
	bits := roaring.New()
	for records.Next() {
		positions, ok := records.RecordBatch().Column(0).(*array.Int64)
		if !ok {
			return nil, fmt.Errorf("its positions are of type %s", records.RecordBatch().Column(0).DataType())
		}
		for i := range positions.Len() {
			p := positions.Value(i)
			if p < 0 || p > math.MaxUint32 {
				return nil, fmt.Errorf("it deletes position %d, beyond any row that a file may have", p)
			}
			bits.Add(uint32(p))
		}
	}
	if err := records.Err(); err != nil {
		return nil, err
	}
	if got := int64(bits.GetCardinality()); got != count {
		return nil, fmt.Errorf("it holds %d positions, the catalog tells %d", got, count)
	}
	bits.RunOptimize()
	return bits, nil
}

func readDeletes(ctx context.Context, store storage.Store, uri string, count int64) (*roaring.Bitmap, error) {
	body, err := store.Get(ctx, uri)
	if err != nil {
		return nil, err
	}
	bits, err := decodeDeletes(body, count)
	if err != nil {
		return nil, fmt.Errorf("delete file %s: %w", uri, err)
	}
	return bits, nil
}
