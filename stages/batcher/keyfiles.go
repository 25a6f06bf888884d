package batcher

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats/keyindex"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/uploader"
)

// keyFileBytes is the size of encoded keys, in bytes, that go into one file. The uploaders' queue bounds how many of
// them wait at once.
const keyFileBytes = 2 << 20

// keyFiles collects the keys of rows that a cut deletes from earlier files, and sends them to the uploaders.
type keyFiles struct {
	b      *Batcher
	part   *message.Part
	fields []types.Field
	keys   *uploader.Keys
}

func (b *Batcher) newKeyFiles(part *message.Part) *keyFiles {
	k := &keyFiles{b: b, part: part}
	for _, at := range b.state.Schema.Key {
		field := b.state.Schema.Columns[at].Field
		k.fields = append(k.fields, field)
		part.KeyFields = append(part.KeyFields, field.ID)
	}
	return k
}

// add takes a key and notes the rows that it deletes, all that earlier files hold of it.
func (k *keyFiles) add(ctx context.Context, key []byte, rows []keyindex.Position) error {
	if k.keys == nil {
		k.keys = &uploader.Keys{Fields: k.fields}
	}
	k.keys.Add(key)
	c := &k.part.Change
	for _, p := range rows {
		if c.Keyed == nil {
			c.Keyed = map[string]*roaring.Bitmap{}
		}
		path := k.b.files[p.File].path
		bitmap := c.Keyed[path]
		if bitmap == nil {
			bitmap = roaring.New()
			c.Keyed[path] = bitmap
		}
		bitmap.Add(p.Row)
	}
	if len(k.keys.Bytes) < keyFileBytes {
		return nil
	}
	return k.finish(ctx)
}

// finish sends on what has been collected.
func (k *keyFiles) finish(ctx context.Context) error {
	if k.keys == nil {
		return nil
	}
	job := &uploader.Job{Segment: message.NewSegment(), Keys: k.keys, Release: func() {},
		Path: fmt.Sprintf("%s/data/keys-%s.parquet", k.b.state.Table.Location, uuid.NewString())}
	k.part.Keys, k.keys = append(k.part.Keys, job.Segment), nil
	return k.b.cfg.Pool.Submit(ctx, job)
}
