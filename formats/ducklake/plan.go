package ducklake

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
	"golang.org/x/sync/errgroup"
)

// deleted are positions, shared and never changed.
type deleted struct{ bits *roaring.Bitmap }

// planned is a data file of a plan with its delete file.
type planned struct {
	id    int64
	file  formats.ScanFile
	del   string // URI, "" for none
	count int64
}

// Plan lists the files of a table at a view, oldest first.
func (r *Reader) Plan(ctx context.Context, view *formats.View, name formats.TableName) (*formats.ScanPlan, error) {
	vt, err := find(view, name)
	if err != nil {
		return nil, err
	}
	if plan, ok := r.plans.Get(vt.Version); ok {
		return plan, nil
	}
	p, err := parsePointer(vt.Pointer)
	if err != nil {
		return nil, err
	}
	var files []planned
	err = r.catalog.retry(ctx, func() error {
		return r.catalog.reading(ctx, func(tx *transaction) (err error) {
			files, err = r.planFiles(tx, vt, p)
			return err
		})
	})
	if err == nil {
		err = r.readDeleted(ctx, files)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot plan a scan of table %s at checkpoint %d: %w", formatName(name), view.Checkpoint, err)
	}
	plan := &formats.ScanPlan{Schema: vt.Schema, Files: make([]formats.ScanFile, len(files))}
	weight := int64(1000)
	for i, f := range files {
		plan.Files[i] = f.file
		weight += 600 + 300*int64(len(f.file.Stats.ValueCounts))
	}
	r.plans.Put(vt.Version, plan, weight)
	return plan, nil
}

// planFiles reads the rows that are visible at the table's snapshot.
func (r *Reader) planFiles(tx *transaction, vt *formats.ViewTable, p pointer) (files []planned, err error) {
	// Rows of a snapshot that is not kept may be gone: what is left would read as if rows had been deleted.
	var kept int64
	err = tx.row(`SELECT 1 FROM streambed_history WHERE pipeline = $1 AND id = $2 AND snapshot = $3`, r.pipeline, p.ID, vt.Snapshot).Scan(&kept)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("snapshot %d: %w", vt.Snapshot, formats.ErrExpired)
	}
	if err != nil {
		return nil, err
	}
	ref, err := r.location(tx, p)
	if err != nil {
		return nil, err
	}
	byID := map[int64]int{}
	err = tx.each(func(scan func(...any) error) error {
		var f planned
		var relative, delRelative sql.NullBool
		var delCount, partial sql.NullInt64
		var delPath sql.NullString
		if err := scan(&f.id, &f.file.Path, &relative, &f.file.Rows, &f.file.Size, &delPath, &delRelative, &delCount, &partial); err != nil {
			return err
		}
		if partial.Valid && partial.Int64 > vt.Snapshot {
			return fmt.Errorf("DuckDB has merged files across snapshot %d: read it with DuckDB, or a newer one: %w", vt.Snapshot, formats.ErrExpired)
		}
		f.file.Path = resolve(r.store, ref, f.file.Path, relative.Bool)
		f.file.Local = r.store.Local(f.file.Path)
		if delPath.Valid {
			f.del, f.count = resolve(r.store, ref, delPath.String, delRelative.Bool), delCount.Int64
		}
		if _, twice := byID[f.id]; twice {
			return fmt.Errorf("data file %s has two delete files", f.file.Path)
		}
		byID[f.id] = len(files)
		files = append(files, f)
		return nil
	}, `SELECT d.data_file_id, d.path, d.path_is_relative, d.record_count, d.file_size_bytes, x.path, x.path_is_relative, x.delete_count, d.partial_max
		FROM ducklake_data_file d LEFT JOIN ducklake_delete_file x ON x.table_id = $1 AND x.data_file_id = d.data_file_id
			AND x.begin_snapshot <= $2 AND (x.end_snapshot > $2 OR x.end_snapshot IS NULL)
		WHERE d.table_id = $1 AND d.begin_snapshot <= $2 AND (d.end_snapshot > $2 OR d.end_snapshot IS NULL)
		ORDER BY COALESCE(d.file_order, 0), d.data_file_id`, p.Table, vt.Snapshot)
	if err != nil {
		return nil, err
	}
	if err := planStats(tx, vt, p, files, byID); err != nil {
		return nil, err
	}
	inlined, err := r.planInlined(tx, vt, p, ref)
	return append(files, inlined...), err
}

// location finds where the incarnation's files are, in the paths that DuckLake has of it.
func (r *Reader) location(tx *transaction, p pointer) (ref formats.TableRef, err error) {
	var schema, table string
	err = tx.row(`SELECT s.path, t.path FROM ducklake_table t JOIN ducklake_schema s ON s.schema_id = t.schema_id WHERE t.table_id = $1
		ORDER BY t.begin_snapshot DESC LIMIT 1`, p.Table).Scan(&schema, &table)
	if errors.Is(err, sql.ErrNoRows) {
		return ref, formats.ErrExpired
	}
	location := r.store.Warehouse() + "/" + schema + table
	return formats.TableRef{ID: p.ID, Location: location[:max(len(location)-1, 0)]}, err
}

// planStats adds the files' statistics.
func planStats(tx *transaction, vt *formats.ViewTable, p pointer, files []planned, byID map[int64]int) error {
	cols, err := columns(&vt.Schema)
	if err != nil {
		return err
	}
	kinds := make(map[int64]types.Type, len(cols))
	for _, c := range cols {
		kinds[c.id] = c.t
	}
	for i := range files {
		files[i].file.Stats = formats.FileStats{ColumnSizes: map[int]int64{}, ValueCounts: map[int]int64{}, NullCounts: map[int]int64{},
			NaNCounts: map[int]int64{}, Lower: map[int][]byte{}, Upper: map[int][]byte{}}
	}
	return tx.each(func(scan func(...any) error) error {
		var file, id int64
		var size, values, nulls sql.NullInt64
		var nan sql.NullBool
		var lower, upper sql.NullString
		if err := scan(&file, &id, &size, &values, &nulls, &lower, &upper, &nan); err != nil {
			return err
		}
		t, ok := kinds[id]
		if !ok {
			return nil // dropped since
		}
		stats := &files[byID[file]].file.Stats
		column := int(id)
		if size.Valid {
			stats.ColumnSizes[column] = size.Int64
		}
		if values.Valid && nulls.Valid {
			stats.ValueCounts[column], stats.NullCounts[column] = values.Int64+nulls.Int64, nulls.Int64
		}
		if nan.Valid && !nan.Bool {
			stats.NaNCounts[column] = 0
		}
		if b, ok := parseBound(t, lower.String); ok && lower.Valid {
			stats.Lower[column] = b
		}
		if b, ok := parseBound(t, upper.String); ok && upper.Valid {
			stats.Upper[column] = b
		}
		return nil
	}, `SELECT c.data_file_id, c.column_id, c.column_size_bytes, c.value_count, c.null_count, c.min_value, c.max_value, c.contains_nan
		FROM ducklake_data_file d JOIN ducklake_file_column_stats c ON c.data_file_id = d.data_file_id
		WHERE d.table_id = $1 AND d.begin_snapshot <= $2 AND (d.end_snapshot > $2 OR d.end_snapshot IS NULL)`, p.Table, vt.Snapshot)
}

// readDeleted reads the delete files that are not known yet.
func (r *Reader) readDeleted(ctx context.Context, files []planned) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(4 * runtime.GOMAXPROCS(0))
	for i := range files {
		f := &files[i]
		if f.del == "" {
			continue
		}
		if known, ok := r.deletes.Get(f.del); ok {
			f.file.Deleted = known.bits
			continue
		}
		g.Go(func() error {
			bits, err := readDeletes(gctx, r.store, f.del, f.count)
			if err != nil {
				return err
			}
			f.file.Deleted = bits
			r.deletes.Put(f.del, deleted{bits}, int64(bits.GetSizeInBytes())+200)
			return nil
		})
	}
	return g.Wait()
}
