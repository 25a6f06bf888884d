package keyindex

import (
	"slices"
	"sync/atomic"
	"unsafe"
)

// Change is the effect of one cut on one table's entries. It is built by one goroutine and immutable once staged.
type Change struct {
	table *Table
	// cleared says that the change begins with a truncate: whatever is older is gone.
	cleared bool
	// keys leads from a key to the number + 1 of its newest operation.
	keys KeyMap
	ops  list[operation]
	// size is the memory that the index counts for this change.
	size int64
	// spill is the part of the change, older than keys and ops, that is in the database; 0 for none.
	spill   uint32
	spilled int
	// moved holds what the change removes beside, because a compaction moved rows that it removes. It is set while
	// lookups read, and leads on to what an earlier compaction added.
	moved atomic.Pointer[Change]
	// err is why the change could not be spilled. It fails lookups and commit, since memory would not be bounded.
	err error
}

// operation is one Put or Remove of a key; those of one key are chained from the newest to the oldest.
type operation struct {
	file uint64
	row  uint32
	// older is the number + 1 of the key's operation before this one, shifted by one; the lowest bit marks a Remove.
	older uint32
}

const opChunk = int64(unsafe.Sizeof([chunkLength]operation{}))

// fact says whether an entry is there after a change.
type fact struct {
	Position
	present bool
}

// NewChange makes an empty change. Its lookups begin when it is staged.
func (t *Table) NewChange() *Change { return &Change{table: t} }

// Put adds an entry. The key is copied. When the changes of all tables hold more memory than Options.PendingBytes, this
// one is moved to disk, and Put takes as long; a failure of that fails the change's lookups and its Commit.
func (c *Change) Put(key []byte, p Position) { c.add(key, p, 0) }

// Remove takes an entry away; one that is not there is no error.
func (c *Change) Remove(key []byte, p Position) { c.add(key, p, 1) }

// Clear removes all entries of the table, those put by this change included.
func (c *Change) Clear() {
	c.unspill()
	c.keys, c.ops = KeyMap{}, list[operation]{}
	c.count()
	c.cleared = true
}

// Empty reports whether the change does nothing.
func (c *Change) Empty() bool { return !c.cleared && c.Len() == 0 }

// Len gives the number of operations since the last Clear.
func (c *Change) Len() int { return c.ops.length + c.spilled }

// Bytes gives the memory held, in bytes; what was spilled does not count.
func (c *Change) Bytes() int64 { return c.keys.Bytes() + int64(len(c.ops.chunks))*(opChunk+8) }

func (c *Change) add(key []byte, p Position, removed uint32) {
	c.append(held(key), p, removed)
	c.grown()
}

// append adds an operation of a key in the form in which it is held.
func (c *Change) append(key []byte, p Position, removed uint32) {
	newest, _ := c.keys.Slot(key)
	if c.ops.length >= 1<<31-1 {
		panic("a change of the key index holds at most 2^31-1 operations")
	}
	o := c.ops.add()
	o.file, o.row, o.older = p.File, p.Row, uint32(*newest)<<1|removed
	*newest = uint64(c.ops.length)
}

// grown counts new memory, and moves the change to disk when there is too much of it.
func (c *Change) grown() {
	x := c.table.index
	if c.Bytes() == c.size {
		return
	}
	if all := c.count(); all > x.options.PendingBytes && c.size >= x.options.leastSpill && c.err == nil {
		c.err = c.moveToDisk()
	}
}

// count brings the index's count of bytes in changes up to date, and gives it.
func (c *Change) count() int64 {
	n := c.Bytes()
	more := n - c.size
	c.size = n
	return c.table.index.pending.Add(more)
}

// Discard gives up a change that was not staged.
func (c *Change) Discard() {
	c.settled()
	c.keys, c.ops = KeyMap{}, list[operation]{}
}

// settled takes a change that is no longer staged out of the count, and its spilled part from disk. Its memory stays as
// it is, since a lookup may still be reading it, as such a lookup's iterator keeps the spilled part.
func (c *Change) settled() {
	c.unspill()
	c.table.index.pending.Add(-c.size)
	c.size = 0
	if m := c.moved.Load(); m != nil {
		m.settled()
	}
}

// facts appends what the change says of a key, the newest first.
func (c *Change) facts(h uint32, key []byte, to []fact) []fact {
	newest := c.keys.find(h, key)
	if newest == nil {
		return to
	}
	return c.chain(*newest, to)
}

func (c *Change) chain(newest uint64, to []fact) []fact {
	for at := uint32(newest); at != 0; {
		o := c.ops.at(int(at) - 1)
		to = append(to, fact{Position{o.file, o.row}, o.older&1 == 0})
		at = o.older >> 1
	}
	return to
}

// settle orders facts by position and keeps the first, which is the newest, of each.
func settle(facts []fact) []fact {
	if len(facts) < 2 {
		return facts
	}
	slices.SortStableFunc(facts, func(a, b fact) int { return a.Position.compare(b.Position) })
	return slices.CompactFunc(facts, func(a, b fact) bool { return a.Position == b.Position })
}
