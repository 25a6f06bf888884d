package keyindex

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// Lookup calls f for every entry of each key: for keys[i] with i, in order of the keys, and of one key's positions by
// file and row, each once. Keys must be sorted ascending and distinct (another order is right but slow). It sees the
// staged changes, the oldest first, over the durable part, as of one moment. It reads from disk. f may put into changes.
func (t *Table) Lookup(keys [][]byte, f func(i int, p Position)) error {
	return t.Scan(nil, keys, func(i int, p Position) bool {
		f(i, p)
		return true
	})
}

// Committed is Lookup without the staged changes: what the newest durable checkpoint has.
func (t *Table) Committed(keys [][]byte, f func(i int, p Position)) error {
	return t.read(&view{}, keys, func(i int, p Position) bool {
		f(i, p)
		return true
	})
}

// Scan is Lookup with two additions: it also sees over, an unstaged change of the table that the calling goroutine is
// building, nil for none; and when f returns false the rest of that key's entries are passed over. f may put into over:
// keys that come later see it.
func (t *Table) Scan(over *Change, keys [][]byte, f func(i int, p Position) bool) error {
	return t.read(&view{over: over, staged: true}, keys, f)
}

func (t *Table) read(s *view, keys [][]byte, f func(i int, p Position) bool) error {
	if len(keys) == 0 {
		return nil
	}
	if err := t.index.enter(); err != nil {
		return err
	}
	defer t.index.leave()
	err := s.open(t)
	for i := 0; i < len(keys) && err == nil; i++ {
		err = s.key(keys[i], func(p Position) bool { return f(i, p) })
	}
	return t.wrap("look keys up", errors.Join(err, s.close()))
}

// view is what a lookup sees: fixed from its beginning to its end, but for what its own callback puts into over.
type view struct {
	over   *Change
	staged bool

	// changes are those that count, the newest first: up to the last truncate.
	changes []changeView
	// durable has no iterator when nothing durable shows.
	durable scan

	facts []fact
}

// changeView is a change with its spilled part.
type changeView struct {
	*Change
	spilled scan
	// operations is the number of operations in the spilled part.
	operations int
}

// scan walks the positions of keys under a table's or a spill's prefix.
type scan struct {
	it   *pebble.Iterator
	seek []byte
}

// open fixes what the view sees. The caller closes it also after an error.
func (s *view) open(t *Table) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var changes []*Change // the newest first
	if s.over != nil {
		changes = append(changes, s.over)
	}
	for i := len(t.staged) - 1; i >= 0 && s.staged; i-- {
		changes = append(changes, t.staged[i])
	}
	for _, c := range changes {
		if c.err != nil {
			return c.err
		}
		v := changeView{Change: c, operations: c.spilled}
		if v.spilled, err = t.index.scan(spaceSpill, c.spill); err != nil {
			return err
		}
		s.changes = append(s.changes, v)
		if c.cleared {
			return nil
		}
	}
	s.durable, err = t.index.scan(spaceEntries, t.number)
	return err
}

// scan makes a scan; with number 0 it finds nothing.
func (x *Index) scan(space byte, number uint32) (scan, error) {
	if number == 0 {
		return scan{}, nil
	}
	from, to := span(space, number)
	it, err := x.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return scan{}, err
	}
	return scan{it, from}, nil
}

func (s *view) close() error {
	err := s.durable.close()
	for i := range s.changes {
		err = errors.Join(err, s.changes[i].spilled.close())
	}
	return err
}

func (s *scan) close() error {
	if s.it == nil {
		return nil
	}
	it := s.it
	s.it = nil
	return it.Close()
}

// first goes to the first position of a key, next to the following one. Where there is none, both report false and
// leave the error, if any, to be asked for.
func (s *scan) first(key []byte) (Position, bool) {
	if s.it == nil {
		return Position{}, false
	}
	s.seek = append(s.seek[:prefixLength], key...)
	return s.read(s.it.SeekGE(s.seek))
}

func (s *scan) next() (Position, bool) { return s.read(s.it.Next()) }

func (s *scan) read(ok bool) (Position, bool) {
	for ; ok; ok = s.it.Next() {
		entry := s.it.Key()
		if !bytes.HasPrefix(entry, s.seek) {
			break
		}
		if len(entry) == len(s.seek)+positionLength {
			return readPosition(entry[len(s.seek):]), true
		}
		// Of a longer key that begins with this one.
	}
	return Position{}, false
}

func (s *scan) error() error {
	if s.it == nil || s.it.Valid() {
		return nil
	}
	return s.it.Error()
}

// told appends what the changes say of a key, the newest first.
func (s *view) told(key []byte, facts []fact) ([]fact, error) {
	if len(s.changes) == 0 {
		return facts, nil
	}
	h := hashOf(key)
	for i := range s.changes {
		c := &s.changes[i]
		if c.Change == s.over {
			if err := c.again(); err != nil {
				return facts, err
			}
		}
		facts = c.facts(h, key, facts)
		for p, ok := c.spilled.first(key); ok; p, ok = c.spilled.next() {
			facts = append(facts, fact{p, len(c.spilled.it.Value()) == 0})
		}
		if err := c.spilled.error(); err != nil {
			return facts, err
		}
		for m := c.moved.Load(); m != nil; m = m.moved.Load() {
			facts = m.facts(h, key, facts)
		}
	}
	return facts, nil
}

// again opens the spilled part anew when more has been spilled since.
func (c *changeView) again() error {
	if c.err != nil || c.operations == c.Change.spilled {
		return c.err
	}
	err := c.spilled.close()
	c.spilled = scan{}
	if err == nil {
		c.spilled, err = c.table.index.scan(spaceSpill, c.spill)
	}
	c.operations = c.Change.spilled
	return err
}

// key merges what the changes say of a key with its durable entries. A durable entry that a change speaks of counts as
// the change says, so it does not matter whether that change is in the database already, wholly or in part.
func (s *view) key(key []byte, f func(Position) bool) error {
	key = held(key)
	facts, err := s.told(key, s.facts[:0])
	if err != nil {
		return err
	}
	s.facts = facts
	facts = settle(facts)
	for p, ok := s.durable.first(key); ok; p, ok = s.durable.next() {
		for len(facts) > 0 && facts[0].compare(p) < 0 {
			if facts[0].present && !f(facts[0].Position) {
				return nil
			}
			facts = facts[1:]
		}
		if len(facts) > 0 && facts[0].Position == p {
			continue // told by the fact, when its turn comes
		}
		if !f(p) {
			return nil
		}
	}
	if err := s.durable.error(); err != nil {
		return err
	}
	for _, a := range facts {
		if a.present && !f(a.Position) {
			return nil
		}
	}
	return nil
}
