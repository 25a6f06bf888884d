package ducklake

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
)

// nearRows is how far apart the row ids of others' inlined rows may be for them to make one file to us.
const nearRows = 100

// followInlined takes in what others have done to a table's inlined rows, and gives the number of those that are live.
func (l *Lake) followInlined(tx *transaction, inc *incarnation, h head) (live int64, err error) {
	if err := l.refuseInlinedDeletes(tx, inc); err != nil {
		return 0, err
	}
	ref := inc.state.Table
	// A flush removes tables that no insert would use any more.
	if _, err := tx.exec(`DELETE FROM streambed_inline_tables WHERE table_id = $1 AND NOT EXISTS
			(SELECT 1 FROM ducklake_inlined_data_tables d WHERE d.table_name = streambed_inline_tables.table_name)`, inc.tableID); err != nil {
		return 0, err
	}
	if _, err := tx.exec(`DELETE FROM streambed_inlined WHERE pipeline = $1 AND id = $2 AND NOT EXISTS
			(SELECT 1 FROM ducklake_inlined_data_tables d WHERE d.table_name = streambed_inlined.table_name)`, l.cfg.Pipeline, ref.ID); err != nil {
		return 0, err
	}
	if _, err := tx.exec(`INSERT INTO streambed_inline_tables (table_id, table_name, schema_version, id, schema_id)
		SELECT d.table_id, d.table_name, d.schema_version, $2, CAST($3 AS BIGINT) FROM ducklake_inlined_data_tables d WHERE d.table_id = $1
			AND NOT EXISTS (SELECT 1 FROM streambed_inline_tables s WHERE s.table_name = d.table_name)`, inc.tableID, ref.ID, h.Schema); err != nil {
		return 0, err
	}
	// Rows may have been changed in their places.
	if _, err := tx.exec(`UPDATE streambed_inlined SET sequence = $1 WHERE pipeline = $2 AND id = $3`, h.Sequence, l.cfg.Pipeline, ref.ID); err != nil {
		return 0, err
	}
	tables, err := readInlineTables(tx, l.cfg.Pipeline, inc.tableID)
	if err != nil {
		return 0, err
	}
	for _, name := range sortedKeys(tables) {
		n, err := l.followInlineTable(tx, ref, name, h)
		if err != nil {
			return 0, err
		}
		live += n
	}
	return live, nil
}

// refuseInlinedDeletes: DuckDB may keep in the catalog which rows of files it has deleted. Its own readers lose them when
// they are flushed, and we do not read them.
func (l *Lake) refuseInlinedDeletes(tx *transaction, inc *incarnation) error {
	name := fmt.Sprintf("ducklake_inlined_delete_%d", inc.tableID)
	var n int64
	if err := tx.row(l.catalog.hasTable(), name).Scan(&n); err != nil || n == 0 {
		return err
	}
	if err := tx.row("SELECT count(*) FROM " + quote(name)).Scan(&n); err != nil || n == 0 {
		return err
	}
	return fmt.Errorf("another writer keeps deletes of table %s inlined in the catalog: flush them with DuckDB's ducklake_flush_inlined_data, "+
		"then resync the table", formatName(inc.state.Table.Name))
}

// followInlineTable makes files, to us, of live rows that belong to none yet.
func (l *Lake) followInlineTable(tx *transaction, ref formats.TableRef, name string, h head) (live int64, err error) {
	type span struct{ from, to int64 }
	var known, fresh []span
	err = tx.each(func(scan func(...any) error) error {
		var s span
		err := scan(&s.from, &s.to)
		s.to += s.from
		known = append(known, s)
		return err
	}, `SELECT row_id_start, record_count FROM streambed_inlined WHERE pipeline = $1 AND id = $2 AND table_name = $3 ORDER BY row_id_start`,
		l.cfg.Pipeline, ref.ID, name)
	if err != nil {
		return 0, err
	}
	err = tx.each(func(scan func(...any) error) error {
		var row int64
		if err := scan(&row); err != nil {
			return err
		}
		live++
		for len(known) > 0 && known[0].to <= row {
			known = known[1:]
		}
		if len(known) > 0 && known[0].from <= row {
			return nil
		}
		if n := len(fresh); n > 0 && row-fresh[n-1].to < nearRows && (len(known) == 0 || known[0].from > row) {
			fresh[n-1].to = row + 1
			return nil
		}
		fresh = append(fresh, span{row, row + 1})
		return nil
	}, "SELECT row_id FROM "+quote(name)+" WHERE end_snapshot IS NULL ORDER BY row_id")
	if err != nil {
		return 0, err
	}
	for _, s := range fresh {
		path := ref.Location + "/data/foreign-" + uuid.NewString() + ".parquet"
		if _, err := tx.exec(`INSERT INTO streambed_inlined (pipeline, id, path, table_name, row_id_start, record_count, file_size_bytes, sequence, recorded)
			VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $8)`, l.cfg.Pipeline, ref.ID, path, name, s.from, s.to-s.from, h.Sequence, micros(l.cfg.Now())); err != nil {
			return 0, err
		}
	}
	return live, nil
}
