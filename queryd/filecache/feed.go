package filecache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/streambed/streambed/formats/storage"
)

// feeding is a store whose puts of data files leave a copy in a cache.
type feeding struct {
	storage.Store
	cache *Cache
}

// Feed gives a store that is the given one, and also leaves the data files put through it in the cache, so that a query
// that reads what has just been written fetches nothing. A copy that cannot be kept, for a full disk, fails no put. A
// store whose objects are files of this machine is given back as it is.
func (c *Cache) Feed(store storage.Store) storage.Store {
	if store.Local(store.Warehouse()+"/x"+extension) != "" {
		return store
	}
	return &feeding{store, c}
}

// Put stores the object, and then its copy: a copy stands for an object that is there.
func (f *feeding) Put(ctx context.Context, uri string, body []byte) error {
	if err := f.Store.Put(ctx, uri, body); err != nil {
		return err
	}
	if strings.HasSuffix(uri, extension) {
		f.cache.keep(Object{URI: uri, Size: int64(len(body))}, body)
	}
	return nil
}

// keep takes a copy of an object whose content is at hand; one that is held or being fetched stays as it is.
func (c *Cache) keep(o Object, body []byte) {
	if o.Size > c.limit {
		return
	}
	c.mu.Lock()
	name := nameOf(o)
	if c.entries[name] != nil {
		c.mu.Unlock()
		return
	}
	e := &entry{name: name, size: o.Size, uses: 1, ready: make(chan struct{})}
	c.entries[name] = e
	c.size += e.size
	c.evict()
	c.mu.Unlock()
	c.settle(e, c.write(e, body))
	c.leave(e)
}

// write gives the copy its name when it is whole.
func (c *Cache) write(e *entry, body []byte) error {
	file, err := os.CreateTemp(c.dir, "put-*")
	if err != nil {
		return err
	}
	_, err = file.Write(body)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(c.dir, e.name))
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
