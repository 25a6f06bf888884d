package conformance

import (
	"bytes"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/types"
)

// addKeys gives each change the keys of the rows that it deletes from files of earlier checkpoints, as the pipeline does
// for a lake that asks for them.
func (p *pipeline) addKeys(cp *formats.Checkpoint) {
	p.Helper()
	asks, ok := p.lake.(formats.KeyDeleter)
	if !ok {
		return
	}
	for i := range cp.Changes {
		ch := &cp.Changes[i]
		if !asks.DeletesByKey(ch.Table.Name, NewSchema()) {
			continue
		}
		var keys []int64
		ch.Keyed = map[string]*roaring.Bitmap{}
		for path, rows := range ch.Deletes {
			if slices.ContainsFunc(ch.Add, func(f formats.DataFile) bool { return f.Path == path }) {
				continue
			}
			ch.Keyed[path] = rows
			EachRow(p, p.setup.Store, path, NewSchema(), nil, func(position uint32, key int64, _ Row) {
				if rows.Contains(position) {
					keys = append(keys, key)
				}
			})
		}
		if len(keys) > 0 {
			ch.Keys = []formats.KeyFile{p.keyFile(ch.Table, keys)}
		}
	}
}

func (p *pipeline) keyFile(ref formats.TableRef, keys []int64) formats.KeyFile {
	p.Helper()
	fields := []types.Field{NewSchema().Columns[0].Field}
	b := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(fields))
	b.Field(0).(*array.Int64Builder).AppendValues(keys, nil)
	f := formats.KeyFile{DataFile: formats.DataFile{Path: ref.Location + "/data/keys-" + uuid.NewString() + ".parquet"}, Fields: []int{keyField}}
	var body bytes.Buffer
	w, err := parquet.NewWriter(&body, fields, parquet.Options{})
	if err == nil {
		err = w.Write(b.NewRecordBatch())
	}
	if err == nil {
		f.Rows, f.Size, f.Stats, err = w.Close()
	}
	if err == nil {
		err = p.setup.Store.Put(p.ctx, f.Path, body.Bytes())
	}
	if err != nil {
		p.Fatal(err)
	}
	return f
}
