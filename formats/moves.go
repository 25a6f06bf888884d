package formats

import "github.com/RoaringBitmap/roaring/v2"

// followed bounds, in checkpoints, how long rows may still be named by a file that was replaced: more than can be in
// flight between the pipeline's look at its index and the commit.
const followed = 256

// Row gives the new position of a row of the replaced file; ok is false for one that was not taken along.
func (r *Rewrite) Row(row uint32) (moved uint32, ok bool) {
	switch {
	case r.New == "":
		return 0, false
	case r.Deleted == nil:
		moved = r.Offset + row
	case r.Deleted.Contains(row):
		return 0, false
	default:
		moved = r.Offset + row - uint32(r.Deleted.Rank(row))
	}
	if r.Order != nil {
		moved = r.Order[moved]
	}
	return moved, true
}

// Rows gives the new positions of rows of the replaced file, without those that were not taken along.
func (r *Rewrite) Rows(rows *roaring.Bitmap) *roaring.Bitmap {
	next := roaring.New()
	for it := rows.Iterator(); it.HasNext(); {
		if row, ok := r.Row(it.Next()); ok {
			next.Add(row)
		}
	}
	return next
}

// Moves are the files of an incarnation that were replaced of late, by their paths: what is in flight may still name rows
// by them. The zero value has none. It is not safe for concurrent use.
type Moves struct{ files map[string]move }

type move struct {
	Rewrite
	checkpoint int64
}

// Note takes up the replacements of a checkpoint and forgets those that nothing in flight can name any more.
func (m *Moves) Note(rewrites []Rewrite, checkpoint int64) {
	for path, f := range m.files {
		if f.checkpoint < checkpoint-followed {
			delete(m.files, path)
		}
	}
	for _, r := range rewrites {
		if m.files == nil {
			m.files = map[string]move{}
		}
		m.files[r.Old] = move{r, checkpoint}
	}
}

// Follow gives a change that names deleted rows by the files that hold them now; it is the given one where that does so
// already.
func (m *Moves) Follow(ch *TableChange) *TableChange {
	stale := false
	for _, rows := range []map[string]*roaring.Bitmap{ch.Deletes, ch.Keyed} {
		for path := range rows {
			_, replaced := m.files[path]
			stale = stale || replaced
		}
	}
	if !stale {
		return ch
	}
	change := *ch
	change.Deletes, change.Keyed = m.follow(ch.Deletes), m.follow(ch.Keyed)
	return &change
}

// follow gives rows, by file, by the files that hold them now.
func (m *Moves) follow(rows map[string]*roaring.Bitmap) map[string]*roaring.Bitmap {
	next := map[string]*roaring.Bitmap{}
	for path, rows := range rows {
		path, rows = m.now(path, rows)
		if path == "" {
			continue // all of it is gone already
		}
		if old := next[path]; old != nil {
			rows = roaring.Or(old, rows)
		}
		next[path] = rows
	}
	return next
}

// now follows rows through the replacements of their file; path is "" when none of them is left.
func (m *Moves) now(path string, rows *roaring.Bitmap) (string, *roaring.Bitmap) {
	for {
		f, ok := m.files[path]
		if !ok || rows == nil {
			return path, rows
		}
		if rows = f.Rows(rows); rows.IsEmpty() {
			return "", rows
		}
		path = f.New
	}
}
