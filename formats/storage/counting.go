package storage

import (
	"context"
	"os"
	"sync/atomic"
)

// Counts are what has gone to a store: calls that were made, whether they succeeded or not, and bytes given to it and
// read from it.
type Counts struct {
	Puts     int64 `json:"puts"`
	Gets     int64 `json:"gets"`
	Deletes  int64 `json:"deletes"`
	Lists    int64 `json:"lists"`
	BytesPut int64 `json:"bytes_put"`
	BytesGot int64 `json:"bytes_got"`
}

// Counting is a Store that counts, for metrics and tests. Each read from an open object counts as a get.
type Counting struct {
	Store
	puts, gets, deletes, lists, bytesPut, bytesGot atomic.Int64
}

// NewCounting wraps a store.
func NewCounting(s Store) *Counting { return &Counting{Store: s} }

// Counts gives the counts since the beginning.
func (c *Counting) Counts() Counts {
	return Counts{Puts: c.puts.Load(), Gets: c.gets.Load(), Deletes: c.deletes.Load(), Lists: c.lists.Load(),
		BytesPut: c.bytesPut.Load(), BytesGot: c.bytesGot.Load()}
}

// Minus gives what was added since before.
func (c Counts) Minus(before Counts) Counts {
	return Counts{Puts: c.Puts - before.Puts, Gets: c.Gets - before.Gets, Deletes: c.Deletes - before.Deletes,
		Lists: c.Lists - before.Lists, BytesPut: c.BytesPut - before.BytesPut, BytesGot: c.BytesGot - before.BytesGot}
}

// Put counts and passes on.
func (c *Counting) Put(ctx context.Context, uri string, body []byte) error {
	c.puts.Add(1)
	c.bytesPut.Add(int64(len(body)))
	return c.Store.Put(ctx, uri, body)
}

// PutNew counts and passes on.
func (c *Counting) PutNew(ctx context.Context, uri string, body []byte) error {
	c.puts.Add(1)
	c.bytesPut.Add(int64(len(body)))
	return c.Store.PutNew(ctx, uri, body)
}

// PutFile counts and passes on.
func (c *Counting) PutFile(ctx context.Context, uri, local string) error {
	c.puts.Add(1)
	if info, err := os.Stat(local); err == nil {
		c.bytesPut.Add(info.Size())
	}
	return c.Store.PutFile(ctx, uri, local)
}

// Get counts and passes on.
func (c *Counting) Get(ctx context.Context, uri string) ([]byte, error) {
	c.gets.Add(1)
	body, err := c.Store.Get(ctx, uri)
	c.bytesGot.Add(int64(len(body)))
	return body, err
}

// Open passes on; reads are counted.
func (c *Counting) Open(ctx context.Context, uri string) (Object, error) {
	o, err := c.Store.Open(ctx, uri)
	if err != nil {
		return nil, err
	}
	return &countingObject{o, c}, nil
}

// Delete counts one call an object and passes on.
func (c *Counting) Delete(ctx context.Context, uris ...string) error {
	c.deletes.Add(int64(len(uris)))
	return c.Store.Delete(ctx, uris...)
}

// List counts and passes on.
func (c *Counting) List(ctx context.Context, prefix string, f func(Info) error) error {
	c.lists.Add(1)
	return c.Store.List(ctx, prefix, f)
}

type countingObject struct {
	Object
	c *Counting
}

func (o *countingObject) ReadAt(p []byte, off int64) (int, error) {
	o.c.gets.Add(1)
	n, err := o.Object.ReadAt(p, off)
	o.c.bytesGot.Add(int64(n))
	return n, err
}
