package keyindex

import (
	"context"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// fileBytes is about the size of an ingested file.
const fileBytes = 64 << 20

// writer writes entries, in order, to files that the database takes in as they are. This costs a quarter of sets in
// order and a twentieth of sets at random.
type writer struct {
	index *Index
	paths []string
	open  *sstable.Writer
	bytes int
}

func (x *Index) newWriter() *writer { return &writer{index: x} }

// set adds an entry; keys must ascend and be distinct, deletes included.
func (w *writer) set(key, value []byte) error {
	if err := w.room(len(key) + len(value)); err != nil {
		return err
	}
	return w.open.Set(key, value)
}

// delete adds the deletion of an entry.
func (w *writer) delete(key []byte) error {
	if err := w.room(len(key)); err != nil {
		return err
	}
	return w.open.Delete(key)
}

// room opens a file where none is open or the open one is full.
func (w *writer) room(n int) error {
	if w.open != nil && w.bytes >= fileBytes {
		if err := w.finish(); err != nil {
			return err
		}
	}
	w.bytes += n
	if w.open != nil {
		return nil
	}
	x := w.index
	path := x.path(x.fs.PathJoin(ingestDir, strconv.FormatInt(x.files.Add(1), 10)+".sst"))
	f, err := x.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w.paths = append(w.paths, path)
	// Not the lowest level: a deletion in a file written for that one counts as done.
	w.open = sstable.NewWriter(objstorageprovider.NewFileWritable(f), x.opts.MakeWriterOptions(0, x.db.TableFormat()))
	w.bytes = n
	return nil
}

func (w *writer) finish() error {
	open := w.open
	w.open, w.bytes = nil, 0
	if open == nil {
		return nil
	}
	return open.Close()
}

// ingest hands the files written so far to the database, all in one step. It returns when they are durable.
func (w *writer) ingest() error {
	if err := w.finish(); err != nil || len(w.paths) == 0 {
		return err
	}
	// An ingested file may become durable before an earlier batch that was not synced, such as the one that gave the table
	// its number: its entries must not fall to another table.
	if err := w.index.db.LogData(nil, pebble.Sync); err != nil {
		return err
	}
	if err := w.index.db.Ingest(context.Background(), w.paths); err != nil {
		return err
	}
	w.paths = nil
	return nil
}

// close removes the files that were not ingested; what cannot be removed goes at the next Open.
func (w *writer) close() {
	_ = w.finish()
	for _, path := range w.paths {
		_ = w.index.fs.Remove(path)
	}
}
