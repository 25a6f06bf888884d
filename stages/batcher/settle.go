package batcher

import (
	"context"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/keyindex"
)

// entryBytes is about what a key of the cut takes: its entry, its place in the key map, and what it is found at.
const entryBytes = 128

// settleWhenLarge keeps what the cut knows of its keys within bounds, however many rows a transaction changes (promise 6):
// it goes over into a change of the key index, which moves to disk when it is large. Later changes of a key in the same
// cut then find its row there, as they find one of an earlier cut. sealed tells that nothing waits in the open segment, so
// that settling makes no file smaller.
func (b *Batcher) settleWhenLarge(ctx context.Context, sealed bool) error {
	limit := b.cfg.Keys
	if limit <= 0 {
		limit = int(b.cfg.SegmentBytes / entryBytes)
	}
	if n := len(b.cut.entries); n < limit && !(sealed && n >= limit/2) || n == 0 {
		return nil
	}
	// Rows that are found by content need the whole cut at once; so does a copy.
	if !b.keyed() || b.copy != nil {
		return nil
	}
	if err := b.seal(ctx); err != nil {
		return err
	}
	change := b.newChange()
	if err := b.resolve(ctx, change); err != nil {
		return err
	}
	b.index.Stage(change)
	b.settled = append(b.settled, change)
	b.cut.forgetKeys()
	return nil
}

// newChange makes a change of the index that begins where the cut's last one ended.
func (b *Batcher) newChange() *keyindex.Change {
	change := b.index.NewChange()
	if b.cut.truncate && !b.cut.cleared {
		change.Clear()
		b.cut.cleared = true
	}
	return change
}

// commitSettled makes what was settled before a part durable in the index, before the part's own change. It does not
// claim the part's sequence number yet: after a crash in between, the part's files are read into the index again.
func (b *Batcher) commitSettled(then func(context.Context, bool, []formats.Rewrite) error) func(context.Context, bool, []formats.Rewrite) error {
	settled, index, held := b.settled, b.index, b.sequence
	b.settled = nil
	return func(ctx context.Context, last bool, rewrites []formats.Rewrite) error {
		for len(settled) > 0 {
			if err := index.Commit(settled[0], *held); err != nil {
				return err
			}
			settled = settled[1:]
		}
		return then(ctx, last, rewrites)
	}
}

// followDeletes moves deletes that wait for their cut to where a commit has moved their rows.
func (b *Batcher) followDeletes(rewrites []formats.Rewrite, moved moves) {
	for _, deletes := range []*map[string]*roaring.Bitmap{&b.cut.deletes, &b.cut.keyed} {
		for _, r := range rewrites {
			rows := (*deletes)[r.Old]
			if rows == nil || r.New == "" {
				continue
			}
			delete(*deletes, r.Old)
			rows.Iterate(func(row uint32) bool {
				if to, ok := moved.to(keyindex.Position{File: keyindex.FileID(r.Old), Row: row}); ok {
					deleteFrom(deletes, r.New, to.Row)
				}
				return true
			})
		}
	}
}
