package batcher

import (
	"context"
	"fmt"

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
	fields []types.Field
	keys   *uploader.Keys
	// own are the cut's files: their rows are removed by position, since a key reaches only rows of earlier cuts.
	own map[uint64]bool
}

func (b *Batcher) newKeyFiles() *keyFiles {
	k := &keyFiles{b: b, own: make(map[uint64]bool, len(b.cut.segments))}
	for _, at := range b.state.Schema.Key {
		k.fields = append(k.fields, b.state.Schema.Columns[at].Field)
	}
	for _, s := range b.cut.segments {
		k.own[s.file] = true
	}
	return k
}

// add takes a key and notes the rows that it deletes, all that earlier files hold of it.
func (k *keyFiles) add(ctx context.Context, key []byte, rows []keyindex.Position) error {
	earlier := false
	for _, p := range rows {
		if k.own[p.File] {
			continue
		}
		earlier = true
		deleteFrom(&k.b.cut.keyed, k.b.files[p.File].path, p.Row)
	}
	if !earlier {
		return nil
	}
	if k.keys == nil {
		k.keys = &uploader.Keys{Fields: k.fields}
	}
	k.keys.Add(key)
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
	k.b.cut.keySegments, k.keys = append(k.b.cut.keySegments, job.Segment), nil
	return k.b.cfg.Pool.Submit(ctx, job)
}
