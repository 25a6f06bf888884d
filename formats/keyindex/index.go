package keyindex

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"
)

// ErrClosed is returned by every method after Close.
var ErrClosed = errors.New("the key index is closed")

// ErrDropped is returned for a table that has been dropped.
var ErrDropped = errors.New("the table was dropped from the key index")

// ErrDamaged marks an error that comes from damaged files. The next Open sets the database aside and begins with an
// empty one, so closing, opening and rebuilding is the remedy.
var ErrDamaged = errors.New("the key index is damaged: it will be rebuilt at the next start")

// ErrNoSpace is returned for a write that the disk has too little room for. Nothing was written.
var ErrNoSpace = errors.New("the disk of the key index is full")

// Options are the settings of an index.
type Options struct {
	// CacheBytes bounds the block cache and the write buffers, in bytes; 64 MiB when 0, at least 8 MiB. Lookups are
	// ten times slower when the keys in use do not fit.
	CacheBytes int64
	// PendingBytes is the memory, in bytes, that changes not yet durable may hold for all tables together; 64 MiB when
	// 0. Beyond it they go to disk, but for 64 KiB each.
	PendingBytes int64
	// Log gets what goes wrong; nothing is logged when nil.
	Log *zap.Logger

	// leastSpill is the memory, in bytes, from which on a change is worth moving to disk; from leastFile on it goes as a
	// file to be ingested, less as batches.
	leastSpill, leastFile int64
	// batchBytes bounds a batch; more goes into several.
	batchBytes int
	// fs is the file system; the machine's own when nil.
	fs vfs.FS
}

func (o Options) complete() Options {
	o.CacheBytes = max(cmp.Or(o.CacheBytes, 64<<20), leastCache)
	o.PendingBytes = cmp.Or(o.PendingBytes, 64<<20)
	o.leastSpill, o.leastFile = cmp.Or(o.leastSpill, 64<<10), cmp.Or(o.leastFile, 4<<20)
	o.batchBytes = cmp.Or(o.batchBytes, 1<<20)
	if o.fs == nil {
		o.fs = vfs.Default
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return o
}

// Index is an open key index. It is safe for concurrent use.
type Index struct {
	dir     string
	options Options
	fs      vfs.FS
	log     *zap.Logger
	lock    io.Closer
	db      *pebble.DB
	cache   *pebble.Cache
	opts    *pebble.Options
	// pending counts the bytes in changes that are being built or staged.
	pending atomic.Int64
	// files and spills number what they name, in this run.
	files  atomic.Int64
	spills atomic.Uint32

	// uses counts the operations under way, for Close to wait for. It is not a lock, since operations nest: a lookup's
	// callback may put into a change, which may write.
	uses   atomic.Int64
	closed atomic.Bool
	idle   chan struct{}

	mu      sync.Mutex
	tables  map[string]*Table
	numbers map[string]uint32
	last    uint32
}

// Stats are an index's sizes, in bytes, and the use of its cache since it was opened.
type Stats struct {
	Disk        int64
	Cache       int64
	CacheHits   int64
	CacheMisses int64
	// Pending is the memory in changes that are not durable yet.
	Pending int64
}

// Stats reads the current numbers; it does not block on the disk.
func (x *Index) Stats() Stats {
	s := Stats{Pending: x.pending.Load()}
	if x.enter() != nil {
		return s
	}
	defer x.leave()
	m := x.db.Metrics()
	s.Disk, s.Cache = int64(m.DiskSpaceUsage()), m.BlockCache.Size
	s.CacheHits, s.CacheMisses = m.BlockCache.Hits, m.BlockCache.Misses
	return s
}

// Close writes what is in memory to disk and gives the folder free. It waits for operations under way, and those that
// begin meanwhile fail with ErrClosed. Staged changes are lost, as they must be: nothing of them is durable in the lake
// as far as the index knows.
func (x *Index) Close() error {
	if x.closed.Swap(true) {
		return nil
	}
	for x.uses.Load() != 0 {
		<-x.idle
	}
	err := x.db.Close()
	x.cache.Unref()
	return errors.Join(err, x.lock.Close())
}

// Table gives the handle of an incarnation, always the same one for an id. Nothing is stored before the first write.
func (x *Index) Table(id string) *Table {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.tables[id]
	if t == nil {
		t = &Table{index: x, id: id, number: x.numbers[id]}
		x.tables[id] = t
	}
	return t
}

// Tables lists the ids of all incarnations that the database knows, sorted.
func (x *Index) Tables() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	ids := make([]string, 0, len(x.numbers))
	for id := range x.numbers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Drop removes an incarnation with all its entries; an unknown id is no error. A handle of it is of no more use: its
// writes fail with ErrDropped and its staged changes are gone.
func (x *Index) Drop(id string) error {
	if err := x.enter(); err != nil {
		return err
	}
	defer x.leave()
	t := x.Table(id)
	t.write.Lock()
	defer t.write.Unlock()
	if t.dropped {
		return nil
	}
	// No check for room: this is how some is made.
	if t.number != 0 {
		b := x.db.NewBatch()
		defer b.Close()
		from, to := span(spaceEntries, t.number)
		err := errors.Join(
			b.DeleteRange(from, to, nil),
			b.Delete(tableKey(spaceSequence, t.number), nil),
			b.Delete(append(slices.Clone(keyTables), id...), nil))
		if err == nil {
			err = x.apply(b, pebble.NoSync)
		}
		if err != nil {
			return x.wrap("drop table "+id, err)
		}
	}
	t.abandon()
	t.dropped = true
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.tables, id)
	delete(x.numbers, id)
	return nil
}

// register gives an incarnation its number. It does not wait for the disk: what is written under the number later becomes
// durable no sooner, but for ingested files, which see to it themselves (writer.ingest).
func (x *Index) register(id string) (uint32, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	number := x.last + 1
	if number == 0 {
		return 0, errors.New("the key index has no table number left: remove its folder to have it rebuilt")
	}
	b := x.db.NewBatch()
	defer b.Close()
	value := binary.BigEndian.AppendUint32(nil, number)
	err := errors.Join(b.Set(keyNumber, value, nil), b.Set(append(slices.Clone(keyTables), id...), value, nil))
	if err == nil {
		err = x.apply(b, pebble.NoSync)
	}
	if err != nil {
		return 0, x.wrap("add table "+id, err)
	}
	x.last, x.numbers[id] = number, number
	return number, nil
}

// enter begins an operation; the caller ends it with leave unless there is an error.
func (x *Index) enter() error {
	x.uses.Add(1) // before closed is read, as Close sets closed before it reads uses
	if x.closed.Load() {
		x.leave()
		return ErrClosed
	}
	return nil
}

func (x *Index) leave() {
	if x.uses.Add(-1) == 0 && x.closed.Load() {
		select {
		case x.idle <- struct{}{}:
		default:
		}
	}
}

// leastFree is the space, in bytes, that a write leaves on the disk. A database whose log meets a full disk cannot go on
// and ends the process, so its writes are refused before.
const leastFree = 64 << 20

// room refuses a write of about n bytes that the disk has no room for.
func (x *Index) room(n int64) error {
	usage, err := x.fs.GetDiskUsage(x.dir)
	if err == nil && int64(usage.AvailBytes) < n+leastFree {
		return fmt.Errorf("%w: %d MiB are free in %s, %d MiB are needed: make room on the disk",
			ErrNoSpace, usage.AvailBytes>>20, x.dir, (n+leastFree)>>20)
	}
	return nil // a file system that cannot tell is trusted
}

// wrap says what failed, and leaves a mark for the next Open when the files are damaged.
func (x *Index) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	if pebble.IsCorruptionError(err) {
		x.markDamaged(err)
		return fmt.Errorf("key index: cannot %s: %w: %w", what, ErrDamaged, err)
	}
	return fmt.Errorf("key index: cannot %s: %w", what, err)
}
