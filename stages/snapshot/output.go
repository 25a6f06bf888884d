package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/stages/batcher"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/rows"
)

// batchRows is the number of rows that are decoded before they go to the Parquet writer.
const batchRows = 16384

// maxFileRows bounds the keys that a worker holds for one file.
const maxFileRows = 2 << 20

// output turns the rows of a worker's chunks into data files. A file is built on the local disk; files are handed over
// only at the end of a chunk, all of it together, so that a chunk is done or not at all.
type output struct {
	copier      *Copier
	incarnation formats.TableRef
	layout      *rows.Layout
	keyer       *rows.Keyer
	arranger    formats.Arranger // nil when rows stay as they come
	list        string
	binary      bool

	builder *rows.Builder
	file    *os.File
	writer  *parquet.Writer
	current *batcher.CopyFile
	ready   []*batcher.CopyFile
	chunks  map[uint32][]formats.PageRange

	started bool // the COPY header has been read
	values  []message.Value
	scratch []byte
	key     []byte
	err     error
	context context.Context
}

func (o *output) format() string {
	if o.binary {
		return "binary"
	}
	return "text"
}

// begin readies the output for one COPY.
func (o *output) begin() *output {
	o.started, o.err = false, nil
	return o
}

// Write takes one CopyData message, which holds one row (protocol section "COPY Operations"; the first of a binary COPY
// has the header before it, the last is its trailer).
func (o *output) Write(message []byte) (int, error) {
	n := len(message)
	if o.binary && !o.started {
		rest, err := skipHeader(message)
		if err != nil {
			return 0, o.fail(err)
		}
		o.started, message = true, rest
		if len(message) == 0 {
			return n, nil
		}
	}
	var end bool
	var err error
	if o.binary {
		o.values, end, err = parseBinary(message, o.values[:0])
	} else {
		o.values, o.scratch, err = parseText(message, o.values[:0], o.scratch[:0])
	}
	if err != nil {
		return 0, o.fail(err)
	}
	if end {
		return n, nil
	}
	if err := o.add(o.values, int64(n)); err != nil {
		return 0, o.fail(err)
	}
	return n, nil
}

func (o *output) fail(err error) error {
	o.err = err
	return err
}

// add takes one row in.
func (o *output) add(values []message.Value, size int64) error {
	if o.current == nil {
		if err := o.open(); err != nil {
			return err
		}
	}
	if o.keyer != nil {
		var err error
		if o.key, err = o.keyer.Append(o.key[:0], values); err != nil {
			return fmt.Errorf("%w: %w", rows.ErrValue, err)
		}
		o.current.Keys.Add(o.key)
	}
	if err := o.builder.Append(values, nil); err != nil {
		return err
	}
	o.current.Rows++
	o.current.Bytes += size
	if o.builder.Rows() < batchRows {
		return nil
	}
	if err := o.flush(); err != nil {
		return err
	}
	if o.full() {
		return o.close()
	}
	return nil
}

// open begins a file.
func (o *output) open() (err error) {
	if o.builder == nil {
		if o.builder, err = o.layout.NewBuilder(); err != nil {
			return fmt.Errorf("%w: %w", rows.ErrValue, err)
		}
	}
	name := "copy-" + uuid.NewString() + ".parquet"
	if o.file, err = os.Create(filepath.Join(o.copier.cfg.SpillDir, name)); err != nil {
		return fmt.Errorf("a file for copied rows cannot be made: %w", err)
	}
	if o.writer, err = parquet.NewWriter(o.file, o.layout.Schema().Fields(), parquet.Options{}); err != nil {
		return fmt.Errorf("%w: %w", rows.ErrValue, err)
	}
	o.current = &batcher.CopyFile{Incarnation: o.incarnation.ID, File: formats.DataFile{Path: o.incarnation.Location + "/data/" + name}}
	return nil
}

func (o *output) flush() error {
	if o.builder == nil || o.builder.Rows() == 0 {
		return nil
	}
	n := int64(o.builder.Rows())
	record := o.builder.Record()
	defer record.Release()
	if err := o.writer.Write(record); err != nil {
		return fmt.Errorf("copied rows cannot be encoded: %w", err)
	}
	o.copier.rows.Add(n)
	return nil
}

// end closes one COPY: its rows are in the file's writer.
func (o *output) end() error { return o.flush() }

// done notes that a chunk has been read to its end.
func (o *output) done(c chunk) {
	if o.chunks == nil {
		o.chunks = map[uint32][]formats.PageRange{}
	}
	o.chunks[c.relation.OID] = append(o.chunks[c.relation.OID], c.pages)
}

// full tells that the file has its target size.
func (o *output) full() bool {
	if o.current == nil {
		return false
	}
	return o.writer.Written() >= o.copier.cfg.TargetFileSize || o.current.Rows >= maxFileRows || o.arranger != nil && o.current.Bytes >= arrangedBytes
}

// close ends the current file and stores it; nobody refers to it yet.
func (o *output) close() error {
	if o.current == nil {
		return nil
	}
	if err := o.flush(); err != nil {
		return err
	}
	f := o.current
	count, size, stats, err := o.writer.Close()
	if err == nil {
		err = o.file.Close()
	}
	if err != nil {
		return fmt.Errorf("copied rows cannot be encoded: %w", err)
	}
	f.File.Rows, f.File.Size, f.File.Stats = count, size, stats
	ctx := o.context
	if ctx == nil {
		ctx = context.Background()
	}
	if err := o.store(ctx); err != nil {
		return err
	}
	o.copier.bytes.Add(f.Bytes)
	o.current, o.writer, o.file = nil, nil, nil
	return nil
}

// store stores the current file, or those that it is arranged into.
func (o *output) store(ctx context.Context) error {
	files, local := []*batcher.CopyFile{o.current}, []*os.File{o.file}
	if o.arranger != nil {
		var err error
		files, local, err = o.arrange(ctx)
		defer func() {
			for _, on := range append(local, o.file) {
				_ = os.Remove(on.Name())
			}
		}()
		if err != nil {
			return err
		}
	}
	for i, f := range files {
		if err := o.copier.cfg.Store.PutFile(ctx, f.File.Path, local[i].Name()); err != nil {
			return fmt.Errorf("storing %s: %w", f.File.Path, err)
		}
	}
	o.ready = append(o.ready, files...)
	return nil
}

// handOver closes the file and gives everything, with the chunks that it makes up, to the batcher in one step.
func (o *output) handOver(ctx context.Context) error {
	if err := o.close(); err != nil {
		return err
	}
	if len(o.ready) == 0 && len(o.chunks) > 0 { // chunks without a row
		o.ready = append(o.ready, &batcher.CopyFile{Incarnation: o.incarnation.ID})
	}
	if len(o.ready) == 0 {
		return nil
	}
	o.ready[len(o.ready)-1].Done = o.chunks
	if err := o.copier.cfg.Batcher.TakeCopyFiles(ctx, o.ready); err != nil {
		return err
	}
	o.ready, o.chunks = nil, nil
	return nil
}

// discard gives up what has not been handed over; stored files without a reference are orphans for the sweep.
func (o *output) discard() {
	if o.builder != nil {
		o.builder.Release()
	}
	if o.file != nil {
		_ = o.file.Close()
		_ = os.Remove(o.file.Name())
	}
}

var errCopyFormat = errors.New("the source's COPY data is malformed")
