package keyindex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// Table is one incarnation of a lake table in the index. It is safe for concurrent use.
type Table struct {
	index *Index
	id    string

	// write is held by whatever changes the durable part, the number or dropped. It comes before mu.
	write   sync.Mutex
	dropped bool

	// mu makes the staged changes and the durable part, as an iterator sees it, one consistent pair: a change leaves
	// staged only after it is in the database, so a lookup finds it in one of them or in both, and never in none.
	mu sync.Mutex
	// number is 0 while the table has nothing durable.
	number uint32
	// staged are the changes whose checkpoints are not durable yet, the oldest first. The slice is never changed in place.
	staged []*Change
}

// ID gives the incarnation's id.
func (t *Table) ID() string { return t.id }

// Sequence gives the lake sequence number up to which the durable part is complete; false when it was never set, or the
// table has been dropped. It may lag behind what was committed after a crash, never run ahead.
func (t *Table) Sequence() (int64, bool, error) {
	if err := t.index.enter(); err != nil {
		return 0, false, err
	}
	defer t.index.leave()
	t.mu.Lock()
	number := t.number
	t.mu.Unlock()
	if number == 0 {
		return 0, false, nil
	}
	v, closer, err := t.index.db.Get(tableKey(spaceSequence, number))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, t.wrap("read the sequence", err)
	}
	if len(v) != 8 {
		err = fmt.Errorf("a sequence has %d bytes instead of 8", len(v))
		return 0, false, t.wrap("read the sequence", errors.Join(err, closer.Close()))
	}
	sequence := int64(binary.BigEndian.Uint64(v))
	return sequence, true, closer.Close()
}

// Reset empties the table, drops its staged changes and sets the sequence, in one durable step: the incarnation is
// known to be empty at that sequence. To rebuild a table that is not empty, use Forget, Ingest and SetSequence.
func (t *Table) Reset(sequence int64) error { return t.empty(&sequence) }

// Forget empties the table, drops its staged changes and unsets the sequence, in one durable step: a rebuild begins.
func (t *Table) Forget() error { return t.empty(nil) }

func (t *Table) empty(sequence *int64) error {
	if err := t.begin(0); err != nil {
		return err
	}
	defer t.end()
	b := t.index.db.NewBatch()
	defer b.Close()
	from, to := span(spaceEntries, t.number)
	err := b.DeleteRange(from, to, nil)
	key := tableKey(spaceSequence, t.number)
	if sequence == nil {
		err = errors.Join(err, b.Delete(key, nil))
	} else {
		err = errors.Join(err, b.Set(key, binary.BigEndian.AppendUint64(nil, uint64(*sequence)), nil))
	}
	if err == nil {
		err = t.index.apply(b, pebble.Sync)
	}
	if err != nil {
		return t.wrap("empty the table", err)
	}
	t.abandon()
	return nil
}

// SetSequence sets the sequence, durably: everything up to it has been ingested.
func (t *Table) SetSequence(sequence int64) error {
	if err := t.begin(0); err != nil {
		return err
	}
	defer t.end()
	v := binary.BigEndian.AppendUint64(nil, uint64(sequence))
	return t.wrap("set the sequence", t.index.db.Set(tableKey(spaceSequence, t.number), v, pebble.Sync))
}

// Stage makes a change visible to lookups, over those staged before. The change must not be altered afterwards. It does
// not block on the disk.
func (t *Table) Stage(c *Change) {
	if c.table != t {
		panic("a change was staged in another table than its own")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.staged = append(slices.Clone(t.staged), c)
}

// Commit moves the oldest staged change, which must be c, into the database: its checkpoint is durable, with the given
// lake sequence number. A large change goes in several batches, the sequence with the last. It returns when the batches
// are visible, not when they are on disk. After an error the change is still staged and Commit may be called again.
func (t *Table) Commit(c *Change, sequence int64) error {
	if err := t.begin(c.Bytes()); err != nil {
		return err
	}
	defer t.end()
	if t.oldest() != c {
		return t.wrap("commit", errors.New("the change is not the oldest one staged"))
	}
	if err := t.store(c, sequence); err != nil {
		return t.wrap("commit", err)
	}
	t.mu.Lock()
	t.staged = slices.Clone(t.staged[1:])
	t.mu.Unlock()
	c.settled()
	return nil
}

func (t *Table) oldest() *Change {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.staged) == 0 {
		return nil
	}
	return t.staged[0]
}

// CommitBeneath writes an unstaged change to the database beneath the staged ones, with the given sequence number: a
// compaction moved rows, and its snapshot is durable. moved gives a row's new position where the compaction moved it;
// nil when it moved none that a staged change could remove. What staged changes remove at an old position they remove
// at the new one as well from now on; a change still being built needs [Change.Remap] before it is staged. It returns
// as Commit does.
func (t *Table) CommitBeneath(c *Change, sequence int64, moved func(Position) (Position, bool)) error {
	if err := t.begin(c.Bytes()); err != nil {
		return err
	}
	defer t.end()
	t.mu.Lock()
	staged := t.staged
	t.mu.Unlock()
	if moved != nil {
		for _, s := range staged {
			// A lookup may see this before the rows move, and it changes nothing for it: nothing is at the new places.
			if err := s.follow(moved); err != nil {
				return t.wrap("follow moved rows", err)
			}
		}
	}
	if err := t.store(c, sequence); err != nil {
		return t.wrap("commit", err)
	}
	c.settled()
	return nil
}

// Abandon drops all staged changes: the run of the pipeline ended before their checkpoints were durable.
func (t *Table) Abandon() {
	t.write.Lock()
	defer t.write.Unlock()
	t.abandon()
}

// Bytes gives the memory in staged changes.
func (t *Table) Bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var n int64
	for _, c := range t.staged {
		n += c.Bytes()
	}
	return n
}

func (t *Table) abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.staged {
		c.settled()
	}
	t.staged = nil
}

// begin starts a write of about so many bytes: the table has a number afterwards and nobody else writes to it until end.
func (t *Table) begin(bytes int64) error {
	if err := t.index.enter(); err != nil {
		return err
	}
	t.write.Lock()
	err := t.ready(bytes)
	if err != nil {
		t.end()
	}
	return err
}

func (t *Table) ready(bytes int64) error {
	if t.dropped {
		return t.wrap("write", ErrDropped)
	}
	if err := t.index.room(bytes); err != nil {
		return t.wrap("write", err)
	}
	if t.number != 0 {
		return nil
	}
	number, err := t.index.register(t.id)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.number = number
	t.mu.Unlock()
	return nil
}

func (t *Table) end() {
	t.write.Unlock()
	t.index.leave()
}

func (t *Table) wrap(what string, err error) error {
	return t.index.wrap(what+" (table "+t.id+")", err)
}
