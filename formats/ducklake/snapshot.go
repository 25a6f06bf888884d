package ducklake

import (
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
)

// snapshotWriter writes one DuckLake snapshot.
type snapshotWriter struct {
	*transaction
	dialect               dialect
	pipeline              string
	id, schemaVersion     int64
	nextCatalog, nextFile int64
	changes               []string
	schemaChanged         bool
}

// lastSnapshot reads where the catalog is.
func lastSnapshot(tx *transaction) (*snapshotWriter, error) {
	w := &snapshotWriter{transaction: tx}
	err := tx.row(`SELECT snapshot_id, schema_version, next_catalog_id, next_file_id FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1`).
		Scan(&w.id, &w.schemaVersion, &w.nextCatalog, &w.nextFile)
	return w, err
}

// writeSnapshot makes the checkpoint's snapshot: all tables in one (promise 3).
func (l *Lake) writeSnapshot(tx *transaction, a *attempt) error {
	w, err := lastSnapshot(tx)
	if err != nil {
		return err
	}
	if w.id != l.snapshot {
		changed, err := foreignTables(tx, l.snapshot)
		if err != nil {
			return err
		}
		for _, inc := range l.tables {
			if inc.published && changed[inc.tableID] {
				return &foreignWrite{}
			}
		}
	}
	w.id++
	w.dialect, w.pipeline = l.catalog.dialect, l.cfg.Pipeline
	rows := make([]*row, 0, len(a.rows))
	for _, id := range sortedKeys(a.rows) {
		rows = append(rows, a.rows[id])
	}
	for _, r := range rows { // names become free before they are taken
		if r.inc.published && !r.published {
			if err := w.drop(r); err != nil {
				return err
			}
		}
	}
	for _, r := range rows {
		if r.published && r.staged != nil {
			if err := w.write(r, l.cfg.Store, l.arranger(r.state.Table.Name, r.schema)); err != nil {
				return fmt.Errorf("table %s: %w", formatName(r.state.Table.Name), err)
			}
		}
	}
	return w.finish(a, l.cfg.Pipeline)
}

func (w *snapshotWriter) change(word string, id int64) {
	w.changes = append(w.changes, word+":"+strconv.FormatInt(id, 10))
}

// drop ends a table with all that it has.
func (w *snapshotWriter) drop(r *row) error {
	n, err := w.exec(`UPDATE ducklake_table SET end_snapshot = $1 WHERE table_id = $2 AND end_snapshot IS NULL`, w.id, r.inc.tableID)
	if err != nil || n == 0 { // somebody has dropped it already
		return err
	}
	w.change("dropped_table", r.inc.tableID)
	w.schemaChanged = true
	return w.run([]any{w.id, r.inc.tableID},
		`UPDATE ducklake_column SET end_snapshot = $1 WHERE table_id = $2 AND end_snapshot IS NULL`,
		`UPDATE ducklake_data_file SET end_snapshot = $1 WHERE table_id = $2 AND end_snapshot IS NULL`,
		`UPDATE ducklake_delete_file SET end_snapshot = $1 WHERE table_id = $2 AND end_snapshot IS NULL`,
		`UPDATE ducklake_partition_info SET end_snapshot = $1 WHERE table_id = $2 AND end_snapshot IS NULL`,
		`UPDATE ducklake_sort_info SET end_snapshot = $1 WHERE table_id = $2 AND end_snapshot IS NULL`)
}

func lost(r *row) error {
	return fmt.Errorf("table %s: %w", formatName(r.state.Table.Name), formats.ErrForeignWrite)
}

// write makes or changes a visible table.
func (w *snapshotWriter) write(r *row, store storage.Store, a *arranger) error {
	fresh := !r.inc.published
	if fresh {
		if err := w.create(r, store); err != nil {
			return err
		}
	} else if err := w.stillThere(r); err != nil {
		return err
	}
	r.head.Snapshot = w.id
	if err := w.alter(r, arrangementOf(a, r.columns), fresh); err != nil {
		return err
	}
	if err := w.removeFiles(r); err != nil {
		return err
	}
	if err := w.addFiles(r); err != nil {
		return err
	}
	w.tell(r, fresh)
	return nil
}

// removeFiles ends the files that are gone, and moves the deleted rows of others.
func (w *snapshotWriter) removeFiles(r *row) error {
	s := r.staged
	for _, f := range s.gone {
		if !f.registered {
			continue
		}
		if f.inlined != nil {
			if err := w.dropInlined(r, f, w.pipeline); err != nil {
				return err
			}
			continue
		}
		if err := w.end(r, "data", f.id); err != nil {
			return err
		}
		if f.del != nil {
			if err := w.end(r, "delete", f.del.id); err != nil {
				return err
			}
		}
	}
	for _, u := range s.updated {
		if u.file.inlined != nil {
			gone := u.bits
			if u.file.bits != nil {
				gone = roaring.AndNot(u.bits, u.file.bits)
			}
			if err := w.endInlined(u.file, gone); err != nil {
				return err
			}
			continue
		}
		if u.file.del != nil {
			if err := w.end(r, "delete", u.file.del.id); err != nil {
				return err
			}
		}
		if err := w.addDelete(r, u.file.id, u.del); err != nil {
			return err
		}
	}
	return nil
}

// tell notes in the snapshot's words what happened to a table.
func (w *snapshotWriter) tell(r *row, fresh bool) {
	if r.staged.word != "" {
		w.change(r.staged.word, r.tableID)
		return
	}
	words := map[string]bool{}
	word := func(f *dataFile, stored, inlined string) {
		if f.inlined != nil {
			stored = inlined
		}
		if !words[stored] {
			words[stored] = true
			w.change(stored, r.tableID)
		}
	}
	for _, f := range r.staged.added {
		word(f, "inserted_into_table", "inlined_insert")
	}
	if fresh {
		return
	}
	for _, f := range r.staged.gone {
		word(f, "deleted_from_table", "inlined_delete")
	}
	for _, u := range r.staged.updated {
		word(u.file, "deleted_from_table", "inlined_delete")
	}
}

// stillThere makes sure that nobody has dropped the table: what is added to it then would be lost without a word.
func (w *snapshotWriter) stillThere(r *row) error {
	var n int
	err := w.row(`SELECT count(*) FROM ducklake_table WHERE table_id = $1 AND end_snapshot IS NULL`, r.tableID).Scan(&n)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: it was dropped from the DuckLake catalog, which only Streambed may do: resync it", formats.ErrForeignWrite)
	}
	return err
}

// end ends a live data or delete file.
func (w *snapshotWriter) end(r *row, kind string, id int64) error {
	n, err := w.exec(`UPDATE ducklake_`+kind+`_file SET end_snapshot = $1 WHERE `+kind+`_file_id = $2 AND end_snapshot IS NULL`, w.id, id)
	if err == nil && n != 1 {
		err = lost(r)
	}
	return err
}

// create makes the table's row, under a name that is free for readers that ignore case.
func (w *snapshotWriter) create(r *row, store storage.Store) error {
	name, location := r.state.Table.Name, strings.TrimPrefix(r.state.Table.Location, store.Warehouse()+"/")
	schemaPath, tablePath, ok := strings.Cut(location, "/")
	if !ok || location == r.state.Table.Location {
		return fmt.Errorf("its location %s is not below the warehouse %s", r.state.Table.Location, store.Warehouse())
	}
	schemaID, err := w.schema(name.Schema, path.Clean(schemaPath)+"/")
	if err != nil {
		return err
	}
	names, err := w.names(`SELECT table_name FROM ducklake_table WHERE schema_id = $1 AND end_snapshot IS NULL
		UNION ALL SELECT view_name FROM ducklake_view WHERE schema_id = $1 AND end_snapshot IS NULL`, schemaID)
	if err != nil {
		return err
	}
	r.tableID = w.nextCatalog
	w.nextCatalog++
	shown := names.take(name.Table)
	if _, err := w.exec(`INSERT INTO ducklake_table (table_id, table_uuid, begin_snapshot, schema_id, table_name, path, path_is_relative)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, r.tableID, uuid.NewString(), w.id, schemaID, shown, tablePath+"/", true); err != nil {
		return err
	}
	var schema string
	if err := w.row(`SELECT schema_name FROM ducklake_schema WHERE schema_id = $1`, schemaID).Scan(&schema); err != nil {
		return err
	}
	w.changes = append(w.changes, "created_table:"+quote(schema)+"."+quote(shown))
	w.schemaChanged = true
	_, err = w.exec(`INSERT INTO ducklake_table_stats (table_id, record_count, next_row_id, file_size_bytes) VALUES ($1, 0, 0, 0)`, r.tableID)
	return err
}

func (w *snapshotWriter) names(query string, args ...any) (nameSet, error) {
	names := nameSet{}
	err := w.each(func(scan func(...any) error) error {
		var name string
		if err := scan(&name); err != nil {
			return err
		}
		names[fold(name)] = true
		return nil
	}, query, args...)
	return names, err
}

// schema finds or makes the schema whose path stands for a source schema's name.
func (w *snapshotWriter) schema(name, path string) (id int64, err error) {
	found := false
	err = w.each(func(scan func(...any) error) error {
		found = true
		return scan(&id)
	}, `SELECT schema_id FROM ducklake_schema WHERE path = $1 AND path_is_relative AND end_snapshot IS NULL`, path)
	if found || err != nil {
		return id, err
	}
	names, err := w.names(`SELECT schema_name FROM ducklake_schema WHERE end_snapshot IS NULL`)
	if err != nil {
		return 0, err
	}
	id = w.nextCatalog
	w.nextCatalog++
	shown := names.take(name)
	w.changes = append(w.changes, "created_schema:"+quote(shown))
	_, err = w.exec(`INSERT INTO ducklake_schema (schema_id, schema_uuid, begin_snapshot, schema_name, path, path_is_relative)
		VALUES ($1, $2, $3, $4, $5, $6)`, id, uuid.NewString(), w.id, shown, path, true)
	return id, err
}

// alter makes the table's columns, partitioning and order what they are to be.
func (w *snapshotWriter) alter(r *row, want arrangement, fresh bool) error {
	change := diffColumns(r.oldColumns, r.columns)
	if err := w.alterColumns(r.tableID, change); err != nil {
		return err
	}
	partitioned, changed, err := w.arrange(r, want)
	if err != nil || !changed && change.empty() {
		return err
	}
	if !fresh {
		w.change("altered_table", r.tableID)
	}
	w.schemaChanged = true
	if change.empty() && !partitioned {
		return nil
	}
	_, err = w.exec(`INSERT INTO ducklake_schema_versions (begin_snapshot, schema_version, table_id) VALUES ($1, $2, $3)`,
		w.id, w.schemaVersion+1, r.tableID)
	return err
}

// alterColumns moves the table's columns. A renamed or retyped one keeps its id, a dropped one's is never used again.
//
// Columns get no statistics of the whole table. A row of them that says nothing would be narrowed by DuckDB's next
// INSERT to what that inserts, which hides all other rows; where there is no row, DuckDB makes none.
func (w *snapshotWriter) alterColumns(table int64, change columnChange) error {
	for _, id := range change.end {
		if _, err := w.exec(`UPDATE ducklake_column SET end_snapshot = $1 WHERE table_id = $2 AND column_id = $3 AND end_snapshot IS NULL`,
			w.id, table, id); err != nil {
			return err
		}
	}
	for _, c := range change.begin {
		parent := any(nil)
		if c.parent != 0 {
			parent = c.parent
		}
		if _, err := w.exec(`INSERT INTO ducklake_column (column_id, begin_snapshot, table_id, column_order, column_name, column_type,
				initial_default, default_value, nulls_allowed, parent_column, default_value_type, default_value_dialect)
			VALUES ($1, $2, $3, $4, $5, $6, $7, 'NULL', $8, $9, 'literal', 'duckdb')`,
			c.id, w.id, table, c.order, c.name, c.kind, c.initial, c.nullable, parent); err != nil {
			return err
		}
	}
	return nil
}

// addFiles registers the new data files with their statistics and delete files.
func (w *snapshotWriter) addFiles(r *row) error {
	if len(r.staged.added) == 0 {
		return nil
	}
	var rows, next, size int64
	if err := w.row(`SELECT record_count, next_row_id, file_size_bytes FROM ducklake_table_stats WHERE table_id = $1`, r.tableID).
		Scan(&rows, &next, &size); err != nil {
		return err
	}
	for _, f := range r.staged.added {
		if f.inlined != nil {
			f.registered = true
			var err error
			if f.inlined.table, err = w.inlineTableFor(r, w.dialect); err != nil {
				return err
			}
			if next, err = w.addInlined(r, f, next, w.pipeline); err != nil {
				return err
			}
			rows += f.rows
			continue
		}
		path, err := relativePath(r.state.Table, f.path)
		if err != nil {
			return err
		}
		f.id, f.registered = w.nextFile, true
		w.nextFile++
		fields, err := r.arrangement.partitionOf(f)
		if err != nil {
			return err
		}
		var partition any
		if fields != nil {
			partition = r.arrangement.partition
		}
		if _, err := w.exec(`INSERT INTO ducklake_data_file (data_file_id, table_id, begin_snapshot, file_order, path, path_is_relative, file_format,
				record_count, file_size_bytes, row_id_start, partition_id)
			VALUES ($1, $2, $3, $4, $5, $9, 'parquet', $6, $7, $8, $10)`,
			f.id, r.tableID, w.id, f.sequence, path, f.rows, f.size, next, true, partition); err != nil {
			return err
		}
		if err := w.addPartition(r.tableID, f.id, fields); err != nil {
			return err
		}
		for _, s := range fileStats(r.columns, f.rows, &f.stats) {
			if _, err := w.exec(`INSERT INTO ducklake_file_column_stats (data_file_id, table_id, column_id, column_size_bytes, value_count, null_count,
					min_value, max_value, contains_nan)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
				f.id, r.tableID, s.column, s.size, s.values, s.nulls, s.lower, s.upper, s.nan); err != nil {
				return err
			}
		}
		if f.del != nil {
			if err := w.addDelete(r, f.id, f.del); err != nil {
				return err
			}
		}
		rows, next, size = rows+f.rows, next+f.rows, size+f.size
	}
	_, err := w.exec(`UPDATE ducklake_table_stats SET record_count = $1, next_row_id = $2, file_size_bytes = $3 WHERE table_id = $4`, rows, next, size, r.tableID)
	return err
}

func (w *snapshotWriter) addDelete(r *row, file int64, d *deleteFile) error {
	path, err := relativePath(r.state.Table, d.path)
	if err != nil {
		return err
	}
	d.id = w.nextFile
	w.nextFile++
	_, err = w.exec(`INSERT INTO ducklake_delete_file (delete_file_id, table_id, begin_snapshot, data_file_id, path, path_is_relative, format,
			delete_count, file_size_bytes, footer_size)
		VALUES ($1, $2, $3, $4, $5, $9, 'parquet', $6, $7, $8)`, d.id, r.tableID, w.id, file, path, d.count, d.size, d.footer, true)
	return err
}

// finish writes the snapshot's own rows.
func (w *snapshotWriter) finish(a *attempt, pipeline string) error {
	if w.schemaChanged {
		w.schemaVersion++
	}
	a.snapshot, a.mark.snapshot = w.id, w.id
	if _, err := w.exec(`INSERT INTO ducklake_snapshot (snapshot_id, snapshot_time, schema_version, next_catalog_id, next_file_id)
		VALUES ($1, $2, $3, $4, $5)`, w.id, snapshotTime(a.now), w.schemaVersion, w.nextCatalog, w.nextFile); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]string{"streambed.pipeline": pipeline, "streambed.checkpoint": strconv.FormatInt(a.cp.Number, 10),
		"streambed.lsn": a.cp.To.String(), "streambed.commit-time": a.cp.CommitTime.UTC().Format(time.RFC3339Nano)})
	if err != nil {
		return err
	}
	_, err = w.exec(`INSERT INTO ducklake_snapshot_changes (snapshot_id, changes_made, author, commit_message, commit_extra_info)
		VALUES ($1, $2, 'streambed', $3, $4)`, w.id, strings.Join(w.changes, ","),
		a.message(pipeline), string(info))
	return err
}

// message tells what a snapshot is.
func (a *attempt) message(pipeline string) string {
	if a.task != "" {
		return fmt.Sprintf("%s at checkpoint %d of pipeline %s", a.task, a.cp.Number, pipeline)
	}
	return fmt.Sprintf("checkpoint %d of pipeline %s", a.cp.Number, pipeline)
}
