package ducklake

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
)

// Small cuts keep their rows in the catalog, in DuckLake's inlined data tables: one for each schema version of a table, with
// row_id, begin_snapshot and end_snapshot before the columns. To the pipeline such a cut is a data file like any other,
// under the path that it asked for: row p of the file is the row with row_id start + p. A row that is gone has a position
// still, where any other row of the file is read. Readers see all inlined rows of one schema version as one file.

// inlineTable is one inlined data table.
type inlineTable struct {
	name string
	// version is DuckLake's schema version that it was made for.
	version int64
	schema  *formats.Schema
}

// inlined is where a data file's rows are in the catalog.
type inlined struct {
	table *inlineTable
	start int64
	// cells are the rows, only until they are written.
	cells [][]any
}

// inlineKinds are the column types of inlined data tables, in SQLite and in Postgres, as DuckDB makes and reads them.
var inlineKinds = map[types.Kind][2]string{
	types.Boolean: {"BIGINT", "BOOLEAN"}, types.Int: {"BIGINT", "INTEGER"}, types.Long: {"BIGINT", "BIGINT"},
	types.Float: {"VARCHAR", "REAL"}, types.Double: {"VARCHAR", "DOUBLE PRECISION"}, types.Decimal: {"VARCHAR", "NUMERIC"},
	types.String: {"VARCHAR", "BYTEA"}, types.JSON: {"VARCHAR", "BYTEA"}, types.Interval: {"VARCHAR", "BYTEA"},
	types.Binary: {"BLOB", "BYTEA"}, types.UUID: {"VARCHAR", "UUID"}, types.Date: {"VARCHAR", "VARCHAR"},
	types.Time: {"VARCHAR", "TIME"}, types.Timestamp: {"VARCHAR", "VARCHAR"}, types.TimestampTZ: {"VARCHAR", "VARCHAR"},
}

// inlineTableFor finds or makes the inlined data table for the table's schema as it is in this snapshot.
func (w *snapshotWriter) inlineTableFor(r *row, d dialect) (*inlineTable, error) {
	var version int64
	if err := w.row(`SELECT COALESCE(max(schema_version), 0) FROM ducklake_schema_versions WHERE table_id = $1`, r.tableID).Scan(&version); err != nil {
		return nil, err
	}
	if t := r.inc.inlining; t != nil && t.version == version {
		return t, nil
	}
	t := &inlineTable{name: fmt.Sprintf("ducklake_inlined_data_%d_%d", r.tableID, version), version: version, schema: r.schema}
	var registered int
	if err := w.row(`SELECT count(*) FROM ducklake_inlined_data_tables WHERE table_id = $1 AND table_name = $2`, r.tableID, t.name).Scan(&registered); err != nil {
		return nil, err
	}
	if registered == 0 { // else another writer has made it
		var b strings.Builder
		fmt.Fprintf(&b, "CREATE TABLE %s (row_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT", quote(t.name))
		for _, c := range r.columns {
			fmt.Fprintf(&b, ", %s %s", quote(c.name), d.inlineType(c.t))
		}
		if err := w.run(nil, b.String()+")",
			fmt.Sprintf("CREATE INDEX %s ON %s (end_snapshot, row_id)", quote("streambed_"+strings.TrimPrefix(t.name, "ducklake_")), quote(t.name))); err != nil {
			return nil, err
		}
		if _, err := w.exec(`INSERT INTO ducklake_inlined_data_tables (table_id, table_name, schema_version) VALUES ($1, $2, $3)`,
			r.tableID, t.name, version); err != nil {
			return nil, err
		}
		// DuckDB keeps what it has read of a schema version, the inlined data tables included: an open session would not find
		// this one under the version before (promise 11).
		w.schemaChanged = true
	}
	_, err := w.exec(`INSERT INTO streambed_inline_tables (table_id, table_name, schema_version, id, schema_id) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (table_id, table_name) DO NOTHING`, r.tableID, t.name, version, r.state.Table.ID, r.schema.ID)
	return t, err
}

// insertParameters bounds the parameters of one statement.
const insertParameters = 2000

// addInlined writes the rows of a file into the catalog, and gives the row id after them.
func (w *snapshotWriter) addInlined(r *row, f *dataFile, next int64, pipeline string) (int64, error) {
	in := f.inlined
	in.start = next
	width := len(r.columns) + 2
	var values []string
	var args []any
	flush := func() error {
		if len(values) == 0 {
			return nil
		}
		_, err := w.exec("INSERT INTO "+quote(in.table.name)+" (row_id, begin_snapshot"+columnList(r.columns)+") VALUES "+strings.Join(values, ", "), args...)
		values, args = values[:0], args[:0]
		return err
	}
	for p, cells := range in.cells {
		if f.bits != nil && f.bits.Contains(uint32(p)) {
			continue
		}
		var b strings.Builder
		b.WriteByte('(')
		for i := range width {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString("$" + strconv.Itoa(len(args)+i+1))
		}
		values = append(values, b.String()+")")
		args = append(append(args, in.start+int64(p), w.id), cells...)
		for i, cell := range args[len(args)-len(cells):] {
			args[len(args)-len(cells)+i] = w.dialect.inlineValue(r.columns[i].t, cell)
		}
		if len(args)+width > insertParameters {
			if err := flush(); err != nil {
				return 0, err
			}
		}
	}
	if err := flush(); err != nil {
		return 0, err
	}
	_, err := w.exec(`INSERT INTO streambed_inlined (pipeline, id, path, table_name, row_id_start, record_count, file_size_bytes, sequence, recorded)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, pipeline, r.state.Table.ID, f.path, in.table.name, in.start, f.rows, f.size, f.sequence, micros(f.since))
	return next + f.rows, err
}

func columnList(cols []column) string {
	var b strings.Builder
	for _, c := range cols {
		b.WriteString(", " + quote(c.name))
	}
	return b.String()
}

// endInlined ends the rows at some positions of an inlined file.
func (w *snapshotWriter) endInlined(f *dataFile, positions *roaring.Bitmap) error {
	ids := make([]any, 0, positions.GetCardinality())
	for it := positions.Iterator(); it.HasNext(); {
		ids = append(ids, f.inlined.start+int64(it.Next()))
	}
	for len(ids) > 0 {
		n := min(len(ids), 500)
		var list strings.Builder
		for i := range n {
			if i > 0 {
				list.WriteString(", ")
			}
			list.WriteString("$" + strconv.Itoa(i+2))
		}
		ended, err := w.exec("UPDATE "+quote(f.inlined.table.name)+" SET end_snapshot = $1 WHERE end_snapshot IS NULL AND row_id IN ("+list.String()+")",
			append([]any{w.id}, ids[:n]...)...)
		if err != nil {
			return err
		}
		if ended != int64(n) {
			return fmt.Errorf("%w: inlined rows of %s are gone from the catalog", formats.ErrForeignWrite, f.inlined.table.name)
		}
		ids = ids[n:]
	}
	return nil
}

// dropInlined ends what is left of an inlined file, and forgets it.
func (w *snapshotWriter) dropInlined(r *row, f *dataFile, pipeline string) error {
	if _, err := w.exec("UPDATE "+quote(f.inlined.table.name)+" SET end_snapshot = $1 WHERE end_snapshot IS NULL AND row_id >= $2 AND row_id < $3",
		w.id, f.inlined.start, f.inlined.start+f.rows); err != nil {
		return err
	}
	_, err := w.exec(`DELETE FROM streambed_inlined WHERE pipeline = $1 AND id = $2 AND path = $3`, pipeline, r.state.Table.ID, f.path)
	return err
}

// readInlineTables reads a table's inlined data tables by name.
func readInlineTables(tx *transaction, pipeline string, tableID int64) (map[string]*inlineTable, error) {
	tables := map[string]*inlineTable{}
	err := tx.each(func(scan func(...any) error) error {
		t := &inlineTable{}
		var text string
		if err := scan(&t.name, &t.version, &text); err != nil {
			return err
		}
		schema, err := decodeSchema(text)
		t.schema = &schema
		tables[t.name] = t
		return err
	}, `SELECT t.table_name, t.schema_version, s.body FROM streambed_inline_tables t JOIN streambed_schemas s
		ON s.pipeline = $1 AND s.id = t.id AND s.schema_id = t.schema_id WHERE t.table_id = $2`, pipeline, tableID)
	return tables, err
}

// readInlinedFiles reads which files of an incarnation are inlined, and which of their rows are live.
func readInlinedFiles(tx *transaction, pipeline, id string, tableID int64) (files []*dataFile, newest *inlineTable, err error) {
	tables, err := readInlineTables(tx, pipeline, tableID)
	if err != nil || len(tables) == 0 {
		return nil, nil, err
	}
	live := map[string][]int64{}
	for name, t := range tables {
		if newest == nil || t.version > newest.version {
			newest = t
		}
		err := tx.each(func(scan func(...any) error) error {
			var row int64
			err := scan(&row)
			live[name] = append(live[name], row)
			return err
		}, "SELECT row_id FROM "+quote(name)+" WHERE end_snapshot IS NULL ORDER BY row_id")
		if err != nil {
			return nil, nil, err
		}
	}
	err = tx.each(func(scan func(...any) error) error {
		f := &dataFile{registered: true, inlined: &inlined{}}
		var name string
		var recorded int64
		if err := scan(&f.path, &name, &f.inlined.start, &f.rows, &f.size, &f.sequence, &recorded); err != nil {
			return err
		}
		f.since = fromMicros(recorded)
		if f.inlined.table = tables[name]; f.inlined.table == nil {
			return fmt.Errorf("inlined file %s is in the unknown table %s", f.path, name)
		}
		bits := roaring.New()
		bits.AddRange(0, uint64(f.rows))
		for _, row := range live[name] {
			if row >= f.inlined.start && row < f.inlined.start+f.rows {
				bits.Remove(uint32(row - f.inlined.start))
			}
		}
		if !bits.IsEmpty() {
			f.bits = bits
		}
		if f.live() {
			files = append(files, f)
		}
		return nil
	}, `SELECT path, table_name, row_id_start, record_count, file_size_bytes, sequence, recorded FROM streambed_inlined WHERE pipeline = $1 AND id = $2`, pipeline, id)
	return files, newest, err
}

// readCells calls f with the cells of a query's rows after the row id.
func (c *catalog) readCells(tx *transaction, t *inlineTable, where string, args []any, f func(row int64, cells []any) error) error {
	cols, err := columns(t.schema)
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, col := range cols {
		list.WriteString(", " + c.inlineCell(col.t, quote(col.name)))
	}
	return tx.each(func(scan func(...any) error) error {
		var row int64
		cells := make([]any, len(cols))
		into := []any{&row}
		for i := range cells {
			into = append(into, &cells[i])
		}
		if err := scan(into...); err != nil {
			return err
		}
		return f(row, cells)
	}, "SELECT row_id"+list.String()+" FROM "+quote(t.name)+" WHERE "+where+" ORDER BY row_id", args...)
}

// inlinedFile makes the Parquet file of an inlined file that was not kept in memory. Rows that are gone read as another.
func (c *catalog) inlinedFile(ctx context.Context, f *dataFile) (body []byte, err error) {
	err = c.retry(ctx, func() error {
		return c.reading(ctx, func(tx *transaction) error {
			w := newCellWriter(f.inlined.table.schema)
			next := f.inlined.start
			var last []any
			fill := func(until int64) error {
				for ; next < until; next++ {
					if err := w.add(last); err != nil {
						return err
					}
				}
				return nil
			}
			err := c.readCells(tx, f.inlined.table, "end_snapshot IS NULL AND row_id >= $1 AND row_id < $2",
				[]any{f.inlined.start, f.inlined.start + f.rows}, func(row int64, cells []any) error {
					last = cells
					return fill(row + 1)
				})
			if err == nil && last == nil {
				err = fmt.Errorf("no row of it is left in %s", f.inlined.table.name)
			}
			if err == nil {
				err = fill(f.inlined.start + f.rows)
			}
			if err != nil {
				w.builder.Release()
				return err
			}
			body, _, err = w.file()
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("inlined file %s: %w", f.path, err)
	}
	return body, nil
}
