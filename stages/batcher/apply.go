package batcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/rows"
)

// apply takes in a run of row changes.
func (b *Batcher) apply(ctx context.Context, m *message.Rows) error {
	if !b.follows() || b.copy != nil && !slices.ContainsFunc(m.Transactions, b.copy.accepts) {
		b.cfg.Budget.Release(m.Cost)
		return nil
	}
	if err := b.use(ctx, m); err != nil {
		b.cfg.Budget.Release(m.Cost)
		return b.tolerate(err)
	}
	before := len(b.open.rows)
	err := b.changes(m)
	if len(b.open.rows) == before && err == nil {
		b.cfg.Budget.Release(m.Cost) // only keys were taken, and copied
		return b.tolerate(b.settleWhenLarge(ctx, false))
	}
	b.open.cost += m.Cost
	b.open.bytes += int64(len(m.Bytes))
	b.openBytes.Store(b.open.bytes)
	b.openCost.Store(b.open.cost)
	sealed := err == nil && b.open.bytes >= b.cfg.SegmentBytes
	if sealed {
		err = b.seal(ctx)
	}
	if err == nil {
		err = b.settleWhenLarge(ctx, sealed)
	}
	return b.tolerate(err)
}

// use makes the layout fit the relation of a run of changes. A relation that differs from the schema held means that the
// table was altered.
func (b *Batcher) use(ctx context.Context, m *message.Rows) error {
	rel := m.Relation
	if rel == b.relation {
		return nil
	}
	kept := b.kept(rel)
	if fits(&b.state.Schema, kept) && identifies(&b.state.Schema, kept) {
		if len(m.Transactions) > 0 {
			var err error
			if b.sure, err = b.cfg.SameColumns(ctx, kept, m.Transactions[0].XID, &b.state); err != nil {
				return err
			}
		}
		if last := b.relation; last != nil && last.Identity == rel.Identity && slices.Equal(last.Columns, rel.Columns) {
			b.relation = rel // the segment goes on
			return nil
		}
	} else {
		schema, err := b.cfg.SchemaFor(ctx, kept, m.Transactions[0].XID, &b.state, b.sure)
		if err != nil {
			return err
		}
		b.sure = true
		// Rows of such a table are found by all their columns: the index knows none of them by the new ones.
		if b.fullRow() && !sameColumns(&b.state.Schema, schema) {
			return NeedsResync(errors.New("its columns changed, and it has no key by which its rows are found"))
		}
		if !identifies(schema, kept) {
			return NeedsResync(errors.New("its replica identity changed for a while"))
		}
		if err := b.seal(ctx); err != nil {
			return err
		}
		b.state.Schema, b.schema, b.dirty = *schema, schema, true
	}
	names := make([]string, len(rel.Columns))
	for i, c := range rel.Columns {
		names[i] = c.Name
	}
	schema := b.state.Schema
	layout, err := rows.NewLayout(&schema, names, b.cfg.Values)
	if err != nil {
		return tableError("%w", err)
	}
	if b.open.layout != nil && len(b.open.rows) > 0 {
		if err := b.seal(ctx); err != nil {
			return err
		}
	}
	b.keyer = nil
	if b.keyed() || b.fullRow() {
		if b.keyer, err = layout.NewKeyer(); err != nil {
			return tableError("%w", err)
		}
	}
	b.relation, b.layout = rel, layout
	return nil
}

// kept is the relation without the columns that the lake leaves out.
func (b *Batcher) kept(rel *message.Relation) *message.Relation {
	if len(b.cfg.Excluded) == 0 {
		return rel
	}
	schema := &b.state.Schema
	isKey := func(name string) bool {
		return slices.ContainsFunc(schema.Key, func(k int) bool { return schema.Columns[k].Name == name })
	}
	kept := *rel
	kept.Columns = nil
	for _, c := range rel.Columns {
		if !slices.Contains(b.cfg.Excluded, c.Name) || isKey(c.Name) {
			kept.Columns = append(kept.Columns, c)
		}
	}
	return &kept
}

// fits reports whether a relation has the schema's columns with the types they were read with.
func fits(schema *formats.Schema, rel *message.Relation) bool {
	if len(schema.Columns) != len(rel.Columns) {
		return false
	}
	for i := range rel.Columns {
		have, want := &rel.Columns[i], &schema.Columns[i]
		if have.Name != want.Name || have.TypeOID != want.Source.OID || have.Typmod != want.Source.Typmod {
			return false
		}
	}
	return true
}

// identifies reports whether the old tuples that come under a relation carry what the schema finds rows by. A partitioned
// table's relation shows the root's identity, though each partition logs by its own.
func identifies(schema *formats.Schema, rel *message.Relation) bool {
	switch {
	case rel.Identity == 'f' || schema.KeyKind == formats.KeyNone:
		return true
	case schema.KeyKind == formats.KeyFullRow:
		return false
	}
	for _, k := range schema.Key {
		if !rel.Columns[k].Key {
			return false
		}
	}
	return true
}

// sameColumns reports whether two schemas have the same columns in the same order, whatever their names.
func sameColumns(a, b *formats.Schema) bool {
	return slices.EqualFunc(a.Columns, b.Columns, func(x, y formats.Column) bool { return x.ID == y.ID })
}

func (b *Batcher) keyed() bool   { return len(b.state.Schema.Key) > 0 }
func (b *Batcher) fullRow() bool { return b.state.Schema.KeyKind == formats.KeyFullRow }

// changes applies the row changes of m in order.
func (b *Batcher) changes(m *message.Rows) error {
	if len(b.open.rows) == 0 {
		b.open.layout = b.layout
	}
	b.open.rows = slices.Grow(b.open.rows, len(m.Changes))
	transaction := 0
	for i := range m.Changes {
		for transaction+1 < len(m.Transactions) && m.Transactions[transaction+1].First <= i {
			transaction++
		}
		xid := m.Transactions[transaction].XID
		if b.copy != nil && (!b.copy.accepts(m.Transactions[transaction]) || b.copy.visible != nil && b.copy.visible(xid)) {
			continue // the copy's snapshot holds it
		}
		if err := b.change(m, &m.Changes[i], xid); err != nil {
			return fmt.Errorf("transaction %d: %w", xid, err)
		}
	}
	return nil
}

func (b *Batcher) change(m *message.Rows, c *message.Change, xid uint32) error {
	tuple := m.Bytes[c.New.From:c.New.To]
	old := m.Bytes[c.Old.From:c.Old.To]
	switch c.Operation {
	case message.Insert:
		b.counts.Inserted.Add(1)
		return b.insert(tuple, xid)
	case message.Update:
		b.counts.Updated.Add(1)
		if c.OldKind == 'O' && !b.cfg.PartialOld {
			merged, err := b.withOld(tuple, old)
			if err != nil {
				return err
			}
			tuple = merged
		}
		return b.update(tuple, old, c.OldKind, xid)
	case message.Delete:
		b.counts.Deleted.Add(1)
		return b.delete(old, xid)
	}
	return tableError("unknown operation %q", c.Operation)
}

func (b *Batcher) insert(tuple []byte, xid uint32) error {
	row := openRow{tuple: tuple, entry: noEntry, base: noEntry, baseSegment: -1, xid: xid}
	if b.keyer == nil {
		b.open.add(row)
		return nil
	}
	e, isNew, err := b.entryOf(tuple)
	if err != nil {
		return err
	}
	row.entry = e
	if b.fullRow() {
		b.open.add(row)
		return nil
	}
	entry := &b.cut.entries[e]
	if b.copy != nil {
		entry.look = true // the copy may have read a row with this key
		b.copy.touched(b, e)
	} else if !isNew && entry.at != nowhere {
		b.kill(entry)
	}
	if b.copy != nil {
		b.kill(entry)
	}
	entry.at = place{segment: openPlace, row: b.open.add(row)}
	return nil
}

func (b *Batcher) update(tuple, old []byte, oldKind byte, xid uint32) error {
	if b.fullRow() {
		if oldKind != 'O' {
			return tableError("an update came without the old row: REPLICA IDENTITY is no longer FULL")
		}
		if err := b.delete(old, xid); err != nil {
			return err
		}
		return b.insert(tuple, xid)
	}
	if b.keyer == nil {
		return tableError("an update came for a table without a key")
	}
	from := tuple
	if oldKind != 0 {
		from = old
	}
	was, isNew, err := b.entryOf(from)
	if err != nil {
		return err
	}
	is := was
	if oldKind != 0 {
		if is, _, err = b.entryOf(tuple); err != nil {
			return err
		}
	}
	previous := &b.cut.entries[was]
	if isNew {
		previous.look = true
	}
	row := openRow{tuple: tuple, entry: is, base: noEntry, baseSegment: -1, xid: xid}
	if err := b.keepUnchanged(&row, was); err != nil {
		return err
	}
	b.kill(previous)
	next := &b.cut.entries[is]
	if is != was {
		b.kill(next)
	}
	if b.copy != nil {
		previous.look, next.look = true, true
		b.copy.touched(b, was)
		b.copy.touched(b, is)
	}
	next.at = place{segment: openPlace, row: b.open.add(row)}
	return nil
}

func (b *Batcher) delete(old []byte, xid uint32) error {
	if b.keyer == nil {
		return tableError("a delete came for a table without a key")
	}
	e, isNew, err := b.entryOf(old)
	if err != nil {
		return err
	}
	entry := &b.cut.entries[e]
	if b.fullRow() {
		if b.copy != nil {
			b.copy.owe(b.cut.key(e), xid)
			return nil
		}
		entry.deletes++
		entry.look = true
		return nil
	}
	if isNew || b.copy != nil {
		entry.look = true
	}
	if b.copy != nil {
		b.copy.touched(b, e)
	}
	b.kill(entry)
	return nil
}

// kill takes the entry's row of this cut, if there is one, out again.
func (b *Batcher) kill(e *entry) {
	switch {
	case e.at == nowhere:
	case e.at.segment == openPlace:
		b.open.rows[e.at.row].dead = true
		b.open.alive--
	default:
		b.cut.deleteAt(b.cut.segments[e.at.segment].path, e.at.row)
	}
	e.at = nowhere
}

// entryOf finds or makes the cut's entry for the key of a tuple.
func (b *Batcher) entryOf(tuple []byte) (e int32, isNew bool, err error) {
	if b.cut.values, err = message.Columns(tuple, b.cut.values[:0]); err != nil {
		return 0, false, tableError("%w", err)
	}
	if b.cut.scratch, err = b.keyer.Append(b.cut.scratch[:0], b.cut.values); err != nil {
		return 0, false, tableError("%w", err)
	}
	e, isNew = b.cut.entry(b.cut.scratch)
	return e, isNew, nil
}

// keepUnchanged decides where the row's unchanged TOAST values come from: an earlier row of this cut with the key that
// the row had before, else that key's row in the lake.
func (b *Batcher) keepUnchanged(row *openRow, was int32) error {
	if bytes.IndexByte(row.tuple, 'u') < 0 { // cheap test first: most tuples have no such byte at all
		return nil
	}
	values, err := message.Columns(row.tuple, nil)
	if err != nil {
		return tableError("%w", err)
	}
	if len(b.layout.Toasted(values, nil)) == 0 {
		return nil
	}
	at := b.cut.entries[was].at
	switch {
	case at.segment == openPlace && at != nowhere:
		earlier := &b.open.rows[at.row]
		before, err := message.Columns(earlier.tuple, nil)
		if err != nil {
			return tableError("%w", err)
		}
		row.tuple = merge(values, before)
		row.base, row.baseSegment, row.baseRow = earlier.base, earlier.baseSegment, earlier.baseRow
	case at != nowhere:
		row.base, row.baseSegment, row.baseRow = was, at.segment, at.row
	default:
		row.base = was
		b.cut.entries[was].look = true
	}
	return nil
}

// withOld fills unchanged TOAST values in from the old row that REPLICA IDENTITY FULL sends.
func (b *Batcher) withOld(tuple, old []byte) ([]byte, error) {
	if bytes.IndexByte(tuple, 'u') < 0 {
		return tuple, nil
	}
	values, err := message.Columns(tuple, nil)
	if err != nil {
		return nil, tableError("%w", err)
	}
	if len(b.layout.Toasted(values, nil)) == 0 {
		return tuple, nil
	}
	before, err := message.Columns(old, nil)
	if err != nil {
		return nil, tableError("%w", err)
	}
	return merge(values, before), nil
}

// merge makes a tuple of values in which unchanged ones are taken from before.
func merge(values, before []message.Value) []byte {
	merged := slices.Clone(values)
	for i := range merged {
		if merged[i].Kind == 'u' && i < len(before) {
			merged[i] = before[i]
		}
	}
	return message.AppendTuple(nil, merged)
}
