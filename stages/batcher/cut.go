package batcher

import (
	"bytes"
	"context"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/keyindex"
	"github.com/streambed/streambed/stages/message"
)

// place is where in the cut a key's row is.
type place struct {
	segment int32
	row     uint32
}

// openPlace is the segment number of the open segment.
const openPlace = math.MaxInt32

var nowhere = place{segment: -1}

// entry is what the cut knows of one key.
type entry struct {
	// at is the key's row of this cut; nowhere when it has none (any more).
	at place
	// look tells that the lake may hold a row with this key, which the cut removes; base are those rows once looked.
	look, looked bool
	base         []keyindex.Position
	// deletes counts the rows to be removed, for tables whose rows are found by content.
	deletes int32
}

// cutState is what the batcher has gathered since the last cut.
type cutState struct {
	keys     *keyindex.KeyMap
	entries  []entry
	segments []sealed
	deletes  map[string]*roaring.Bitmap
	// keyed are those of deletes that are also deleted by key, by the keys in keySegments.
	keyed       map[string]*roaring.Bitmap
	keySegments []*message.Segment
	files       []formats.DataFile // of the copy
	truncate    bool
	// cleared tells that the truncate is in a change of the index already.
	cleared bool

	values  []message.Value
	scratch []byte
}

// keepKeys is how much memory, in bytes, the key map keeps from one cut to the next.
const keepKeys = 1 << 20

func (c *cutState) reset() {
	if c.keys == nil {
		c.keys = keyindex.NewKeyMap(keepKeys)
	}
	c.forgetKeys()
	c.keyed, c.keySegments = nil, nil
	c.segments, c.deletes, c.files, c.truncate, c.cleared = nil, nil, nil, false, false
}

// forgetKeys forgets the keys, whose rows in this cut have been sealed.
func (c *cutState) forgetKeys() {
	c.keys.Reset()
	if cap(c.entries) > 1<<16 {
		c.entries = nil
	}
	clear(c.entries)
	c.entries = c.entries[:0]
}

// entry finds or makes the entry of a key.
func (c *cutState) entry(key []byte) (e int32, isNew bool) {
	slot, found := c.keys.Slot(key)
	if !found {
		*slot = uint64(len(c.entries))
		c.entries = append(c.entries, entry{at: nowhere})
	}
	return int32(*slot), !found
}

func (c *cutState) key(e int32) []byte {
	key, _ := c.keys.At(int(e))
	return key
}

func (c *cutState) deleteAt(path string, row uint32) { deleteFrom(&c.deletes, path, row) }

func deleteFrom(deletes *map[string]*roaring.Bitmap, path string, row uint32) {
	bitmap := (*deletes)[path]
	if bitmap == nil {
		if *deletes == nil {
			*deletes = map[string]*roaring.Bitmap{}
		}
		bitmap = roaring.New()
		(*deletes)[path] = bitmap
	}
	bitmap.Add(row)
}

// lookup finds the lake's rows of the entries' keys, those that are live only.
func (b *Batcher) lookup(which []int32) error {
	which = slices.DeleteFunc(which, func(e int32) bool { return b.cut.entries[e].looked })
	slices.SortFunc(which, func(x, y int32) int { return bytes.Compare(b.cut.key(x), b.cut.key(y)) })
	which = slices.Compact(which)
	keys := make([][]byte, len(which))
	for i, e := range which {
		keys[i] = b.cut.key(e)
		b.cut.entries[e].looked = true
	}
	return b.index.Lookup(keys, func(i int, p keyindex.Position) {
		if b.files.live(p) {
			entry := &b.cut.entries[which[i]]
			entry.base = append(entry.base, p)
		}
	})
}

// answer closes the cut for this table: everything since the last one becomes the table's part.
func (b *Batcher) answer(ctx context.Context, cut *message.Cut) error {
	part, err := b.part(ctx, cut)
	if err != nil {
		if err = b.tolerate(err); err != nil {
			return err
		}
		part, err = b.part(ctx, cut) // set aside: only its state
		if err != nil {
			return err
		}
	}
	cut.Answer(part)
	return nil
}

func (b *Batcher) part(ctx context.Context, cut *message.Cut) (*message.Part, error) {
	defer func() { b.counts.Files.Store(int64(len(b.files))) }()
	part := &message.Part{Change: formats.TableChange{Table: b.state.Table}}
	var change *keyindex.Change
	if b.follows() {
		var err error
		if change, err = b.fill(ctx, cut, part); err != nil {
			return nil, err
		}
	}
	if b.dirty && !b.retired.Load() {
		state := b.state
		if b.copy != nil {
			state.Copy = b.copy.durable()
		}
		part.State, b.dirty = &state, false
	}
	part.Forget, part.Unpublish, b.forget, b.hide = b.forget, b.hide, nil, nil
	if part.Change.Empty() && len(part.Segments) == 0 && part.State == nil && len(part.Forget) == 0 {
		return nil, nil // then the change is empty too
	}
	if change != nil {
		b.index.Stage(change)
		part.Committed = b.commitSettled(part.Committed)
	}
	aside := b.state
	part.Failed = func(err error) *formats.TableState { return b.failed(aside, err) }
	return part, nil
}

// fill moves the cut's gathered changes into the part, and gives what they do to the key index.
func (b *Batcher) fill(ctx context.Context, cut *message.Cut, part *message.Part) (*keyindex.Change, error) {
	if err := b.seal(ctx); err != nil {
		return nil, err
	}
	publish := b.copy != nil && b.copy.ready(cut.End)
	if publish {
		b.copy.settle(b)
	}
	change := b.newChange()
	if b.keyed() || b.fullRow() {
		if err := b.resolve(ctx, change); err != nil {
			return nil, err
		}
	}
	c := &part.Change
	c.Create, b.created = !b.created, true
	if c.Create {
		schema := b.state.Schema
		c.Schema, b.schema, b.dirty = &schema, nil, true
	}
	if b.schema != nil {
		c.Schema, b.schema = b.schema, nil
	}
	if b.copy == nil && b.byKey() {
		for _, at := range b.state.Schema.Key {
			part.KeyFields = append(part.KeyFields, b.state.Schema.Columns[at].Field.ID)
		}
		part.Keys, c.Keyed = b.cut.keySegments, b.cut.keyed
	}
	c.Truncate, c.Deletes, c.Add = b.cut.truncate, b.cut.deletes, b.cut.files
	for _, s := range b.cut.segments {
		part.Segments = append(part.Segments, s.segment)
	}
	if publish {
		c.Publish = true
		b.state.Phase, b.state.Copy, b.dirty = formats.Live, nil, true
		b.copying.Store(false)
		for _, gone := range b.cfg.Replaces {
			b.forget = append(b.forget, gone.ID)
			if gone.Name != b.state.Table.Name {
				b.hide = append(b.hide, gone)
			}
		}
		if b.cfg.Replaced != nil {
			b.cfg.Replaced.retired.Store(true)
		}
		part.Committed = b.committed(change, b.copy.published)
		b.copy = nil
	} else {
		part.Committed = b.committed(change, nil)
	}
	b.cut.reset()
	return change, nil
}

// committed makes the callback that moves the cut's keys into the durable index. Of cuts that share one swap only the
// last may claim the lake's new sequence number: before it the index does not hold all of it.
func (b *Batcher) committed(change *keyindex.Change, published func()) func(context.Context, bool, []formats.Rewrite) error {
	table, index, lake, held := b.state.Table, b.index, b.cfg.Lake, b.sequence
	return func(ctx context.Context, last bool, rewrites []formats.Rewrite) error {
		if last && len(rewrites) == 0 {
			*held = lake.Sequence(table)
		}
		if err := index.Commit(change, *held); err != nil {
			return err
		}
		if len(rewrites) > 0 {
			*held = lake.Sequence(table)
			if err := b.follow(ctx, index, rewrites, *held); err != nil {
				return err
			}
		}
		if published != nil {
			published()
		}
		return nil
	}
}

// byKey tells that the lake is given the keys of deleted rows.
func (b *Batcher) byKey() bool {
	return b.cfg.DeletesByKey != nil && b.cfg.DeletesByKey(&b.state.Schema)
}

// resolve turns the cut's keys into deleted positions and new index entries, and for a lake that asks for them the keys of
// rows deleted from earlier files into files. While the table is copied a key may have rows in several files,
// of which one stays: then positions alone tell which go.
func (b *Batcher) resolve(ctx context.Context, change *keyindex.Change) error {
	var look []int32
	for e := range b.cut.entries {
		if b.cut.entries[e].look {
			look = append(look, int32(e))
		}
	}
	if len(look) > 0 {
		if err := b.lookup(look); err != nil {
			return err
		}
	}
	if b.fullRow() {
		return b.resolveByContent(change)
	}
	var keys *keyFiles
	if b.copy == nil && b.byKey() {
		keys = b.newKeyFiles()
	}
	for e := range b.cut.entries {
		entry := &b.cut.entries[e]
		key := b.cut.key(int32(e))
		if keys != nil && len(entry.base) > 0 {
			if err := keys.add(ctx, key, entry.base); err != nil {
				return err
			}
		}
		if entry.look && len(entry.base) == 0 && entry.at == nowhere && b.copy == nil {
			b.counts.Missing.Add(1)
		}
		for _, p := range entry.base {
			b.cut.deleteAt(b.files[p.File].path, p.Row)
			change.Remove(key, p)
		}
		if entry.at != nowhere {
			change.Put(key, keyindex.Position{File: b.cut.segments[entry.at.segment].file, Row: entry.at.row})
		}
	}
	if keys != nil {
		return keys.finish(ctx)
	}
	return nil
}

// resolveByContent removes, for each deleted row, exactly one row that equals it: one of the lake's, else one of this
// cut's own.
func (b *Batcher) resolveByContent(change *keyindex.Change) error {
	for e := range b.cut.entries {
		entry := &b.cut.entries[e]
		key := b.cut.key(int32(e))
		for _, p := range entry.base[:min(int(entry.deletes), len(entry.base))] {
			b.cut.deleteAt(b.files[p.File].path, p.Row)
			change.Remove(key, p)
			entry.deletes--
		}
	}
	for _, s := range b.cut.segments {
		for row, e := range s.entries {
			at := keyindex.Position{File: s.file, Row: uint32(row)}
			if entry := &b.cut.entries[e]; entry.deletes > 0 {
				entry.deletes--
				b.cut.deleteAt(s.path, at.Row)
				continue
			}
			if b.gone(s.path, at.Row) {
				continue
			}
			change.Put(b.cut.key(e), at)
		}
	}
	for e := range b.cut.entries {
		if n := b.cut.entries[e].deletes; n > 0 {
			b.counts.Missing.Add(int64(n))
		}
	}
	return nil
}

// gone tells that a row of this cut has been taken out already.
func (b *Batcher) gone(path string, row uint32) bool {
	bitmap := b.cut.deletes[path]
	return bitmap != nil && bitmap.Contains(row)
}

// truncate empties the table at this place in the stream.
func (b *Batcher) truncate(m *message.Truncate) {
	if !b.follows() {
		return
	}
	if b.copy != nil && (!b.copy.accepts(message.Transaction{XID: m.XID, Commit: m.Commit}) || b.copy.visible != nil && b.copy.visible(m.XID)) {
		return
	}
	b.open.drop(b)
	b.cut.reset()
	b.cut.truncate = true
	b.files = fileSet{}
	if b.copy != nil {
		b.copy.truncated()
		b.dirty = true
	}
}

// failed is called by the committer when a segment of an answered part could not be written because of its values.
func (b *Batcher) failed(state formats.TableState, err error) *formats.TableState {
	reason := b.reason(err)
	b.aside.CompareAndSwap(nil, &reason)
	b.copying.Store(false)
	if b.cfg.OnSetAside != nil {
		b.cfg.OnSetAside(reason, false)
	}
	state.SetAside = reason
	return &state
}
