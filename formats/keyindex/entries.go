package keyindex

import (
	"bytes"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Entries are keys with positions, to be ingested. It is filled by one goroutine.
type Entries struct {
	data arena
	refs []sortRef
	// sorted says that refs are in order and without duplicates.
	sorted bool
}

// NewEntries makes an empty set.
func NewEntries() *Entries { return &Entries{} }

// Add adds an entry; the key is copied. Entries may come in any order, and more than once.
func (e *Entries) Add(key []byte, p Position) {
	key = held(key)
	ref, room := e.data.reserve(len(key) + positionLength)
	copy(room, key)
	putPosition(room[len(key):], p)
	e.refs = append(e.refs, sortRef{ref: ref})
	e.sorted = false
}

// Len gives the number of entries.
func (e *Entries) Len() int { return len(e.refs) }

// Bytes gives the memory held, in bytes.
func (e *Entries) Bytes() int64 { return e.data.bytes + int64(cap(e.refs))*16 }

// Reset empties the set. It keeps the memory of the list, and at most one block of the keys'.
func (e *Entries) Reset() {
	e.data.reset(largestBlock)
	e.refs, e.sorted = e.refs[:0], false
}

// Sort orders the entries and drops duplicates. Ingest does it where it has not been done; calling it beforehand moves
// the work to another goroutine.
func (e *Entries) Sort() {
	if e.sorted {
		return
	}
	sortRefs(e.refs, e.data.get)
	e.refs = slices.CompactFunc(e.refs, func(a, b sortRef) bool {
		return a.head == b.head && bytes.Equal(e.data.get(a.ref), e.data.get(b.ref))
	})
	e.sorted = true
}

// smallIngest is the size in bytes up to which entries are written as a batch: a file costs several waits for the disk,
// which a thousand small tables would feel.
const smallIngest = 256 << 10

// Ingest adds entries in bulk, beneath all changes staged at present: initial copy and rebuild. It sorts them, writes
// them to files and hands those to the database, and returns when they are durable; few entries become durable no later
// than the next sequence. It does not move the sequence. The entries are the caller's again afterwards.
func (t *Table) Ingest(e *Entries) error {
	if e.Len() == 0 {
		return nil
	}
	e.Sort()
	if err := t.begin(e.Bytes()); err != nil {
		return err
	}
	prefix := tableKey(spaceEntries, t.number)
	if e.Bytes() <= smallIngest {
		defer t.end()
		return t.wrap("write entries", t.ingestBatch(prefix, e))
	}
	t.write.Unlock() // writing the files takes long, and commits must not wait for it
	defer t.index.leave()
	w := t.index.newWriter()
	defer w.close()
	key := prefix
	for _, r := range e.refs {
		key = append(key[:prefixLength], e.data.get(r.ref)...)
		if err := w.set(key, nil); err != nil {
			return t.wrap("write entries to a file", err)
		}
	}
	t.write.Lock()
	defer t.write.Unlock()
	if t.dropped {
		return t.wrap("ingest entries", ErrDropped)
	}
	return t.wrap("ingest entries", w.ingest())
}

// ingestBatch writes sorted entries as one batch. REQUIRES: the write has begun.
func (t *Table) ingestBatch(prefix []byte, e *Entries) error {
	b := t.index.db.NewBatch()
	defer b.Close()
	key := prefix
	for _, r := range e.refs {
		key = append(key[:prefixLength], e.data.get(r.ref)...)
		if err := b.Set(key, nil, nil); err != nil {
			return err
		}
	}
	return t.index.apply(b, pebble.NoSync)
}
