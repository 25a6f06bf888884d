// Package filecache keeps objects of a store on the local disk, whole, for an engine that reads files. Data files never
// change under their name, so a copy that has the object's size is the object.
package filecache

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/streambed/streambed/formats/storage"
	"golang.org/x/sync/errgroup"
)

// pieceSize is the size of one ranged read in bytes, pieces how many of one object are under way at a time.
const (
	pieceSize = 8 << 20
	pieces    = 4
)

// Object names what is wanted: the data file's URI and its size in bytes as the catalog has it.
type Object struct {
	URI  string
	Size int64
}

// Cache is a folder of copies, bounded by size. It is safe for concurrent use, within one process.
type Cache struct {
	dir   string
	limit int64
	store storage.Store

	mu      sync.Mutex
	entries map[string]*entry
	// idle holds the entries that nobody uses, the longest unused first.
	idle *list.List
	size int64

	hits, misses int64
}

type entry struct {
	name  string
	size  int64
	uses  int
	place *list.Element // in idle; nil while in use
	ready chan struct{}
	err   error
}

// New opens a cache in a folder that is its alone. What an earlier process left there is used again; what it left
// unfinished is removed. limit is in bytes: files in use may exceed it for as long as they are used.
func New(dir string, limit int64, store storage.Store) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the cache folder cannot be made: %w", err)
	}
	c := &Cache{dir: dir, limit: limit, store: store, entries: map[string]*entry{}, idle: list.New()}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("the cache folder cannot be read: %w", err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			continue
		}
		if filepath.Ext(f.Name()) != extension {
			_ = os.Remove(filepath.Join(dir, f.Name()))
			continue
		}
		e := &entry{name: f.Name(), size: info.Size(), ready: make(chan struct{})}
		close(e.ready)
		e.place = c.idle.PushBack(e)
		c.entries[e.name] = e
		c.size += e.size
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evict()
	return c, nil
}

const extension = ".parquet"

// nameOf is the local name of an object: other names or sizes never meet.
func nameOf(o Object) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s\n%d", o.URI, o.Size)))
	return hex.EncodeToString(sum[:20]) + extension
}

// Get gives local paths of the objects, fetching those that are missing, each once however many ask. They stay until
// release is called, which must happen exactly once when err is nil. It blocks on the store until ctx ends.
func (c *Cache) Get(ctx context.Context, objects []Object) (paths []string, release func(), err error) {
	for {
		paths, release, err = c.get(ctx, objects)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.Canceled) {
			return paths, release, err
		}
		// Somebody else fetched for us too and gave up: now it is our turn.
	}
}

func (c *Cache) get(ctx context.Context, objects []Object) (paths []string, release func(), err error) {
	used := make([]*entry, 0, len(objects))
	release = sync.OnceFunc(func() {
		for _, e := range used {
			c.leave(e)
		}
	})
	group, fetching := errgroup.WithContext(ctx)
	group.SetLimit(pieces)
	for _, o := range objects {
		e, mine := c.enter(o)
		used = append(used, e)
		paths = append(paths, filepath.Join(c.dir, e.name))
		if mine {
			group.Go(func() error { return c.fill(fetching, e, o) })
		}
	}
	err = group.Wait()
	for i, e := range used {
		if err != nil {
			break
		}
		select {
		case <-e.ready:
			if e.err != nil {
				err = fmt.Errorf("%s cannot be brought here: %w", objects[i].URI, e.err)
			}
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return paths, release, nil
}

// enter marks an object as used; mine tells the caller to fetch it.
func (c *Cache) enter(o Object) (e *entry, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := nameOf(o)
	if e = c.entries[name]; e != nil {
		c.hits++
		e.uses++
		if e.place != nil {
			c.idle.Remove(e.place)
			e.place = nil
		}
		return e, false
	}
	c.misses++
	e = &entry{name: name, size: o.Size, uses: 1, ready: make(chan struct{})}
	c.entries[name] = e
	c.size += e.size
	c.evict()
	return e, true
}

// leave ends one use.
func (c *Cache) leave(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.uses--; e.uses > 0 {
		return
	}
	if c.entries[e.name] == e {
		e.place = c.idle.PushBack(e)
		c.evict()
	}
}

// evict removes the longest unused files until the rest fits. REQUIRES: mu is held.
func (c *Cache) evict() {
	for c.size > c.limit && c.idle.Len() > 0 {
		e := c.idle.Remove(c.idle.Front()).(*entry)
		e.place = nil
		delete(c.entries, e.name)
		c.size -= e.size
		_ = os.Remove(filepath.Join(c.dir, e.name))
	}
}

// fill fetches an object. A failure is told to all who wait, and forgotten: the next Get tries again.
func (c *Cache) fill(ctx context.Context, e *entry, o Object) error {
	c.settle(e, c.fetch(ctx, e, o))
	if e.err != nil {
		return fmt.Errorf("%s cannot be brought here: %w", o.URI, e.err)
	}
	return nil
}

// settle ends an entry's making, with the reason when it failed.
func (c *Cache) settle(e *entry, err error) {
	if e.err = err; err != nil {
		c.mu.Lock()
		delete(c.entries, e.name)
		c.size -= e.size
		c.mu.Unlock()
	}
	close(e.ready)
}

// fetch reads an object into a temporary file, in pieces, and gives it its name when it is whole.
func (c *Cache) fetch(ctx context.Context, e *entry, o Object) error {
	object, err := c.store.Open(ctx, o.URI)
	if err != nil {
		return err
	}
	defer object.Close()
	if object.Size() != o.Size {
		return fmt.Errorf("it has %d bytes, the catalog says %d", object.Size(), o.Size)
	}
	file, err := os.CreateTemp(c.dir, "fetch-*")
	if err != nil {
		return err
	}
	defer func() {
		_ = file.Close()
		if err := os.Remove(file.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			_ = err // removed at the next start
		}
	}()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(pieces)
	for from := int64(0); from < o.Size; from += pieceSize {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			n := min(pieceSize, o.Size-from)
			_, err := io.Copy(io.NewOffsetWriter(file, from), io.NewSectionReader(object, from, n))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(c.dir, e.name))
}

// Stats tell how well the cache serves.
type Stats struct {
	// Files and Size (bytes) are held; Hits and Misses count objects asked for.
	Files        int
	Size, Limit  int64
	Hits, Misses int64
}

// Stats may be called at any time.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Files: len(c.entries), Size: c.size, Limit: c.limit, Hits: c.hits, Misses: c.misses}
}
