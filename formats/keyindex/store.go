package keyindex

import (
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"
)

// apply writes a batch.
func (x *Index) apply(b *pebble.Batch, o *pebble.WriteOptions) error { return x.db.Apply(b, o) }

// store writes a change to the database: the truncate first, then the keys in order, which costs a fraction of writing
// them at random, the sequence last. Every batch but the last leaves the table between two sequences; it is then behind, as
// far as Sequence tells, and writing the change again mends it.
func (t *Table) store(c *Change, sequence int64) error {
	x := t.index
	b := x.db.NewBatch()
	defer b.Close()
	if c.err != nil {
		return c.err
	}
	if c.cleared {
		from, to := span(spaceEntries, t.number)
		if err := b.DeleteRange(from, to, nil); err != nil {
			return err
		}
	}
	if c.spill != 0 {
		if err := x.apply(b, pebble.NoSync); err != nil {
			return err
		}
		b.Reset()
		if err := t.storeSpilled(c); err != nil {
			return err
		}
	}
	write := func(key []byte, f fact) error {
		if err := t.storeFact(b, key, f); err != nil || b.Len() < x.options.batchBytes {
			return err
		}
		if err := x.apply(b, pebble.NoSync); err != nil {
			return err
		}
		b.Reset()
		return nil
	}
	if err := c.each(write); err != nil {
		return err
	}
	for m := c.moved.Load(); m != nil; m = m.moved.Load() {
		if err := m.each(write); err != nil {
			return err
		}
	}
	v := binary.BigEndian.AppendUint64(nil, uint64(sequence))
	if err := b.Set(tableKey(spaceSequence, t.number), v, nil); err != nil {
		return err
	}
	return x.apply(b, pebble.NoSync)
}

func (t *Table) storeFact(b *pebble.Batch, key []byte, f fact) error {
	n := prefixLength + len(key) + positionLength
	var op *pebble.DeferredBatchOp
	if f.present {
		op = b.SetDeferred(n, 0)
	} else {
		op = b.DeleteDeferred(n)
	}
	op.Key[0] = spaceEntries
	binary.BigEndian.PutUint32(op.Key[1:], t.number)
	copy(op.Key[prefixLength:], key)
	putPosition(op.Key[prefixLength+len(key):], f.Position)
	return op.Finish()
}

// each gives what the change's part in memory comes to, in order of keys and positions.
func (c *Change) each(f func(key []byte, f fact) error) error {
	var facts []fact
	for _, r := range c.sorted() {
		key, newest := c.keys.At(int(r.ref))
		facts = settle(c.chain(*newest, facts[:0]))
		for _, a := range facts {
			if err := f(key, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// sorted lists the numbers of the change's keys in memory, in order of the keys.
func (c *Change) sorted() []sortRef {
	refs := make([]sortRef, c.keys.Len())
	for i := range refs {
		refs[i].ref = uint64(i)
	}
	sortRefs(refs, func(ref uint64) []byte {
		key, _ := c.keys.At(int(ref))
		return key
	})
	return refs
}
