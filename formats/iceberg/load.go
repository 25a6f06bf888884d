package iceberg

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/streambed/streambed/formats/storage"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

const dataContent = iceberg.EntryContentData

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// loaded gives an incarnation's content, reading it from the store the first time.
func (l *Lake) loaded(ctx context.Context, inc *incarnation) (*content, error) {
	inc.loading.Lock()
	defer inc.loading.Unlock()
	l.mu.Lock()
	c := inc.content
	l.mu.Unlock()
	if c != nil {
		return c, nil
	}
	pointer := inc.pointer
	if inc.published {
		current, err := l.currentPointer(ctx, inc)
		if err != nil {
			return nil, err
		}
		if current != pointer {
			l.cfg.Log.Warn("a table was changed by another writer while this pipeline was not running: going on from its version",
				zap.String("table", formatName(inc.state.Table.Name)), zap.String("metadata", current))
			pointer = current
		}
	}
	c, err := loadContent(ctx, l.cfg.Store, pointer)
	if err != nil {
		return nil, fmt.Errorf("cannot read table %s: %w", formatName(inc.state.Table.Name), err)
	}
	l.mu.Lock()
	inc.content, inc.pointer = c, pointer
	l.mu.Unlock()
	return c, nil
}

// currentPointer reads where the catalog says a published table is.
func (l *Lake) currentPointer(ctx context.Context, inc *incarnation) (string, error) {
	name := inc.state.Table.Name
	var pointer sql.NullString
	err := l.catalog.read.QueryRowContext(ctx, `SELECT metadata_location FROM iceberg_tables WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3`,
		catalogName, namespaceKey(name.Schema), name.Table).Scan(&pointer)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !pointer.Valid {
		return "", fmt.Errorf("table %s is gone from the catalog, which only Streambed may change: resync it", formatName(name))
	}
	return pointer.String, err
}

// loadContent reads a table's metadata, manifests, deletion vectors and position delete files.
func loadContent(ctx context.Context, store storage.Store, pointer string) (*content, error) {
	body, err := store.Get(ctx, pointer)
	if err != nil {
		return nil, err
	}
	md, err := decodeMetadata(pointer, body)
	if err != nil {
		return nil, err
	}
	c := newContent(md)
	current := md.meta.CurrentSnapshot()
	if current == nil {
		return c, nil
	}
	list, err := readManifestList(ctx, store, current)
	if err != nil {
		return nil, err
	}
	var byPosition []*entry
	for _, mf := range list {
		m := &manifest{file: mf, group: group{mf.ManifestContent(), mf.PartitionSpecID()}}
		entries, err := readManifest(ctx, store, mf)
		if err != nil {
			return nil, err
		}
		for _, me := range entries {
			e := &entry{file: me.DataFile(), snapshot: me.SnapshotID(), sequence: me.SequenceNum(),
				fileSequence: value(me.FileSequenceNum()), in: m}
			m.live = append(m.live, e)
			c.totals.add(e.file, 1)
			if e.file.ContentType() == iceberg.EntryContentPosDeletes {
				e.of = aboutOne(e.file)
				byPosition = append(byPosition, e)
			}
			if e.of == "" {
				c.files[e.file.FilePath()] = e
			}
		}
		c.manifests = append(c.manifests, m)
	}
	c.rows = liveRows(&c.totals, current)
	return c, c.loadPositions(ctx, store, byPosition)
}

// loadReads bounds the delete files that are read at once while a table is loaded.
const loadReads = 16

// loadPositions reads deletion vectors and position delete files.
func (c *content) loadPositions(ctx context.Context, store storage.Store, entries []*entry) error {
	found := make([]map[string]*roaring.Bitmap, len(entries))
	puffins := map[string][]int{}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(loadReads)
	for i, e := range entries {
		if isVector(e.file) {
			puffins[e.file.FilePath()] = append(puffins[e.file.FilePath()], i)
			continue
		}
		g.Go(func() (err error) {
			found[i], err = readPositions(gctx, store, e.file.FilePath())
			return err
		})
	}
	for path, of := range puffins {
		g.Go(func() error {
			object, err := store.Open(gctx, path)
			if err != nil {
				return err
			}
			defer object.Close()
			for _, i := range of {
				bits, err := readVector(object, entries[i].file)
				if err != nil {
					return err
				}
				found[i] = map[string]*roaring.Bitmap{entries[i].of: bits}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, e := range entries {
		for path, bits := range found[i] {
			// Positions count for data of their own sequence number and older (table spec, "Scan Planning").
			if data := c.files[path]; data == nil || data.sequence > e.sequence {
				continue
			}
			r := c.removed[path]
			if r.bits == nil {
				r.bits = bits
			} else {
				r.bits = roaring.Or(r.bits, bits)
			}
			c.removed[path] = r
		}
		if e.of != "" {
			r := c.removed[e.of]
			r.entries = append(r.entries, e)
			c.removed[e.of] = r
		}
	}
	return nil
}

func readManifestList(ctx context.Context, store storage.Store, s *table.Snapshot) ([]iceberg.ManifestFile, error) {
	body, err := store.Get(ctx, s.ManifestList)
	if err != nil {
		return nil, err
	}
	list, err := iceberg.ReadManifestList(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("manifest list %s: %w", s.ManifestList, err)
	}
	return list, nil
}

// readManifest reads the live entries of a manifest.
func readManifest(ctx context.Context, store storage.Store, mf iceberg.ManifestFile) ([]iceberg.ManifestEntry, error) {
	body, err := store.Get(ctx, mf.FilePath())
	if err != nil {
		return nil, err
	}
	entries, err := iceberg.ReadManifest(mf, bytes.NewReader(body), true)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", mf.FilePath(), err)
	}
	return entries, nil
}

// readVector reads the blob of one deletion vector.
func readVector(r io.ReaderAt, f iceberg.DataFile) (*roaring.Bitmap, error) {
	offset, size := f.ContentOffset(), f.ContentSizeInBytes()
	if offset == nil || size == nil || f.ReferencedDataFile() == nil || *size < 0 || *size > f.FileSizeBytes() {
		return nil, fmt.Errorf("deletion vector in %s does not tell where it is", f.FilePath())
	}
	blob := make([]byte, *size)
	if n, err := r.ReadAt(blob, *offset); err != nil && !(n == len(blob) && errors.Is(err, io.EOF)) {
		return nil, fmt.Errorf("deletion vector in %s: %w", f.FilePath(), err)
	}
	bits, err := decodeVector(blob, f.Count())
	if err != nil {
		return nil, fmt.Errorf("deletion vector in %s for %s: %w", f.FilePath(), *f.ReferencedDataFile(), err)
	}
	return bits, nil
}
