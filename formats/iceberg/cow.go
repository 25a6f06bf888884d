package iceberg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/types"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// inMemory is the size in bytes up to which a rewritten file is built in memory; a larger one is built on disk.
const inMemory = 8 << 20

// copyMode is copy-on-write: a file that holds a deleted row is replaced by one without it. Small files that are
// touched together become one file.
type copyMode struct{}

func (copyMode) version() int { return 2 }

// settled: rows are gone from the files themselves.
func (copyMode) settled(c *content) bool { return len(c.removed) == 0 && !c.shares() }

// source is a file to be rewritten.
type source struct {
	path    string
	rows    int64
	size    int64
	fresh   bool // it comes with this very change
	deleted *roaring.Bitmap
	// firstRowID and sequence are what rows of it have that hold no lineage of their own (table spec, "Row Lineage").
	firstRowID, sequence int64
}

// output is a file that replaces others.
type output struct {
	file  formats.DataFile
	moves []formats.Rewrite
}

// before rewrites the touched files. What it stores is not seen by anybody until the swap.
func (copyMode) before(ctx context.Context, l *Lake, r *row) error {
	if !r.settles && !r.change.Truncate && r.content().shares() { // another writer's; a rewritten file would escape them
		if err := l.settle(ctx, r); err != nil {
			return err
		}
	}
	sources, err := r.touched()
	if err != nil {
		return err
	}
	begun := l.cfg.Now()
	if err := l.replace(ctx, r, sources); err != nil {
		return err
	}
	l.warnSlow(r, len(sources), l.cfg.Now().Sub(begun))
	return nil
}

// warnSlow tells of a rewrite that takes longer than checkpoints are to take, once in a while for each table.
func (l *Lake) warnSlow(r *row, files int, took time.Duration) {
	if l.cfg.Interval <= 0 || took <= l.cfg.Interval || l.cfg.Now().Sub(r.inc.warned) < slowEvery {
		return
	}
	r.inc.warned = l.cfg.Now()
	l.cfg.Log.Warn("rewriting files for updates and deletes takes longer than flush.interval, so the lake falls behind: set mode: dv for this table",
		zap.String("table", formatName(r.state.Table.Name)), zap.Int("files", files), zap.Duration("took", took), zap.Duration("flush_interval", l.cfg.Interval))
}

// slowEvery is the shortest time between two warnings about one table.
const slowEvery = time.Minute

// replace rewrites files without their deleted rows and puts what it wrote in their place, in the change and in moves.
func (l *Lake) replace(ctx context.Context, r *row, sources []source) error {
	if len(sources) == 0 {
		return nil
	}
	// What is joined keeps the kind that its name begins with: the copy tells its own files by it.
	slices.SortStableFunc(sources, func(a, b source) int { return strings.Compare(formats.FileKind(a.path), formats.FileKind(b.path)) })
	gone := map[string]bool{}
	var groups [][]source
	size := int64(0)
	for _, s := range sources {
		gone[s.path] = true
		if int64(s.deleted.GetCardinality()) == s.rows {
			r.moves = append(r.moves, formats.Rewrite{Table: r.state.Table, Old: s.path, Deleted: s.deleted})
			continue
		}
		if n := len(groups); n == 0 || size+s.size > l.cfg.TargetFileSize || formats.FileKind(groups[n-1][0].path) != formats.FileKind(s.path) {
			groups, size = append(groups, nil), 0
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], s)
		size += s.size
	}
	schema, err := r.schemaAfter()
	if err != nil {
		return err
	}
	outputs := make([]output, len(groups))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, group := range groups {
		g.Go(func() (err error) {
			outputs[i], err = l.rewrite(gctx, r.state.Table, schema, false, group)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("cannot rewrite files of table %s: %w", formatName(r.state.Table.Name), err)
	}
	change := *r.change
	change.Add, change.Deletes = nil, maps.Clone(r.change.Deletes)
	maps.DeleteFunc(change.Deletes, func(path string, _ *roaring.Bitmap) bool { return gone[path] })
	for _, f := range r.change.Add {
		if !gone[f.Path] {
			change.Add = append(change.Add, f)
		}
	}
	for _, o := range outputs {
		change.Add = append(change.Add, o.file)
		r.moves = append(r.moves, o.moves...)
	}
	for _, s := range sources {
		if !s.fresh {
			r.removed = append(r.removed, s.path)
		}
	}
	r.change = &change
	return nil
}

// touched lists the files that the change deletes rows of, with all their deleted rows.
func (r *row) touched() ([]source, error) {
	fresh := map[string]*formats.DataFile{}
	for i := range r.change.Add {
		fresh[r.change.Add[i].Path] = &r.change.Add[i]
	}
	var sources []source
	for _, uri := range sortedKeys(r.change.Deletes) {
		deleted := r.change.Deletes[uri]
		if deleted == nil || deleted.IsEmpty() {
			continue
		}
		s := source{path: uri, deleted: deleted}
		if f := fresh[uri]; f != nil {
			s.rows, s.size, s.fresh = f.Rows, f.Size, true
		} else if e := r.inc.content.files[uri]; e != nil && !r.change.Truncate {
			s.rows, s.size = e.file.Count(), e.file.FileSizeBytes()
			if old := r.inc.content.removed[uri]; old.bits != nil {
				s.deleted = roaring.Or(deleted, old.bits)
			}
		} else {
			return nil, r.wrong(fmt.Errorf("rows are to be deleted from %s, which is not a live file", uri))
		}
		if last := int64(s.deleted.Maximum()); last >= s.rows {
			return nil, r.wrong(fmt.Errorf("row %d is to be deleted from %s, which has %d rows", last, uri, s.rows))
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// deletes removes the rewritten files; the change's own files are all that is added.
func (copyMode) deletes(s *stager, r *row) error {
	return s.positional(r, func(data iceberg.DataFile, _ *roaring.Bitmap) error {
		return fmt.Errorf("%s was not rewritten without its deleted rows", data.FilePath())
	})
}

// rewrite writes what is left of some files into one, in the given schema, and with the lineage of each row if that is
// asked for. Nothing is stored when nothing is left.
func (l *Lake) rewrite(ctx context.Context, table formats.TableRef, schema *formats.Schema, lineage bool, sources []source) (o output, err error) {
	size := int64(0)
	for _, s := range sources {
		size += s.size
	}
	fields := schema.Fields()
	if lineage {
		fields = append(fields, lineageFields...)
	}
	to, err := newScratch(size)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, to.discard()) }()
	w, err := parquet.NewWriter(to, fields, parquet.Options{})
	if err != nil {
		return o, err
	}
	uri := fmt.Sprintf("%s/data/%s-%s.parquet", table.Location, formats.FileKind(sources[0].path), uuid.NewString())
	for _, s := range sources {
		o.moves = append(o.moves, formats.Rewrite{Table: table, Old: s.path, New: uri, Offset: uint32(w.Rows()), Deleted: s.deleted})
		if err := l.copyRows(ctx, w, schema, fields, s); err != nil {
			return o, fmt.Errorf("%s: %w", s.path, err)
		}
	}
	o.file.Path = uri
	if o.file.Rows, o.file.Size, o.file.Stats, err = w.Close(); err != nil || o.file.Rows == 0 {
		return o, err
	}
	if lineage {
		withoutLineage(&o.file.Stats)
	}
	return o, to.store(ctx, l, uri)
}

// schemaAfter is the schema in force once the change is made.
func (r *row) schemaAfter() (*formats.Schema, error) {
	if r.change.Schema != nil {
		return r.change.Schema, nil
	}
	s, err := decodeSchema(r.inc.content.schema)
	return &s, err
}

// copyRows appends the rows of a file that are not deleted.
func (l *Lake) copyRows(ctx context.Context, w *parquet.Writer, schema *formats.Schema, fields []types.Field, s source) error {
	file, done, err := openWithDefaults(ctx, l.cfg.Store, schema, s.path)
	if err != nil {
		return err
	}
	defer done()
	if file.Rows() != s.rows {
		return fmt.Errorf("the file has %d rows, its manifest entry tells %d", file.Rows(), s.rows)
	}
	row := int64(0)
	for batch, err := range file.Batches(ctx, fields) {
		if err != nil {
			return err
		}
		n := batch.NumRows()
		if len(fields) > len(schema.Columns) {
			batch = withLineage(batch, len(schema.Columns), s.firstRowID+row, s.sequence)
		}
		err = w.WriteWithout(batch, row, s.deleted)
		row += n
		batch.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// scratch is where a file is built: in memory, or on disk when it may be large.
type scratch struct {
	io.Writer
	memory *bytes.Buffer
	disk   *os.File
}

func newScratch(size int64) (*scratch, error) {
	if size <= inMemory {
		b := &bytes.Buffer{}
		return &scratch{Writer: b, memory: b}, nil
	}
	f, err := os.CreateTemp("", "streambed-rewrite-")
	return &scratch{Writer: f, disk: f}, err
}

func (s *scratch) store(ctx context.Context, l *Lake, uri string) error {
	if s.memory != nil {
		return l.cfg.Store.Put(ctx, uri, s.memory.Bytes())
	}
	if err := s.disk.Close(); err != nil {
		return err
	}
	return l.cfg.Store.PutFile(ctx, uri, s.disk.Name())
}

func (s *scratch) discard() error {
	if s.disk == nil {
		return nil
	}
	s.disk.Close()
	if err := os.Remove(s.disk.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
