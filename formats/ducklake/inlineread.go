package ducklake

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/streambed/streambed/formats"
)

// inlinedFolder is where the inlined rows of a snapshot seem to lie, for readers, below a table's location. Nothing is
// stored there. The file's name is SNAPSHOT-TABLE.parquet, so that it can be made again from the name alone.
const inlinedFolder = "/inlined/"

// keptInlined bounds, in bytes, the files of inlined rows that a reader keeps.
const keptInlined = 64 << 20

// planInlined adds the rows that are inlined at the table's snapshot: a file for each schema version.
func (r *Reader) planInlined(tx *transaction, vt *formats.ViewTable, p pointer, ref formats.TableRef) (files []planned, err error) {
	tables, err := readInlineTables(tx, r.pipeline, p.Table)
	if err != nil {
		return nil, err
	}
	names := sortedKeys(tables)
	slices.SortFunc(names, func(a, b string) int { return int(tables[a].version - tables[b].version) })
	for _, name := range names {
		body, rows, stats, err := r.catalog.snapshotFile(tx, tables[name], vt.Snapshot)
		if err != nil {
			return nil, fmt.Errorf("inlined rows of %s: %w", name, err)
		}
		if rows == 0 {
			continue
		}
		uri := ref.Location + inlinedFolder + strconv.FormatInt(vt.Snapshot, 10) + "-" + name + ".parquet"
		if _, ok := r.store.(*Store); !ok {
			return nil, fmt.Errorf("it has inlined rows, which only a lake opened with ducklake.NewStore can show")
		}
		r.bodies.Put(uri, body, int64(len(body)))
		files = append(files, planned{id: -1, file: formats.ScanFile{Path: uri, Rows: rows, Size: int64(len(body)), Stats: stats}})
	}
	return files, nil
}

// snapshotFile makes a Parquet file of the rows of an inlined data table that a snapshot shows.
func (c *catalog) snapshotFile(tx *transaction, t *inlineTable, snapshot int64) (body []byte, rows int64, stats formats.FileStats, err error) {
	w := newCellWriter(t.schema)
	err = c.readCells(tx, t, "begin_snapshot <= $1 AND (end_snapshot IS NULL OR end_snapshot > $1)", []any{snapshot},
		func(_ int64, cells []any) error { return w.add(cells) })
	if err != nil || w.rows == 0 {
		w.builder.Release()
		return nil, 0, stats, err
	}
	rows = w.rows
	body, stats, err = w.file()
	return body, rows, stats, err
}

// inlinedBody gives the file that stands for inlined rows; nil for any other.
func (r *Reader) inlinedBody(ctx context.Context, uri string) (body []byte, err error) {
	at := strings.LastIndex(uri, inlinedFolder)
	if at < 0 {
		return nil, nil
	}
	if body, ok := r.bodies.Get(uri); ok {
		return body, nil
	}
	incarnation := path.Base(uri[:at])
	text, name, ok := strings.Cut(strings.TrimSuffix(uri[at+len(inlinedFolder):], ".parquet"), "-")
	snapshot, perr := strconv.ParseInt(text, 10, 64)
	if !ok || perr != nil {
		return nil, nil
	}
	err = r.catalog.retry(ctx, func() error {
		return r.catalog.reading(ctx, func(tx *transaction) error {
			var tableID int64
			if err := tx.row(`SELECT table_id FROM streambed_inline_tables WHERE table_name = $1 AND id = $2`, name, incarnation).Scan(&tableID); err != nil {
				return err
			}
			tables, err := readInlineTables(tx, r.pipeline, tableID)
			if err != nil {
				return err
			}
			if tables[name] == nil {
				return fmt.Errorf("table %s is not known any more", name)
			}
			body, _, _, err = r.catalog.snapshotFile(tx, tables[name], snapshot)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("inlined rows %s cannot be read: %w", uri, err)
	}
	if body != nil {
		r.bodies.Put(uri, body, int64(len(body)))
	}
	return body, nil
}
