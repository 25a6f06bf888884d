package keyindex

import "slices"

// Remap follows rows that a compaction moved, in a change that is being built: what it removes at an old position it
// removes at the new one as well. moved gives the new position of a row that moved.
func (c *Change) Remap(moved func(Position) (Position, bool)) error {
	more, err := c.removals(moved)
	if err != nil || more == nil {
		return err
	}
	return more.each(func(key []byte, f fact) error {
		c.append(key, f.Position, 1)
		c.grown()
		return c.err
	})
}

// follow does the same for a staged change, which lookups read meanwhile.
func (c *Change) follow(moved func(Position) (Position, bool)) error {
	more, err := c.removals(moved)
	if err != nil || more == nil {
		return err
	}
	more.moved.Store(c.moved.Load())
	c.moved.Store(more)
	more.count()
	return nil
}

// removals gives a change that removes the new positions of the rows that c removes at old ones; nil for none. It is
// neither counted nor ever spilled, so it can be read like a part of c.
func (c *Change) removals(moved func(Position) (Position, bool)) (*Change, error) {
	more := &Change{table: c.table}
	follow := func(key []byte, f fact) error {
		if to, ok := moved(f.Position); ok && !f.present {
			more.append(key, to, 1)
		}
		return nil
	}
	if err := c.each(follow); err != nil {
		return nil, err
	}
	var newer []fact
	err := c.eachSpilled(func(key []byte, f fact) error {
		newer = c.facts(hashOf(key), key, newer[:0])
		if slices.ContainsFunc(newer, func(n fact) bool { return n.Position == f.Position }) {
			return nil // what is in memory has been followed
		}
		return follow(key, f)
	})
	if err != nil {
		return nil, err
	}
	for m := c.moved.Load(); m != nil; m = m.moved.Load() {
		if err := m.each(follow); err != nil {
			return nil, err
		}
	}
	if more.Len() == 0 {
		return nil, nil
	}
	return more, nil
}
