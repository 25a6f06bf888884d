package keyindex

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// A change that grows while the changes of all tables hold more than their share of memory is moved to disk (promise
// 6), again and again: its operations go, settled, into a space of their own in the database, where later ones replace
// earlier ones of the same entry. What is in memory is newer than what is there. Nothing of it outlives the run.
var (
	removedMark = []byte{1}
	errOrder    = errors.New("entries out of order")
)

func (c *Change) moveToDisk() error {
	x := c.table.index
	if err := x.enter(); err != nil {
		return err
	}
	defer x.leave()
	if err := x.room(c.Bytes()); err != nil {
		return x.wrap("move a large change to disk", err)
	}
	if c.spill == 0 {
		if c.spill = x.spills.Add(1); c.spill == 0 {
			return errors.New("key index: too many large changes since the start: restart the pipeline")
		}
	}
	prefix, done := tableKey(spaceSpill, c.spill), false
	var err error
	if c.Bytes() >= x.options.leastFile {
		done, err = c.spillFile(prefix)
	}
	if !done && err == nil {
		err = c.spillBatches(prefix)
	}
	if err != nil {
		return x.wrap("move a large change to disk", err)
	}
	c.spilled += c.ops.length
	c.keys, c.ops = KeyMap{}, list[operation]{}
	c.count()
	return nil
}

func (c *Change) spillBatches(key []byte) error {
	x := c.table.index
	b := x.db.NewBatch()
	defer b.Close()
	err := c.each(func(k []byte, f fact) error {
		key = appendPosition(append(key[:prefixLength], k...), f.Position)
		if err := b.Set(key, f.value(), nil); err != nil || b.Len() < x.options.batchBytes {
			return err
		}
		if err := x.apply(b, pebble.NoSync); err != nil {
			return err
		}
		b.Reset()
		return nil
	})
	if err != nil {
		return err
	}
	return x.apply(b, pebble.NoSync)
}

// spillFile reports false when a file cannot take the entries, since their order is not that of the keys: with keys that
// begin with each other it may differ.
func (c *Change) spillFile(key []byte) (bool, error) {
	w := c.table.index.newWriter()
	defer w.close()
	var last []byte
	err := c.each(func(k []byte, f fact) error {
		last, key = key, append(last[:0], key[:prefixLength]...)
		key = appendPosition(append(key, k...), f.Position)
		if bytes.Compare(last, key) >= 0 {
			return errOrder
		}
		return w.set(key, f.value())
	})
	if err == errOrder {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, w.ingest()
}

func (f fact) value() []byte {
	if f.present {
		return nil
	}
	return removedMark
}

// eachSpilled gives what the change's spilled part comes to, in order of keys and positions.
func (c *Change) eachSpilled(f func(key []byte, f fact) error) error {
	s, err := c.table.index.scan(spaceSpill, c.spill)
	if err != nil || s.it == nil {
		return err
	}
	for ok := s.it.First(); ok && err == nil; ok = s.it.Next() {
		entry := s.it.Key()
		end := len(entry) - positionLength
		err = f(entry[prefixLength:end], fact{readPosition(entry[end:]), len(s.it.Value()) == 0})
	}
	return errors.Join(err, s.error(), s.close())
}

// storeSpilled writes the spilled part of a change to the table's entries, as files.
func (t *Table) storeSpilled(c *Change) error {
	w := t.index.newWriter()
	defer w.close()
	key := tableKey(spaceEntries, t.number)
	err := c.eachSpilled(func(k []byte, f fact) error {
		key = appendPosition(append(key[:prefixLength], k...), f.Position)
		if f.present {
			return w.set(key, nil)
		}
		return w.delete(key)
	})
	if err != nil {
		return err
	}
	return w.ingest()
}

// unspill takes the spilled part from disk. Where that fails it stays there until the next Open, unseen.
func (c *Change) unspill() {
	x := c.table.index
	if c.spill != 0 && x.enter() == nil {
		from, to := span(spaceSpill, c.spill)
		_ = x.db.DeleteRange(from, to, pebble.NoSync)
		x.leave()
	}
	c.spill, c.spilled = 0, 0
}
