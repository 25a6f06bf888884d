package source

import (
	"slices"

	"github.com/streambed/streambed/formats"
)

const keyNone = formats.KeyNone

// addKey finds what identifies a row in what the stream sends: the primary key where there is one, else the identity
// index, else the full row under FULL, else nothing (design section 6).
//
// A key that the stream's old tuples do not carry is no use: under REPLICA IDENTITY USING INDEX the primary key is left
// for the index's columns. A deferrable primary key is none (Postgres does not take it as identity either), since two
// rows may share it for a part of a transaction.
func (c *catalog) addKey(t *Table, r *relation) {
	t.KeyKind, t.Key = keyNone, nil
	if t.Partitioned {
		c.addPartitionedKey(t, r)
		return
	}
	sent := c.sent(r)
	primary := c.primaryKey(r)
	switch {
	case primary != nil && sent.carries(primary) && t.setKey(formats.KeyPrimary, primary):
	case sent.full:
		t.KeyKind = formats.KeyFullRow
	case sent.columns != nil:
		t.setKey(formats.KeyIdentity, sent.columns)
	}
}

// addPartitionedKey does so for a partitioned table. Each partition logs by its own identity, so every one must carry
// the key, and the key must be the root's: one of the partitions' own is not unique across them.
func (c *catalog) addPartitionedKey(t *Table, r *relation) {
	key, kind := c.primaryKey(r), formats.KeyPrimary
	if key == nil {
		key, kind = c.sent(r).columns, formats.KeyIdentity
	}
	leaves := c.leaves(r)
	full, carried := len(leaves) > 0, true
	for _, leaf := range leaves {
		sent := c.sent(leaf)
		full = full && sent.full
		carried = carried && sent.usable() && sent.carries(key)
	}
	switch {
	case key != nil && carried && t.setKey(kind, key):
	case full && r.identity == 'f':
		t.KeyKind = formats.KeyFullRow
	}
	if t.Identity == 'f' && !full {
		// The stream marks old tuples as whole by the root's identity, though the partitions log less.
		t.Identity = 'd'
	}
}

// setKey makes the named columns the key, unless the stream does not send one of them (a generated column).
func (t *Table) setKey(kind formats.KeyKind, names []string) bool {
	key, ok := t.places(names)
	if ok {
		t.KeyKind, t.Key = kind, key
	}
	return ok
}

// places gives the indexes of the named columns; ok is false when one of them is not sent.
func (t *Table) places(names []string) (places []int, ok bool) {
	for _, name := range names {
		i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
		if i < 0 {
			return nil, false
		}
		places = append(places, i)
	}
	return places, true
}

// sent is what a relation's old tuples carry.
type sent struct {
	full    bool
	columns []string
}

func (s sent) usable() bool { return s.full || s.columns != nil }

func (s sent) carries(columns []string) bool {
	if s.full {
		return true
	}
	for _, name := range columns {
		if !slices.Contains(s.columns, name) {
			return false
		}
	}
	return true
}

// sent tells what the identity of a relation makes Postgres log of old rows.
func (c *catalog) sent(r *relation) sent {
	switch r.identity {
	case 'f':
		return sent{full: true}
	case 'd':
		return sent{columns: c.primaryKey(r)}
	case 'i':
		for _, x := range c.indexes[r.oid] {
			if x.identity && x.usable {
				return sent{columns: x.key}
			}
		}
	}
	return sent{}
}

func (c *catalog) primaryKey(r *relation) []string {
	for _, x := range c.indexes[r.oid] {
		if x.primary && x.usable {
			return x.key
		}
	}
	return nil
}
