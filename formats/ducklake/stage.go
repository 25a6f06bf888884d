package ducklake

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
)

// staged is what a change makes of an incarnation's files. Until it is adopted nothing of the incarnation has changed,
// so a failed put or swap needs no undoing.
type staged struct {
	added []*dataFile
	gone  []*dataFile
	// updated have further deleted positions.
	updated []update
	puts    []put
	totals  counts
	// kept are new files that the store keeps back until this is committed.
	kept []string
	// what the history tells of it
	deletes bool
	// word is what a maintenance is called in DuckLake's history; "" for changes of rows.
	word string
}

type update struct {
	file *dataFile
	bits *roaring.Bitmap
	del  *deleteFile // nil while copying
}

// put is an object to store.
type put struct {
	uri  string
	body []byte
}

// stage works out a change. It changes nothing and does no input or output. The incarnation's files are loaded.
func (l *Lake) stage(ctx context.Context, a *attempt, r *row) (*staged, error) {
	ch, inc := r.change, r.inc
	s := &staged{totals: inc.totals}
	left := func(path string) *dataFile { return inc.files[path] }
	if ch.Truncate {
		for _, f := range inc.files {
			s.remove(f)
		}
		left = func(string) *dataFile { return nil }
	}
	fresh := make(map[string]*dataFile, len(ch.Add))
	for i := range ch.Add {
		f := &ch.Add[i]
		if inc.files[f.Path] != nil || fresh[f.Path] != nil {
			return nil, fmt.Errorf("data file %s was committed before", f.Path)
		}
		if _, err := relativePath(r.state.Table, f.Path); err != nil {
			return nil, err
		}
		fresh[f.Path] = &dataFile{path: f.Path, rows: f.Rows, size: f.Size, sequence: r.head.Sequence + 1, stats: f.Stats, partition: f.Partition}
	}
	if err := l.place(ctx, a, r, s, fresh); err != nil {
		return nil, err
	}
	if err := s.delete(ch, left, fresh); err != nil {
		return nil, err
	}
	for i := range ch.Add {
		if f := fresh[ch.Add[i].Path]; f.live() {
			s.added = append(s.added, f)
			s.totals.add(f, f.bits, 1)
		}
	}
	if r.published && !inc.published {
		s.register(inc)
	}
	if r.published {
		return s, s.deleteFiles(r.state.Table)
	}
	return s, nil
}

// place decides which of the new files go into the catalog, and has those stored that do not and are not stored yet.
func (l *Lake) place(ctx context.Context, a *attempt, r *row, s *staged, fresh map[string]*dataFile) error {
	if l.store == nil {
		return nil
	}
	var held int64
	for _, f := range r.inc.files {
		if f.inlined != nil {
			held += f.rows
		}
	}
	fits := r.published && inlinable(r.schema, r.columns, l.catalog.longestName())
	for _, path := range sortedKeys(fresh) {
		f := fresh[path]
		body := l.store.kept(path)
		if body == nil {
			continue // stored already
		}
		s.kept = append(s.kept, path)
		// Promise 6: without maintenance a table's rows do not pile up in the catalog.
		if fits && f.rows <= l.store.inlining.Rows && held+f.rows <= 4*l.store.inlining.FlushRows {
			cells, ok, err := decodeCells(ctx, body, r.schema)
			if err != nil {
				return fmt.Errorf("data file %s: %w", path, err)
			}
			if ok && int64(len(cells)) == f.rows {
				f.inlined, f.since = &inlined{cells: cells}, a.now
				held += f.rows
				continue
			}
		}
		s.puts = append(s.puts, put{path, body})
	}
	return nil
}

// live reports whether the file has a row left.
func (f *dataFile) live() bool { return f.bits == nil || int64(f.bits.GetCardinality()) < f.rows }

func (s *staged) remove(f *dataFile) {
	s.gone = append(s.gone, f)
	s.totals.add(f, f.bits, -1)
}

// delete adds newly deleted positions to what their files have. A file without a row left goes.
func (s *staged) delete(ch *formats.TableChange, left func(string) *dataFile, fresh map[string]*dataFile) error {
	for _, path := range sortedKeys(ch.Deletes) {
		bits := ch.Deletes[path]
		f := fresh[path]
		if f == nil {
			f = left(path)
		}
		switch {
		case f == nil:
			return fmt.Errorf("rows are deleted of data file %s, which the table does not hold", path)
		case bits.IsEmpty():
			continue
		case int64(bits.Maximum()) >= f.rows:
			return fmt.Errorf("row %d is deleted of data file %s, which has %d rows", bits.Maximum(), path, f.rows)
		}
		s.deletes = true
		if fresh[path] != nil {
			f.bits = bits
			continue
		}
		all := bits
		if f.bits != nil {
			all = roaring.Or(f.bits, bits)
		}
		all.RunOptimize()
		if int64(all.GetCardinality()) == f.rows {
			s.remove(f)
			continue
		}
		s.totals.add(f, f.bits, -1)
		s.totals.add(f, all, 1)
		s.updated = append(s.updated, update{file: f, bits: all})
	}
	return nil
}

// register makes every file that was copied a new one: publishing names them to DuckLake for the first time.
func (s *staged) register(inc *incarnation) {
	bits := map[string]*roaring.Bitmap{}
	for _, u := range s.updated {
		bits[u.file.path] = u.bits
	}
	gone := map[string]bool{}
	for _, f := range s.gone {
		gone[f.path] = true
	}
	var all []*dataFile
	for _, path := range sortedKeys(inc.files) {
		if gone[path] {
			continue
		}
		f := *inc.files[path]
		if b := bits[path]; b != nil {
			f.bits = b
		}
		all = append(all, &f)
	}
	s.added, s.updated = append(all, s.added...), nil
}

// deleteFiles encodes the delete files: exactly one for each file with deleted positions that are new to DuckLake.
func (s *staged) deleteFiles(ref formats.TableRef) (err error) {
	for _, f := range s.added {
		if f.bits == nil || f.inlined != nil {
			continue
		}
		if f.del, err = s.deleteFile(ref, f, f.bits); err != nil {
			return err
		}
	}
	for i := range s.updated {
		u := &s.updated[i]
		if u.file.inlined != nil {
			continue
		}
		if u.del, err = s.deleteFile(ref, u.file, u.bits); err != nil {
			return err
		}
	}
	return nil
}

func (s *staged) deleteFile(ref formats.TableRef, f *dataFile, bits *roaring.Bitmap) (*deleteFile, error) {
	body, err := encodeDeletes(f.path, bits)
	if err != nil {
		return nil, fmt.Errorf("the deleted rows of %s cannot be encoded: %w", f.path, err)
	}
	d := &deleteFile{path: ref.Location + "/deletes/" + uuid.NewString() + ".parquet", size: int64(len(body)),
		footer: footerSize(body), count: int64(bits.GetCardinality())}
	s.puts = append(s.puts, put{d.path, body})
	return d, nil
}

// adopt makes the staged change the incarnation's content; it is called once, after the swap.
func (s *staged) adopt(inc *incarnation) {
	if inc.files == nil {
		inc.files = map[string]*dataFile{}
	}
	for _, f := range s.gone {
		delete(inc.files, f.path)
	}
	for _, f := range s.added {
		if f.registered {
			f.stats = formats.FileStats{}
		}
		if f.inlined != nil {
			f.inlined.cells = nil
			inc.inlining = f.inlined.table
		}
		inc.files[f.path] = f
	}
	for _, u := range s.updated {
		u.file.bits, u.file.del = u.bits, u.del
	}
	inc.totals = s.totals
}
