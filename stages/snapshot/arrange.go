package snapshot

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/stages/batcher"
)

// arrangedBytes is how much, in bytes as the source sends it, a copy's worker splits by partition and sorts at a time, in
// memory (promise 6).
const arrangedBytes = 16 << 20

// arrange makes of the current file, which is whole on the local disk, one for each partition, with its rows in order.
func (o *output) arrange(ctx context.Context) ([]*batcher.CopyFile, []*os.File, error) {
	all, err := o.reread(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("copied rows cannot be read back to be sorted: %w", err)
	}
	defer all.Release()
	looked := pick(all, o.arranger.Columns())
	defer looked.Release()
	groups, err := o.arranger.Arrange(looked)
	if err != nil {
		return nil, nil, err
	}
	var files []*batcher.CopyFile
	var stored []*os.File
	for _, g := range groups {
		file, on, err := o.arranged(all, g)
		if on != nil {
			stored = append(stored, on)
		}
		if err != nil {
			return nil, stored, err
		}
		files = append(files, file)
	}
	if len(files) > 0 {
		files[0].Bytes = o.current.Bytes
	}
	return files, stored, nil
}

// reread gives the rows of the current file.
func (o *output) reread(ctx context.Context) (arrow.RecordBatch, error) {
	local, err := os.Open(o.file.Name())
	if err != nil {
		return nil, err
	}
	info, err := local.Stat()
	if err != nil {
		local.Close()
		return nil, err
	}
	file, err := parquet.Open(ctx, localObject{local, info.Size()})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var batches []arrow.RecordBatch
	defer func() {
		for _, b := range batches {
			b.Release()
		}
	}()
	for batch, err := range file.Batches(ctx, o.layout.Schema().Fields()) {
		if err != nil {
			return nil, err
		}
		batches = append(batches, batch)
	}
	return parquet.Join(batches)
}

// localObject is a file on the local disk.
type localObject struct {
	*os.File
	size int64
}

// Size is in bytes.
func (l localObject) Size() int64 { return l.size }

func pick(batch arrow.RecordBatch, columns []int) arrow.RecordBatch {
	fields, picked := make([]arrow.Field, len(columns)), make([]arrow.Array, len(columns))
	for i, c := range columns {
		fields[i], picked[i] = batch.Schema().Field(c), batch.Column(c)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), picked, batch.NumRows())
}

// arranged writes rows into a file of their own, with their keys.
func (o *output) arranged(all arrow.RecordBatch, g formats.ArrangedRows) (*batcher.CopyFile, *os.File, error) {
	name := "copy-" + uuid.NewString() + ".parquet"
	on, err := os.Create(filepath.Join(o.copier.cfg.SpillDir, name))
	if err != nil {
		return nil, nil, fmt.Errorf("a file for copied rows cannot be made: %w", err)
	}
	f := &batcher.CopyFile{Incarnation: o.incarnation.ID, Rows: int64(len(g.Rows)),
		File: formats.DataFile{Path: o.incarnation.Location + "/" + g.Folder + "/" + name, Partition: g.Partition}}
	writer, err := parquet.NewWriter(on, o.layout.Schema().Fields(), parquet.Options{})
	if err != nil {
		return nil, on, err
	}
	for part := range slices.Chunk(g.Rows, batchRows) {
		batch, err := parquet.Gather(all, part)
		if err != nil {
			return nil, on, err
		}
		err = writer.Write(batch)
		batch.Release()
		if err != nil {
			return nil, on, fmt.Errorf("copied rows cannot be encoded: %w", err)
		}
	}
	for _, row := range g.Rows {
		if o.keyer != nil {
			f.Keys.Add(o.current.Keys.At(row))
		}
	}
	f.File.Rows, f.File.Size, f.File.Stats, err = writer.Close()
	if err == nil {
		err = on.Close()
	}
	if err != nil {
		return nil, on, fmt.Errorf("copied rows cannot be encoded: %w", err)
	}
	return f, on, nil
}
