// Package uploader is the pool that turns segments into stored Parquet files. Any worker takes any segment, so one large
// table uses them all.
package uploader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/rows"
	"golang.org/x/sync/errgroup"
)

// batchRows is the number of rows decoded before they go to the Parquet writer: large enough for its vectors, small
// enough to bound a worker's scratch memory.
const batchRows = 16384

// Row is one row of a segment.
type Row struct {
	// Tuple is pgoutput TupleData; it must not change until the segment is finished.
	Tuple []byte
	// Base is where unchanged TOAST values are; the zero value when the tuple carries all.
	Base BaseRow
}

// BaseRow names a row of a data file.
type BaseRow struct {
	// Path is the file's URI; "" for none.
	Path string
	Row  uint32
	// After is the segment that becomes the file when it is not stored yet; it was submitted before this one.
	After *message.Segment
}

// Job is a segment to be stored: rows, or keys.
type Job struct {
	Segment *message.Segment
	// Path is the URI that the file gets.
	Path   string
	Layout *rows.Layout
	Rows   []Row
	// Partition is the file's (see formats.DataFile).
	Partition string
	// Keys, when set, are stored instead of rows; the job then has no layout.
	Keys *Keys
	// Release is called once, when the segment's bytes are no longer needed.
	Release func()
	// Bent receives, by schema column, how many values were bent to the lake's types; it may be nil.
	Bent func(counts []int64)
}

// Pool is a set of workers.
type Pool struct {
	store storage.Store
	jobs  chan *Job
	n     int

	// Files and Bytes count what has been stored.
	Files, Bytes atomic.Int64
	busy         atomic.Int64
}

// New makes a pool of n workers with a queue of queue segments.
func New(store storage.Store, n, queue int) *Pool {
	return &Pool{store: store, jobs: make(chan *Job, queue), n: n}
}

// Submit queues a job, blocking while the queue is full. The segment is finished by a worker, also on failure; when
// Submit itself fails nothing is finished and Release is not called.
func (p *Pool) Submit(ctx context.Context, job *Job) error {
	select {
	case p.jobs <- job:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Queue gives the queue's fill and limit.
func (p *Pool) Queue() (length, limit int) { return len(p.jobs), cap(p.jobs) }

// Busy gives the number of workers at work.
func (p *Pool) Busy() int64 { return p.busy.Load() }

// Run works until ctx ends or the store fails for good. A table's own error finishes its segment with rows.ErrValue and
// stops nothing else.
func (p *Pool) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range p.n {
		group.Go(func() error {
			for {
				select {
				case job := <-p.jobs:
					p.busy.Add(1)
					file, err := p.store1(ctx, job)
					p.busy.Add(-1)
					job.Release()
					job.Segment.Finish(file, err)
					if err != nil && !errors.Is(err, rows.ErrValue) {
						return err
					}
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		})
	}
	return group.Wait()
}

// store1 encodes and stores one segment.
func (p *Pool) store1(ctx context.Context, job *Job) (formats.DataFile, error) {
	encode, fields := p.encode, []types.Field(nil)
	if job.Keys != nil {
		encode, fields = encodeKeys, job.Keys.Fields
	} else {
		fields = job.Layout.Schema().Fields()
	}
	var body bytes.Buffer
	writer, err := parquet.NewWriter(&body, fields, parquet.Options{})
	if err != nil {
		return formats.DataFile{}, fmt.Errorf("%w: %w", rows.ErrValue, err)
	}
	if err := encode(ctx, job, writer); err != nil {
		return formats.DataFile{}, err
	}
	count, size, stats, err := writer.Close()
	if err != nil {
		return formats.DataFile{}, fmt.Errorf("%w: encoding %s: %w", rows.ErrValue, job.Path, err)
	}
	if err := p.store.Put(ctx, job.Path, body.Bytes()); err != nil {
		return formats.DataFile{}, fmt.Errorf("storing %s: %w", job.Path, err)
	}
	p.Files.Add(1)
	p.Bytes.Add(size)
	return formats.DataFile{Path: job.Path, Rows: count, Size: size, Stats: stats, Partition: job.Partition}, nil
}

func (p *Pool) encode(ctx context.Context, job *Job, writer *parquet.Writer) error {
	builder, err := job.Layout.NewBuilder()
	if err != nil {
		return fmt.Errorf("%w: %w", rows.ErrValue, err)
	}
	defer builder.Release()
	var values []message.Value
	flush := func() error {
		record := builder.Record()
		defer record.Release()
		if err := writer.Write(record); err != nil {
			return fmt.Errorf("%w: encoding %s: %w", rows.ErrValue, job.Path, err)
		}
		return nil
	}
	for from := 0; from < len(job.Rows); from += batchRows {
		batch := job.Rows[from:min(from+batchRows, len(job.Rows))]
		bases, err := p.readBases(ctx, job.Layout, batch)
		if err != nil {
			return err
		}
		for i := range batch {
			if values, err = message.Columns(batch[i].Tuple, values[:0]); err != nil {
				bases.release()
				return fmt.Errorf("%w: %w", rows.ErrValue, err)
			}
			if err := builder.Append(values, bases.of(&batch[i])); err != nil {
				bases.release()
				return err
			}
		}
		bases.release()
		if err := flush(); err != nil {
			return err
		}
	}
	if job.Bent != nil {
		job.Bent(builder.Bent())
	}
	return nil
}
