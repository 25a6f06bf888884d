package batcher

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/keyindex"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/types"
)

// moves follows rows from files that a commit replaced.
type moves map[uint64]formats.Rewrite

func movesOf(rewrites []formats.Rewrite) moves {
	m := moves{}
	for _, r := range rewrites {
		m[keyindex.FileID(r.Old)] = r
	}
	return m
}

// to gives a row's new position; a row that was deleted has none and keeps its old one.
func (m moves) to(p keyindex.Position) (keyindex.Position, bool) {
	r, ok := m[p.File]
	if !ok {
		return p, false
	}
	row, ok := r.Row(p.Row)
	if !ok {
		return p, false
	}
	return keyindex.Position{File: keyindex.FileID(r.New), Row: row}, true
}

// follow brings the batcher and the index to where a commit moved rows (copy-on-write, compaction). It runs in the actor,
// so that no lookup sees one half of it.
func (b *Batcher) follow(ctx context.Context, index *keyindex.Table, rewrites []formats.Rewrite, sequence int64) error {
	return b.do(ctx, func(ctx context.Context) error {
		moved := movesOf(rewrites)
		byNew := map[string][]formats.Rewrite{}
		for _, r := range rewrites {
			if r.New != "" {
				byNew[r.New] = append(byNew[r.New], r)
			}
		}
		change := index.NewChange()
		for path, from := range byNew {
			b.files.add(path, nil)
			if !b.keyed() && !b.fullRow() {
				continue
			}
			if err := b.reindexMoved(ctx, change, path, from); err != nil {
				return fmt.Errorf("following rows that moved to %s: %w", path, err)
			}
		}
		b.followDeletes(rewrites, moved)
		for e := range b.cut.entries {
			base := b.cut.entries[e].base
			for i, p := range base {
				base[i], _ = moved.to(p)
			}
		}
		if err := index.CommitBeneath(change, sequence, moved.to); err != nil {
			return err
		}
		for _, r := range rewrites {
			delete(b.files, keyindex.FileID(r.Old))
		}
		return nil
	})
}

// Moved is told by maintenance that rows of an incarnation have moved; it does nothing when that is not the batcher's. The
// committer runs it between two checkpoints, so the index holds all that the lake did before.
func (b *Batcher) Moved(ctx context.Context, table formats.TableRef, rewrites []formats.Rewrite) error {
	mine := false
	var index *keyindex.Table
	var held *int64
	if err := b.do(ctx, func(context.Context) error {
		mine = b.state.Table.ID == table.ID && b.SetAside() == "" && !b.retired.Load()
		index, held = b.index, b.sequence
		return nil
	}); err != nil || !mine {
		return err
	}
	*held = b.cfg.Lake.Sequence(table)
	return b.follow(ctx, index, rewrites, *held)
}

// reindexMoved reads the keys of a file that others were joined into, and notes where each row was and is.
func (b *Batcher) reindexMoved(ctx context.Context, change *keyindex.Change, path string, from []formats.Rewrite) error {
	slices.SortFunc(from, func(a, b formats.Rewrite) int { return int(int64(a.Offset) - int64(b.Offset)) })
	file := keyindex.FileID(path)
	if from[0].Order != nil {
		return b.reindexSorted(ctx, change, path, from)
	}
	var row uint32
	part := -1
	var was keyindex.Position
	end := uint32(0)
	return b.keys(ctx, path, func(key []byte) error {
		for part < 0 || row >= end {
			part++
			if part >= len(from) {
				return fmt.Errorf("it has more rows than were moved to it")
			}
			was = keyindex.Position{File: keyindex.FileID(from[part].Old)}
			end = math.MaxUint32
			if part+1 < len(from) {
				end = from[part+1].Offset
			}
		}
		for from[part].Deleted != nil && from[part].Deleted.Contains(was.Row) {
			was.Row++
		}
		change.Remove(key, was)
		if dead := from[part].Dead; dead == nil || !dead.Contains(row) {
			change.Put(key, keyindex.Position{File: file, Row: row})
		}
		was.Row++
		row++
		return nil
	})
}

// reindexSorted is reindexMoved for a file whose rows were sorted anew.
func (b *Batcher) reindexSorted(ctx context.Context, change *keyindex.Change, path string, from []formats.Rewrite) error {
	order := from[0].Order
	was := make([]keyindex.Position, len(order))
	for i, r := range from {
		end := uint32(len(order))
		if i+1 < len(from) {
			end = from[i+1].Offset
		}
		old := keyindex.Position{File: keyindex.FileID(r.Old)}
		for at := r.Offset; at < end; at++ {
			for r.Deleted != nil && r.Deleted.Contains(old.Row) {
				old.Row++
			}
			was[order[at]] = old
			old.Row++
		}
	}
	at := keyindex.Position{File: keyindex.FileID(path)}
	return b.keys(ctx, path, func(key []byte) error {
		if int(at.Row) >= len(was) {
			return fmt.Errorf("it has more rows than were moved to it")
		}
		change.Remove(key, was[at.Row])
		if dead := from[0].Dead; dead == nil || !dead.Contains(at.Row) {
			change.Put(key, at)
		}
		at.Row++
		return nil
	})
}

// keys calls f with the key of each row of a stored file, in order; the key is f's for the call.
func (b *Batcher) keys(ctx context.Context, path string, f func(key []byte) error) error {
	object, err := b.cfg.Store.Open(ctx, path)
	if err != nil {
		return err
	}
	reader, err := parquet.Open(ctx, object)
	if err != nil {
		return err
	}
	defer reader.Close()
	columns := b.state.Schema.Key
	if b.fullRow() {
		columns = nil
		for i := range b.state.Schema.Columns {
			columns = append(columns, i)
		}
	}
	fields := make([]types.Field, len(columns))
	for i, c := range columns {
		fields[i] = b.state.Schema.Columns[c].Field
	}
	var key []byte
	for record, err := range reader.Batches(ctx, fields) {
		if err != nil {
			return err
		}
		for i := range int(record.NumRows()) {
			key = key[:0]
			for c := range fields {
				if key, err = types.AppendKeyValue(key, fields[c].Type, record.Column(c), i); err != nil {
					break
				}
			}
			if err == nil {
				err = f(key)
			}
			if err != nil {
				record.Release()
				return err
			}
		}
		record.Release()
	}
	return nil
}
