package iceberg

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/iceberg-go"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
)

// keySet holds the keys of some equality delete files, in the encoding of formats/types: equal where the lake's values
// are, also between a type and the one that it was promoted to.
type keySet struct {
	schema *formats.Schema
	groups []*keyGroup
	// count and bytes are those of all keys.
	count int
	bytes int64
}

// keyGroup are the keys over the same columns.
type keyGroup struct {
	ids    []int
	fields []types.Field
	// first gives a key's last place in the chain of the delete files that hold it: number is the file's, next the place
	// before, -1 at the end.
	first  map[string]int32
	number []uint32
	next   []int32
}

func newKeySet(schema *formats.Schema) *keySet { return &keySet{schema: schema} }

// group finds or makes the group of a delete file.
func (k *keySet) group(f iceberg.DataFile) (*keyGroup, error) {
	ids := f.EqualityFieldIDs()
	if len(ids) == 0 {
		return nil, fmt.Errorf("equality delete file %s names no columns", f.FilePath())
	}
	for _, g := range k.groups {
		if slices.Equal(g.ids, ids) {
			return g, nil
		}
	}
	g := &keyGroup{ids: ids, first: map[string]int32{}}
	for _, id := range ids {
		at := slices.IndexFunc(k.schema.Columns, func(c formats.Column) bool { return c.ID == id })
		if at < 0 {
			return nil, fmt.Errorf("equality delete file %s compares the column with field id %d, which the table does not have", f.FilePath(), id)
		}
		g.fields = append(g.fields, k.schema.Columns[at].Field)
	}
	k.groups = append(k.groups, g)
	return g, nil
}

// load adds the keys of a delete file.
func (k *keySet) load(ctx context.Context, store storage.Store, number uint32, f iceberg.DataFile) error {
	g, err := k.group(f)
	if err != nil {
		return err
	}
	err = eachKey(ctx, store, k.schema, f.FilePath(), g.fields, func(_ uint32, key []byte) {
		before, ok := g.first[string(key)]
		if !ok {
			before = -1
		}
		g.first[string(key)] = int32(len(g.number))
		g.number, g.next = append(g.number, number), append(g.next, before)
		k.count++
		k.bytes += int64(len(key))
	})
	if err != nil {
		return fmt.Errorf("equality delete file %s: %w", f.FilePath(), err)
	}
	return nil
}

// find adds the rows of a data file that have keys of the given delete files to found, by delete file.
func (k *keySet) find(ctx context.Context, store storage.Store, path string, numbers *roaring.Bitmap, found map[uint32]*roaring.Bitmap) error {
	for _, g := range k.groups {
		err := eachKey(ctx, store, k.schema, path, g.fields, func(row uint32, key []byte) {
			at, ok := g.first[string(key)]
			if !ok {
				return
			}
			for ; at >= 0; at = g.next[at] {
				n := g.number[at]
				if !numbers.Contains(n) {
					continue
				}
				if found[n] == nil {
					found[n] = roaring.New()
				}
				found[n].Add(row)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachKey calls f with the key of each row of a file, in order; the key is f's for the call.
func eachKey(ctx context.Context, store storage.Store, schema *formats.Schema, path string, fields []types.Field, f func(row uint32, key []byte)) error {
	file, done, err := openWithDefaults(ctx, store, schema, path)
	if err != nil {
		return err
	}
	defer done()
	var key []byte
	row := uint32(0)
	for batch, err := range file.Batches(ctx, fields) {
		if err != nil {
			return err
		}
		for i := range int(batch.NumRows()) {
			key = key[:0]
			for c := range fields {
				if key, err = types.AppendKeyValue(key, fields[c].Type, batch.Column(c), i); err != nil {
					batch.Release()
					return err
				}
			}
			f(row, key)
			row++
		}
		batch.Release()
	}
	return nil
}

// openWithDefaults opens a data file whose missing columns read what their defaults say; done closes it.
func openWithDefaults(ctx context.Context, store storage.Store, schema *formats.Schema, path string) (file *parquet.File, done func(), err error) {
	object, err := store.Open(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	if file, err = parquet.Open(ctx, object); err != nil {
		return nil, nil, err
	}
	defaults, release, err := schema.Defaults()
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	file.SetDefaults(defaults)
	return file, func() { file.Close(); release() }, nil
}

// less compares two bounds in Iceberg's single-value serialization (table spec, appendix D), which may be of the type
// that the column was promoted from. It is false when one is missing or the kind has no order here.
func less(kind types.Kind, a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	switch kind {
	case types.Int, types.Long, types.Date, types.Time, types.Timestamp, types.TimestampTZ:
		x, okX := littleEndian(a)
		y, okY := littleEndian(b)
		return okX && okY && x < y
	case types.Decimal:
		return lessWide(a, b)
	case types.Boolean, types.UUID, types.String, types.JSON, types.Interval, types.Binary:
		return bytes.Compare(a, b) < 0
	}
	return false
}

func littleEndian(b []byte) (int64, bool) {
	switch len(b) {
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b))), true
	case 8:
		return int64(binary.LittleEndian.Uint64(b)), true
	}
	return 0, false
}

// lessWide compares big-endian numbers in two's complement.
func lessWide(a, b []byte) bool {
	negative := a[0]&0x80 != 0
	if negative != (b[0]&0x80 != 0) {
		return negative
	}
	n := max(len(a), len(b))
	return bytes.Compare(extend(a, n), extend(b, n)) < 0
}

// extend makes a number of two's complement n bytes long.
func extend(b []byte, n int) []byte {
	if len(b) == n {
		return b
	}
	fill := byte(0)
	if b[0]&0x80 != 0 {
		fill = 0xff
	}
	return append(bytes.Repeat([]byte{fill}, n-len(b)), b...)
}
