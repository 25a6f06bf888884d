package ducklake

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
	"golang.org/x/sync/errgroup"
)

// incarnation is a stored incarnation of a table.
type incarnation struct {
	state formats.TableState
	// schema is the one in force in the lake; shared with readers.
	schema    *formats.Schema
	published bool
	// tableID is DuckLake's; 0 for one that was never published.
	tableID int64
	head    head
	// loading is held while files are read.
	loading sync.Mutex
	// files are the live ones by path; nil until first needed.
	files  map[string]*dataFile
	totals counts
	// moved are replaced files whose rows may still be named by them.
	moved formats.Moves
	// inlining is the newest inlined data table; nil when none was needed yet, or the files are not loaded.
	inlining *inlineTable
	// arrangement is the catalog's, while the files are loaded.
	arrangement arrangement
}

// head is where an incarnation stands.
type head struct {
	Sequence int64 `json:"sequence"`
	// Snapshot is DuckLake's newest that changed the table, zero before it was published.
	Snapshot int64 `json:"snapshot,omitempty"`
	// Schema is the number of the schema in force.
	Schema int `json:"schema"`
	// Published is the checkpoint that made it visible.
	Published int64 `json:"published,omitempty"`
}

// dataFile is a live data file. Its positions and delete file are replaced, never changed in place.
type dataFile struct {
	path                 string
	rows, size, sequence int64
	// id is DuckLake's, from 0; it has none (registered is false) while the incarnation is being copied.
	id         int64
	registered bool
	stats      formats.FileStats // only until it is registered
	// partition is as in formats.DataFile; of an inlined file it may be missing.
	partition string
	bits      *roaring.Bitmap // nil for none
	del       *deleteFile     // nil for none, and while the incarnation is being copied
	// inlined tells where the rows of a file are that is not stored; nil for one that is. since is when it was made.
	inlined *inlined
	since   time.Time
}

// deleteFile is a stored delete file.
type deleteFile struct {
	id, size, footer, count int64
	path                    string
}

// counts are what a table's history tells.
type counts struct{ files, records, deleted int64 }

func (c *counts) add(f *dataFile, bits *roaring.Bitmap, sign int64) {
	if f.inlined == nil {
		c.files += sign
	}
	c.records += sign * f.rows
	if bits != nil {
		c.deleted += sign * int64(bits.GetCardinality())
	}
}

func readTables(tx *transaction, pipeline string) (map[string]*incarnation, error) {
	tables := map[string]*incarnation{}
	err := tx.each(func(scan func(...any) error) error {
		var id, head, state, schema string
		inc := &incarnation{}
		if err := scan(&id, &inc.published, &inc.tableID, &head, &state, &schema); err != nil {
			return err
		}
		stored, err := decodeSchema(schema)
		if err != nil {
			return fmt.Errorf("the stored schema of table incarnation %s: %w", id, err)
		}
		inc.schema = &stored
		if err := json.Unmarshal([]byte(head), &inc.head); err != nil {
			return fmt.Errorf("the stored head of table incarnation %s: %w", id, err)
		}
		if err := json.Unmarshal([]byte(state), &inc.state); err != nil {
			return fmt.Errorf("the stored state of table incarnation %s: %w", id, err)
		}
		tables[id] = inc
		return nil
	}, `SELECT t.id, t.published, t.table_id, t.head, t.state, s.body FROM streambed_tables t JOIN streambed_schemas s
		ON s.pipeline = t.pipeline AND s.id = t.id AND s.schema_id = t.schema_id WHERE t.pipeline = $1`, pipeline)
	return tables, err
}

// load reads an incarnation's live files unless they are in memory.
func (l *Lake) load(ctx context.Context, inc *incarnation) error {
	inc.loading.Lock()
	defer inc.loading.Unlock()
	l.mu.Lock()
	loaded, ref, sequence := inc.files != nil, inc.state.Table, inc.head.Sequence
	l.mu.Unlock()
	if loaded {
		return nil
	}
	files := map[string]*dataFile{}
	var newest *inlineTable
	var arranged arrangement
	var err error
	switch {
	case inc.published:
		newest, arranged, err = l.readLive(ctx, inc.tableID, ref, sequence, files)
	case inc.state.Phase != formats.Dropped:
		err = l.readCopying(ctx, ref, files)
	}
	if err != nil {
		return fmt.Errorf("cannot read which files table %s holds: %w", formatName(ref.Name), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	inc.files, inc.totals, inc.inlining, inc.arrangement = files, counts{}, newest, arranged
	for _, f := range files {
		inc.totals.add(f, f.bits, 1)
	}
	return nil
}

// readLive reads the files that DuckLake's newest snapshot has, and their delete files.
func (l *Lake) readLive(ctx context.Context, tableID int64, ref formats.TableRef, sequence int64, files map[string]*dataFile) (newest *inlineTable, arranged arrangement, err error) {
	err = l.catalog.retry(ctx, func() error {
		clear(files)
		return l.catalog.reading(ctx, func(tx *transaction) (err error) {
			var inCatalog []*dataFile
			if inCatalog, newest, err = readInlinedFiles(tx, l.cfg.Pipeline, ref.ID, tableID); err != nil {
				return err
			}
			for _, f := range inCatalog {
				files[f.path] = f
			}
			byID := map[int64]*dataFile{}
			err = tx.each(func(scan func(...any) error) error {
				f := &dataFile{registered: true}
				var relative, delRelative sql.NullBool
				var delID, delCount, delSize sql.NullInt64
				var delPath sql.NullString
				if err := scan(&f.id, &f.path, &relative, &f.rows, &f.size, &f.sequence, &delID, &delPath, &delRelative, &delCount, &delSize); err != nil {
					return err
				}
				f.path = resolve(l.cfg.Store, ref, f.path, relative.Bool)
				if delID.Valid {
					f.del = &deleteFile{id: delID.Int64, path: resolve(l.cfg.Store, ref, delPath.String, delRelative.Bool),
						count: delCount.Int64, size: delSize.Int64}
				}
				if other := files[f.path]; other != nil {
					return fmt.Errorf("data file %s is listed twice or has two delete files", f.path)
				}
				files[f.path], byID[f.id] = f, f
				return nil
			}, `SELECT d.data_file_id, d.path, d.path_is_relative, d.record_count, d.file_size_bytes, COALESCE(d.file_order, $2),
					x.delete_file_id, x.path, x.path_is_relative, x.delete_count, x.file_size_bytes
				FROM ducklake_data_file d LEFT JOIN ducklake_delete_file x
				ON x.table_id = $1 AND x.data_file_id = d.data_file_id AND x.end_snapshot IS NULL
				WHERE d.table_id = $1 AND d.end_snapshot IS NULL`, tableID, sequence)
			if err == nil {
				arranged, err = readArrangement(tx, tableID)
			}
			if err == nil && arranged.partition != 0 {
				err = readPartitions(tx, tableID, &arranged, byID)
			}
			return err
		})
	})
	if err != nil {
		return nil, arranged, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for _, f := range files {
		if f.del == nil {
			continue
		}
		g.Go(func() (err error) {
			f.bits, err = readDeletes(gctx, l.cfg.Store, f.del.path, f.del.count)
			return err
		})
	}
	return newest, arranged, g.Wait()
}

func (l *Lake) readCopying(ctx context.Context, ref formats.TableRef, files map[string]*dataFile) error {
	return l.catalog.retry(ctx, func() error {
		clear(files)
		return l.catalog.reading(ctx, func(tx *transaction) error {
			return tx.each(func(scan func(...any) error) error {
				f := &dataFile{}
				var text string
				var deleted []byte
				if err := scan(&f.path, &f.rows, &f.size, &f.sequence, &text, &deleted); err != nil {
					return err
				}
				var stored storedStats
				err := json.Unmarshal([]byte(text), &stored)
				if err == nil {
					f.partition = stored.Partition
					f.stats, err = stored.stats()
				}
				if err == nil && len(deleted) > 0 {
					f.bits = roaring.New()
					err = f.bits.UnmarshalBinary(deleted)
				}
				if err != nil {
					return fmt.Errorf("data file %s: %w", f.path, err)
				}
				files[f.path] = f
				return nil
			}, `SELECT path, record_count, file_size_bytes, sequence, stats, deleted FROM streambed_files WHERE pipeline = $1 AND id = $2`,
				l.cfg.Pipeline, ref.ID)
		})
	})
}

// resolve gives the URI of a file that the catalog names.
func resolve(store storage.Store, ref formats.TableRef, path string, relative bool) string {
	if relative {
		return ref.Location + "/" + path
	}
	if rest, ok := strings.CutPrefix(path, dataPath(store)); ok {
		return store.Warehouse() + "/" + rest
	}
	return path
}

// relativePath gives the path of a file below its table's location, as the catalog stores it.
func relativePath(ref formats.TableRef, uri string) (string, error) {
	path, ok := strings.CutPrefix(uri, ref.Location+"/")
	if !ok || path == "" {
		return "", fmt.Errorf("file %s is not below the location %s of table %s", uri, ref.Location, formatName(ref.Name))
	}
	return path, nil
}
