package batcher

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/keyindex"
	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/rows"
)

// copyState is what the batcher knows while its table is being copied (design section 5). The stream's changes and the
// copied rows meet here, in a table that no reader sees yet.
//
// With a key: a key that the stream has touched is the stream's; a copied row with it is dropped, and a change removes
// every copied row with its key. So the order in which chunks and changes arrive does not matter.
//
// Without one: all chunks are read under one snapshot. Changes of transactions that the snapshot sees are dropped, all
// others applied; deletes are owed until the last chunk is in, since the row may not have been read yet.
type copyState struct {
	durableState formats.CopyState
	streamed     *keyindex.KeyMap
	// unresolved are keys whose newest change left a TOAST value out that nobody has read yet, by encoded key.
	unresolved map[string]UnresolvedKey
	generation int64

	// pending is true until the snapshot of a keyless copy is known; visible then tells which transactions it holds.
	pending   bool
	visible   func(xid uint32) bool
	ambiguous []ambiguousFile
	owed      []owedDelete

	// broken tells that rows were dropped which the copy cannot do without: it must begin anew.
	broken    bool
	finishing bool
	high      lsn.LSN
	done      chan struct{}
}

type xidRun struct {
	xid      uint32
	from, to uint32
}

// ambiguousFile holds rows of transactions that may turn out to be part of the copy's snapshot.
type ambiguousFile struct {
	path string
	runs []xidRun
}

// UnresolvedKey is a row that has to be read from the source by its key.
type UnresolvedKey struct {
	// Tuple holds the key's columns as TupleData.
	Tuple []byte
	// Generation tells the change that left it open from later ones: a row read before a later change is no answer.
	Generation int64
}

type owedDelete struct {
	key []byte
	xid uint32
}

func addRun(runs []xidRun, xid, row uint32) []xidRun {
	if n := len(runs); n > 0 && runs[n-1].xid == xid && runs[n-1].to == row {
		runs[n-1].to++
		return runs
	}
	return append(runs, xidRun{xid: xid, from: row, to: row + 1})
}

func newCopyState(durable *formats.CopyState) *copyState {
	c := &copyState{streamed: keyindex.NewKeyMap(0), unresolved: map[string]UnresolvedKey{}, done: make(chan struct{})}
	if durable != nil {
		c.durableState = *durable
	}
	return c
}

// durable gives the copy's progress for the state row.
func (c *copyState) durable() *formats.CopyState {
	state := c.durableState
	state.Relations = append([]formats.CopyRelation(nil), state.Relations...)
	for i := range state.Relations {
		state.Relations[i].Done = append([]formats.PageRange(nil), state.Relations[i].Done...)
	}
	state.Unresolved = nil
	for _, u := range c.unresolved {
		state.Unresolved = append(state.Unresolved, u.Tuple)
	}
	return &state
}

// restore takes over what an earlier run left: unresolved keys stay the stream's.
func (c *copyState) restore(b *Batcher) error {
	for _, tuple := range c.durableState.Unresolved {
		key, err := b.keyOfKeyTuple(tuple)
		if err != nil {
			return err
		}
		c.leave(string(key), tuple)
		c.touch(key)
	}
	return nil
}

// accepts tells whether a transaction's changes are taken in: one that committed before the copy's low position is seen
// by every snapshot that the copy reads under, since it waits for what was open then.
func (c *copyState) accepts(t message.Transaction) bool {
	return c.durableState.Low != 0 && t.Commit >= c.durableState.Low
}

func (c *copyState) snapshotPending() bool { return c.pending }

// touched notes that the stream has written the entry's key.
func (c *copyState) touched(b *Batcher, e int32) {
	key := b.cut.key(e)
	c.touch(key)
	if len(c.unresolved) > 0 {
		if _, ok := c.unresolved[string(key)]; ok {
			delete(c.unresolved, string(key)) // this change settles it, or puts it back when sealed
			b.dirty = true
		}
	}
}

func (c *copyState) touch(key []byte) { c.streamed.Put(key, 0) }

// leaveUnresolved notes the key of a row whose unchanged values nobody has read yet.
func (c *copyState) leaveUnresolved(b *Batcher, r *openRow) error {
	if !b.keyed() {
		return tableError("a row came with unchanged TOAST values and without the old row")
	}
	values, err := message.Columns(r.tuple, nil)
	if err != nil {
		return tableError("%w", err)
	}
	tuple, err := b.layoutOfOpen().KeyTuple(values)
	if err != nil {
		return tableError("%w", err)
	}
	c.leave(string(b.cut.key(r.entry)), tuple)
	b.dirty = true
	return nil
}

func (c *copyState) leave(key string, tuple []byte) {
	c.generation++
	c.unresolved[key] = UnresolvedKey{Tuple: tuple, Generation: c.generation}
}

func (b *Batcher) layoutOfOpen() *rows.Layout {
	if b.open.layout != nil {
		return b.open.layout
	}
	return b.layout
}

func (c *copyState) owe(key []byte, xid uint32) {
	c.owed = append(c.owed, owedDelete{key: bytes.Clone(key), xid: xid})
}

// truncated forgets what was copied and streamed so far.
func (c *copyState) truncated() {
	c.streamed = keyindex.NewKeyMap(0)
	c.unresolved = map[string]UnresolvedKey{}
	c.ambiguous, c.owed = nil, nil
}

// ready tells that the copy is whole at a cut.
func (c *copyState) ready(end lsn.LSN) bool {
	return c.finishing && end >= c.high && len(c.unresolved) == 0
}

// settle turns owed deletes into the cut's: every chunk is in.
func (c *copyState) settle(b *Batcher) {
	for _, d := range c.owed {
		e, _ := b.cut.entry(d.key)
		b.cut.entries[e].deletes++
		b.cut.entries[e].look = true
	}
	c.owed = nil
}

func (c *copyState) published() { close(c.done) }

// CopyKeys are the keys of a copied file's rows, row by row, in flat memory.
type CopyKeys struct {
	Bytes []byte
	Ends  []uint32
}

// Add appends the next row's key.
func (k *CopyKeys) Add(key []byte) {
	k.Bytes = append(k.Bytes, key...)
	k.Ends = append(k.Ends, uint32(len(k.Bytes)))
}

// At gives the key of a row; it shares the memory.
func (k *CopyKeys) At(row int) []byte {
	from := uint32(0)
	if row > 0 {
		from = k.Ends[row-1]
	}
	return k.Bytes[from:k.Ends[row]]
}

// CopyFile is a stored data file of a copy.
type CopyFile struct {
	// Incarnation is the one that the copy was for; a file of an older one is dropped.
	Incarnation string
	File        formats.DataFile
	// Keys is empty for tables whose rows have none.
	Keys CopyKeys
	// Done are the page ranges, by relation OID, whose last rows are in this file.
	Done map[uint32][]formats.PageRange
	// Rows and Bytes were read from the source for it.
	Rows, Bytes int64
	// Resolved are the unresolved keys that the rows were read for, the same in all files handed over together; nil for
	// rows of page ranges.
	Resolved []UnresolvedKey
}

// TakeCopyFiles adds files of the copy, all to the same part. It blocks until the batcher has taken them, or ctx ends.
func (b *Batcher) TakeCopyFiles(ctx context.Context, files []*CopyFile) error {
	return b.do(ctx, func(context.Context) error {
		if b.copy == nil || b.SetAside() != "" || files[0].Incarnation != b.state.Table.ID {
			return nil
		}
		if b.copy.broken {
			return ErrRestart
		}
		open, err := b.copy.stillOpen(b, files[0].Resolved)
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := b.takeCopyFile(f, open); err != nil {
				return err
			}
		}
		for key := range open { // also those that the source no longer has
			delete(b.copy.unresolved, key)
		}
		return nil
	})
}

// CopyProgress gives the incarnation being copied and how far it is; no relations when the copy has not begun. created
// tells that the lake holds, or is about to hold, the incarnation: perhaps with rows of the stream, also before the copy
// has begun; broken that the copy must begin anew, as another incarnation.
func (b *Batcher) CopyProgress(ctx context.Context) (state formats.TableState, progress formats.CopyState, created, broken bool, err error) {
	err = b.do(ctx, func(context.Context) error {
		state, created = b.state, b.created
		if b.copy != nil {
			progress, broken = *b.copy.durable(), b.copy.broken
		}
		return nil
	})
	return state, progress, created, broken, err
}

func (b *Batcher) takeCopyFile(f *CopyFile, open map[string]bool) error {
	c := b.copy
	if f.File.Rows > 0 {
		b.files.add(f.File.Path, nil)
		entries := keyindex.NewEntries()
		file := keyindex.FileID(f.File.Path)
		from := uint32(0)
		for row, end := range f.Keys.Ends {
			key := f.Keys.Bytes[from:end]
			from = end
			if b.keyed() && !c.takes(key, f.Resolved != nil, open) {
				b.cut.deleteAt(f.File.Path, uint32(row))
				continue
			}
			entries.Add(key, keyindex.Position{File: file, Row: uint32(row)})
		}
		if entries.Len() > 0 {
			if err := b.index.Ingest(entries); err != nil {
				return err
			}
		}
		b.cut.files = append(b.cut.files, f.File)
	}
	c.durableState.Rows += f.Rows
	c.durableState.Bytes += f.Bytes
	for i := range c.durableState.Relations {
		r := &c.durableState.Relations[i]
		r.Done = formats.MergePages(r.Done, f.Done[r.OID]...)
	}
	b.counts.Copied.Add(f.Rows)
	b.dirty = true
	return nil
}

// stillOpen gives the keys among those read that no later change has settled or left open anew.
func (c *copyState) stillOpen(b *Batcher, read []UnresolvedKey) (map[string]bool, error) {
	open := map[string]bool{}
	for _, u := range read {
		key, err := b.keyOfKeyTuple(u.Tuple)
		if err != nil {
			return nil, err
		}
		if held, ok := c.unresolved[string(key)]; ok && held.Generation == u.Generation {
			open[string(key)] = true
		}
	}
	return open, nil
}

// takes tells whether a copied row with this key belongs to the table: the stream's own rows win, but for keys that were
// read because the stream could not tell their values.
func (c *copyState) takes(key []byte, resolved bool, open map[string]bool) bool {
	if resolved {
		return open[string(key)]
	}
	_, streamed := c.streamed.Get(key)
	return !streamed
}

// keyOfKeyTuple encodes the key of a tuple that holds the key's columns alone.
func (b *Batcher) keyOfKeyTuple(tuple []byte) ([]byte, error) {
	schema := b.state.Schema
	names := make([]string, len(schema.Key))
	for i, k := range schema.Key {
		names[i] = schema.Columns[k].Name
	}
	layout, err := rows.NewLayout(&schema, names, b.cfg.Values)
	if err != nil {
		return nil, err
	}
	keyer, err := layout.NewKeyer()
	if err != nil {
		return nil, err
	}
	values, err := message.Columns(tuple, nil)
	if err != nil {
		return nil, err
	}
	return keyer.Append(nil, values)
}

// StartCopy begins a copy, or begins it anew as another incarnation: what was copied or streamed so far for the old one
// is given up. publication is the fingerprint under which the table is published now. keyless copies hold the stream's rows
// until SetSnapshot. It blocks until the batcher has done so.
func (b *Batcher) StartCopy(ctx context.Context, table formats.TableRef, schema formats.Schema, publication string, copied formats.CopyState, keyless bool) error {
	return b.do(ctx, func(context.Context) error {
		if b.SetAside() != "" {
			return fmt.Errorf("table %s is set aside: %s", b.name(), b.SetAside())
		}
		if table.ID != b.state.Table.ID {
			b.open.drop(b)
			b.cut.reset()
			if b.created {
				b.forget = append(b.forget, b.state.Table.ID)
			}
			sequence := int64(0)
			b.created, b.sequence, b.files = false, &sequence, fileSet{}
			b.state.Table, b.state.Schema, b.schema = table, schema, nil
			b.relation, b.layout, b.keyer = nil, nil, nil
			b.index = b.cfg.Index.Table(table.ID)
			b.copy = nil
		}
		if b.copy == nil {
			b.copy = newCopyState(nil)
		}
		b.copy.durableState = copied
		b.copy.pending, b.copy.visible = keyless, nil
		b.state.Phase, b.state.Publication, b.dirty = formats.Copying, publication, true
		b.copying.Store(true)
		return nil
	})
}

// SetSnapshot tells a keyless copy which transactions its snapshot holds: their changes are dropped, those already taken
// in too. It blocks until the batcher has done so.
func (b *Batcher) SetSnapshot(ctx context.Context, visible func(xid uint32) bool) error {
	return b.do(ctx, func(context.Context) error {
		c := b.copy
		if c == nil {
			return nil
		}
		for _, f := range c.ambiguous {
			held := b.files[keyindex.FileID(f.path)]
			for _, run := range f.runs {
				if !visible(run.xid) || held == nil {
					continue
				}
				if held.dead == nil {
					held.dead = roaring.New()
				}
				held.dead.AddRange(uint64(run.from), uint64(run.to))
				for row := run.from; row < run.to; row++ {
					b.cut.deleteAt(f.path, row)
				}
			}
		}
		for i := range b.open.rows {
			if r := &b.open.rows[i]; !r.dead && visible(r.xid) {
				r.dead = true
				b.open.alive--
			}
		}
		owed := c.owed[:0]
		for _, d := range c.owed {
			if !visible(d.xid) {
				owed = append(owed, d)
			}
		}
		c.owed, c.ambiguous, c.pending, c.visible = owed, nil, false, visible
		return nil
	})
}

// Unresolved gives the rows that have to be read by key.
func (b *Batcher) Unresolved(ctx context.Context) (keys []UnresolvedKey, err error) {
	err = b.do(ctx, func(ctx context.Context) error {
		if b.copy != nil && b.copy.broken {
			return ErrRestart
		}
		// Rows that still wait in the open segment may turn out unresolved too.
		if err := b.tolerate(b.seal(ctx)); err != nil || b.copy == nil {
			return err
		}
		for _, u := range b.copy.unresolved {
			keys = append(keys, u)
		}
		return nil
	})
	return keys, err
}

// Observe notes what the source's catalog says of the table now: its filenode, and the xmin of each column's entry by
// attnum. It is compared with later, to notice rewrites. It blocks until the batcher has taken it.
func (b *Batcher) Observe(ctx context.Context, filenode uint32, xmins map[int16]uint32) error {
	return b.do(ctx, func(context.Context) error {
		b.state.Filenode = filenode
		columns := slices.Clone(b.state.Schema.Columns)
		for i := range columns {
			if xmin, ok := xmins[columns[i].Attnum]; ok {
				columns[i].Xmin = xmin
			}
		}
		b.state.Schema.Columns = columns
		b.dirty = true
		return nil
	})
}

// State gives the table's state as the batcher has it now.
func (b *Batcher) State(ctx context.Context) (state formats.TableState, err error) {
	err = b.do(ctx, func(context.Context) error {
		state = b.state
		return nil
	})
	return state, err
}

// FinishCopy publishes the table with the first cut at or after high at which nothing is unresolved. The returned channel
// is closed when that checkpoint is durable.
func (b *Batcher) FinishCopy(ctx context.Context, high lsn.LSN) (published <-chan struct{}, err error) {
	err = b.do(ctx, func(context.Context) error {
		if b.copy == nil {
			return fmt.Errorf("table %s is not being copied", b.name())
		}
		if b.copy.broken {
			return ErrRestart
		}
		b.copy.finishing, b.copy.high = true, high
		b.copy.durableState.High = high
		published = b.copy.done
		return nil
	})
	return published, err
}
