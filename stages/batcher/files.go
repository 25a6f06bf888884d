package batcher

import (
	"context"
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/keyindex"
	"github.com/streambed/streambed/stages/message"
)

// file is a data file that holds rows of the table, committed or on its way.
type file struct {
	path string
	// dead are the positions that were deleted when the batcher started. The index may still name them after a crash;
	// those deleted since have left the index.
	dead    *roaring.Bitmap
	segment *message.Segment
}

// pending gives the segment that becomes the file while it is not stored.
func (f *file) pending() *message.Segment {
	if f.segment != nil && f.segment.Stored() {
		f.segment = nil
	}
	return f.segment
}

// fileSet is the table's files by keyindex.FileID. Index entries of other files are leftovers and ignored.
type fileSet map[uint64]*file

func (s fileSet) add(path string, segment *message.Segment) {
	s[keyindex.FileID(path)] = &file{path: path, segment: segment}
}

func (s fileSet) live(p keyindex.Position) bool {
	f := s[p.File]
	return f != nil && (f.dead == nil || !f.dead.Contains(p.Row))
}

// recover brings the batcher's view of the table, and the key index, to what the lake holds: the index may be behind
// after a crash, or lost.
func (b *Batcher) recover(ctx context.Context) error {
	b.index = b.cfg.Index.Table(b.state.Table.ID)
	b.index.Abandon()
	indexed := (b.keyed() || b.fullRow()) && b.state.SetAside == ""
	held, known, err := b.index.Sequence()
	if err != nil {
		return err
	}
	since := held // what was deleted up to there has left the index
	if !indexed {
		since = math.MaxInt64
	}
	live, sequence, err := b.cfg.Lake.Files(ctx, b.state.Table, since)
	if err != nil {
		return err
	}
	if indexed && (!known || held > sequence) { // ahead of the lake: not of this lake at all
		if held > 0 {
			if live, sequence, err = b.cfg.Lake.Files(ctx, b.state.Table, 0); err != nil {
				return err
			}
		}
		if err := b.index.Reset(0); err != nil {
			return err
		}
		held = 0
	}
	b.created = sequence > 0 || b.cfg.Lake.Exists(b.state.Table)
	b.sequence = &sequence
	b.files = make(fileSet, len(live))
	for _, f := range live {
		b.files[keyindex.FileID(f.Path)] = &file{path: f.Path, dead: f.Deleted}
	}
	if b.state.Phase == formats.Copying {
		b.copy = newCopyState(b.state.Copy)
		b.copy.pending = !b.keyed()
	}
	if !indexed {
		return nil
	}
	for _, f := range live {
		isStream := strings.HasPrefix(path.Base(f.Path), "stream-")
		touched := b.copy != nil && isStream // keys that the stream has written win over copied rows
		if f.Sequence <= held && !touched {
			continue
		}
		if err := b.reindex(ctx, f, f.Sequence > held, touched); err != nil {
			return fmt.Errorf("rebuilding the key index from %s: %w", f.Path, err)
		}
	}
	if b.copy != nil {
		if err := b.copy.restore(b); err != nil {
			return err
		}
	}
	if held == sequence {
		return nil
	}
	change := b.index.NewChange()
	b.index.Stage(change)
	return b.index.Commit(change, sequence)
}

// reindexRows bounds the keys that are gathered before they go into the index.
const reindexRows = 1 << 20

// reindex reads the keys of a data file's live rows, for the index and for the set of keys that the stream has touched.
func (b *Batcher) reindex(ctx context.Context, f formats.LiveFile, index, touched bool) error {
	entries := keyindex.NewEntries()
	at := keyindex.Position{File: keyindex.FileID(f.Path)}
	err := b.keys(ctx, f.Path, func(key []byte) error {
		if f.Deleted == nil || !f.Deleted.Contains(at.Row) {
			if index {
				entries.Add(key, at)
			}
			if touched {
				b.copy.touch(key)
			}
		}
		at.Row++
		if entries.Len() < reindexRows {
			return nil
		}
		defer entries.Reset()
		return b.index.Ingest(entries)
	})
	if err != nil || entries.Len() == 0 {
		return err
	}
	return b.index.Ingest(entries)
}
