package ducklake

import "fmt"

// inlinedTablesChanged lists the inlined data tables of the tables that some snapshots changed, those of dropped tables
// included.
func inlinedTablesChanged(tx *transaction, pipeline string, since, until int64) (names []string, err error) {
	err = tx.each(func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		names = append(names, name)
		return err
	}, `SELECT i.table_name FROM streambed_inline_tables i WHERE i.id IN
		(SELECT h.id FROM streambed_history h WHERE h.pipeline = $1 AND h.snapshot > $2 AND h.snapshot <= $3)`, pipeline, since, until)
	return names, err
}

// expireInlined removes inlined rows that no snapshot shows any more, and the inlined data tables of tables that none
// does. since and until are the neighbours of the snapshots that went.
func expireInlined(tx *transaction, changed []string, since, until int64) error {
	for _, name := range changed {
		if _, err := tx.exec("DELETE FROM "+quote(name)+" WHERE begin_snapshot > $1 AND end_snapshot > $1 AND end_snapshot <= $2", since, until); err != nil {
			return fmt.Errorf("expiring rows of %s: %w", name, err)
		}
	}
	var gone []string
	err := tx.each(func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		gone = append(gone, name)
		return err
	}, `SELECT i.table_name FROM ducklake_table t JOIN ducklake_inlined_data_tables i ON i.table_id = t.table_id
		WHERE t.begin_snapshot > $1 AND t.end_snapshot > $1 AND t.end_snapshot <= $2`, since, until)
	if err != nil {
		return err
	}
	for _, name := range gone {
		if err := tx.run(nil, "DROP TABLE IF EXISTS "+quote(name)); err != nil {
			return err
		}
		if err := tx.run([]any{name}, `DELETE FROM ducklake_inlined_data_tables WHERE table_name = $1`,
			`DELETE FROM streambed_inline_tables WHERE table_name = $1`); err != nil {
			return err
		}
	}
	return nil
}
