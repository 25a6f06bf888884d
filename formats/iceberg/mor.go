package iceberg

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/iceberg-go"
	"github.com/streambed/streambed/formats"
)

// mergeMode is merge-on-read in format 2: rows of earlier snapshots are deleted by key where the table has one, by
// equality delete files that come uploaded with the change. Those reach only data of strictly older sequence numbers, so
// that rows of the change's own files are deleted by position, as are all rows of tables without such a key. A data file
// has one position delete file at most, replaced by the union at each checkpoint.
type mergeMode struct{}

func (mergeMode) version() int { return 2 }

// settled: both kinds of deletes that format 2 has may stay as they are.
func (mergeMode) settled(*content) bool { return true }

// before turns equality deletes into positions once a column that they compare is dropped: readers of a later snapshot
// would no longer know its type.
func (mergeMode) before(ctx context.Context, l *Lake, r *row) error {
	schema := r.change.Schema
	if schema == nil || r.change.Truncate {
		return nil
	}
	lost := func(ids []int) bool {
		return slices.ContainsFunc(ids, func(id int) bool {
			return !slices.ContainsFunc(schema.Columns, func(c formats.Column) bool { return c.ID == id })
		})
	}
	if slices.ContainsFunc(r.change.Keys, func(f formats.KeyFile) bool { return lost(f.Fields) }) {
		r.withoutKeys()
	}
	for _, d := range r.content().keyDeletes(0) {
		if lost(d.file.EqualityFieldIDs()) {
			return l.settle(ctx, r)
		}
	}
	return nil
}

// withoutKeys leaves the change's deletes by position alone.
func (r *row) withoutKeys() {
	change := *r.change
	change.Keys, change.Keyed = nil, nil
	r.change = &change
}

func (mergeMode) deletes(s *stager, r *row) error {
	byKey, err := s.splitKeyed(r)
	if err != nil {
		return err
	}
	n := 0
	err = s.positional(r, func(data iceberg.DataFile, union *roaring.Bitmap) error {
		uri := fmt.Sprintf("%s/data/%s-%d-deletes.parquet", s.folder, s.commit, n)
		n++
		spec := s.meta.PartitionSpecByID(int(data.SpecID()))
		if spec == nil {
			return fmt.Errorf("%s has the unknown partition spec %d", data.FilePath(), data.SpecID())
		}
		body, file, err := positionDeletes(*spec, uri, data, union)
		if err != nil {
			return err
		}
		s.out.put(uri, body)
		s.addRemoval(file, data.FilePath(), union)
		return nil
	})
	if err == nil && len(r.removed) > 0 {
		s.dropKeys()
	}
	if err != nil || !byKey {
		return err
	}
	for i := range r.change.Keys {
		if err := s.addKeys(&r.change.Keys[i]); err != nil {
			return err
		}
	}
	return nil
}

// dropKeys removes the equality delete files that reach no data file any more: all are of their sequence number or newer.
func (s *stager) dropKeys() {
	if s.content.totals.eqFiles == 0 {
		return
	}
	oldest := int64(math.MaxInt64)
	for _, e := range s.files {
		if e.file.ContentType() == dataContent && !s.gone[e] {
			oldest = min(oldest, e.sequence)
		}
	}
	for _, e := range s.out.added {
		if e.file.ContentType() == dataContent {
			oldest = min(oldest, e.sequence)
		}
	}
	for _, d := range s.keyDeletes(0) {
		if e := s.files[d.file.FilePath()]; e.sequence <= oldest && !s.gone[e] {
			s.remove(e)
		}
	}
}

// splitKeyed takes out of the change's deletes what its keys delete: rows of files that are not its own. byKey is false
// when that is nothing.
func (s *stager) splitKeyed(r *row) (byKey bool, err error) {
	ch := r.change
	if len(ch.Keys) == 0 || len(ch.Keyed) == 0 {
		return false, nil
	}
	rest := maps.Clone(ch.Deletes)
	for _, path := range sortedKeys(ch.Keyed) {
		keyed := ch.Keyed[path]
		if keyed == nil || keyed.IsEmpty() || slices.ContainsFunc(ch.Add, func(f formats.DataFile) bool { return f.Path == path }) {
			continue
		}
		if _, err := s.deletable(path, nil, keyed); err != nil {
			return false, err
		}
		byKey = true
		if rest[path] = roaring.AndNot(ch.Deletes[path], keyed); rest[path].IsEmpty() {
			delete(rest, path)
		}
	}
	change := *ch
	change.Deletes = rest
	r.change = &change
	return byKey, nil
}

// addKeys adds an equality delete file. It is global: written under the unpartitioned spec, for the partition of the old
// rows is not known.
func (s *stager) addKeys(f *formats.KeyFile) error {
	if f.Rows == 0 {
		return nil
	}
	if s.files[f.Path] != nil {
		return fmt.Errorf("equality delete file %s was committed before", f.Path)
	}
	b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentEqDeletes, f.Path, iceberg.ParquetFile, nil, nil, nil, f.Rows, f.Size)
	if err != nil {
		return fmt.Errorf("equality delete file %s: %w", f.Path, err)
	}
	b.EqualityFieldIDs(f.Fields)
	s.add(withStats(b, &f.Stats), iceberg.ManifestContentDeletes)
	return nil
}
