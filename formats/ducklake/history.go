package ducklake

import "github.com/streambed/streambed/formats"

// writeHistory stores what can be read from this checkpoint on, and removes what no more.
func (l *Lake) writeHistory(tx *transaction, a *attempt) error {
	m := a.mark
	if a.task == formats.Expire {
		return l.expireAll(tx, a)
	}
	if a.task != "" {
		if _, err := tx.exec(`INSERT INTO streambed_maintenance (pipeline, snapshot) VALUES ($1, $2)`, l.cfg.Pipeline, m.snapshot); err != nil {
			return err
		}
	} else if _, err := tx.exec(`INSERT INTO streambed_checkpoints (pipeline, checkpoint, position, commit_time, recorded, snapshot)
		VALUES ($1, $2, $3, $4, $5, $6)`, l.cfg.Pipeline, m.number, int64(m.position), micros(m.commitTime), micros(m.recorded), m.snapshot); err != nil {
		return err
	}
	for _, id := range sortedKeys(a.rows) {
		r := a.rows[id]
		if !r.published || r.staged == nil {
			continue
		}
		t := r.staged.totals
		if _, err := tx.exec(`INSERT INTO streambed_history (pipeline, id, snapshot, checkpoint, position, commit_time, recorded, sequence, schema_id,
				operation, record_count, files, deleted)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
			l.cfg.Pipeline, id, m.snapshot, m.number, int64(m.position), micros(m.commitTime), micros(m.recorded), r.head.Sequence, r.head.Schema,
			r.staged.operation(), t.records, t.files, t.deleted); err != nil {
			return err
		}
	}
	if a.task != "" {
		return nil
	}
	a.thin(l.cfg.Retention, l.kept)
	return l.expireAll(tx, a)
}

// expireAll removes the attempt's expired checkpoints.
func (l *Lake) expireAll(tx *transaction, a *attempt) error {
	for _, gone := range a.expired {
		if err := l.expire(tx, a, gone); err != nil {
			return err
		}
	}
	return nil
}

// operation names the change as other formats do.
func (s *staged) operation() string {
	if s.word != "" {
		return "replace"
	}
	removes := s.deletes || len(s.gone) > 0
	switch {
	case removes && len(s.added) > 0:
		return "overwrite"
	case removes:
		return "delete"
	}
	return "append"
}

// expire removes a checkpoint's snapshot, and the rows of what no other snapshot shows; their files are scheduled for
// deletion. The cost is that of what is removed (promise 10).
func (l *Lake) expire(tx *transaction, a *attempt, gone checkpoint) error {
	if _, err := tx.exec(`DELETE FROM streambed_checkpoints WHERE pipeline = $1 AND checkpoint = $2`, l.cfg.Pipeline, gone.number); err != nil {
		return err
	}
	// A snapshot of a table stays while a kept checkpoint reads it.
	since, until := int64(-1), a.mark.snapshot
	for _, c := range a.kept {
		if c.snapshot < gone.snapshot {
			since = c.snapshot
		} else if c.snapshot > gone.snapshot {
			until = c.snapshot
			break
		}
	}
	ids, err := l.expireSnapshots(tx, gone.snapshot, since, until)
	if err != nil {
		return err
	}
	changed, err := inlinedTablesChanged(tx, l.cfg.Pipeline, since, until)
	if err != nil {
		return err
	}
	if _, err := tx.exec(`DELETE FROM streambed_history AS h WHERE pipeline = $1 AND snapshot > $2 AND snapshot < $3 AND EXISTS
		(SELECT 1 FROM streambed_history n WHERE n.pipeline = $1 AND n.id = h.id AND n.snapshot > h.snapshot AND n.snapshot <= $3)`,
		l.cfg.Pipeline, since, until); err != nil {
		return err
	}
	for _, id := range ids {
		if err := l.expireContent(tx, a, id, changed); err != nil {
			return err
		}
	}
	return nil
}

// expireSnapshots removes the rows of a checkpoint's snapshot, and of our maintenance between the checkpoints that stay
// beside it.
func (l *Lake) expireSnapshots(tx *transaction, snapshot, since, until int64) ([]int64, error) {
	ids := []int64{snapshot}
	err := tx.each(func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		ids = append(ids, id)
		return err
	}, `SELECT snapshot FROM streambed_maintenance WHERE pipeline = $1 AND snapshot > $2 AND snapshot < $3`, l.cfg.Pipeline, since, until)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if err := tx.run([]any{id}, `DELETE FROM ducklake_snapshot WHERE snapshot_id = $1`,
			`DELETE FROM ducklake_snapshot_changes WHERE snapshot_id = $1`); err != nil {
			return nil, err
		}
	}
	_, err = tx.exec(`DELETE FROM streambed_maintenance WHERE pipeline = $1 AND snapshot > $2 AND snapshot < $3`, l.cfg.Pipeline, since, until)
	return ids, err
}

// expireContent removes the rows of what only a snapshot that is gone showed; files are scheduled for deletion. They stay
// while any other snapshot, also another writer's, shows them.
func (l *Lake) expireContent(tx *transaction, a *attempt, gone int64, changed []string) error {
	var since, until int64
	if err := tx.row(`SELECT COALESCE((SELECT max(snapshot_id) FROM ducklake_snapshot WHERE snapshot_id < $1), -1),
		(SELECT min(snapshot_id) FROM ducklake_snapshot WHERE snapshot_id > $1)`, gone).Scan(&since, &until); err != nil {
		return err
	}
	if err := expireInlined(tx, changed, since, until); err != nil {
		return err
	}
	between := []any{since, until, snapshotTime(a.now)}
	const within = ` begin_snapshot > $1 AND end_snapshot > $1 AND end_snapshot <= $2`
	if err := tx.run(between,
		`INSERT INTO ducklake_files_scheduled_for_deletion (data_file_id, path, path_is_relative, schedule_start)
			SELECT f.data_file_id, CASE WHEN f.path_is_relative THEN s.path || t.path || f.path ELSE f.path END, f.path_is_relative, `+l.catalog.timestamp("$3")+`
			FROM ducklake_data_file f JOIN ducklake_table t ON t.table_id = f.table_id JOIN ducklake_schema s ON s.schema_id = t.schema_id
			WHERE f.begin_snapshot > $1 AND f.end_snapshot > $1 AND f.end_snapshot <= $2`,
		`INSERT INTO ducklake_files_scheduled_for_deletion (data_file_id, path, path_is_relative, schedule_start)
			SELECT f.delete_file_id, CASE WHEN f.path_is_relative THEN s.path || t.path || f.path ELSE f.path END, f.path_is_relative, `+l.catalog.timestamp("$3")+`
			FROM ducklake_delete_file f JOIN ducklake_table t ON t.table_id = f.table_id JOIN ducklake_schema s ON s.schema_id = t.schema_id
			WHERE f.begin_snapshot > $1 AND f.end_snapshot > $1 AND f.end_snapshot <= $2`); err != nil {
		return err
	}
	return tx.run(between[:2],
		`DELETE FROM ducklake_file_column_stats WHERE data_file_id IN (SELECT data_file_id FROM ducklake_data_file WHERE`+within+`)`,
		`DELETE FROM ducklake_file_partition_value WHERE data_file_id IN (SELECT data_file_id FROM ducklake_data_file WHERE`+within+`)`,
		`DELETE FROM ducklake_data_file WHERE`+within,
		`DELETE FROM ducklake_delete_file WHERE`+within,
		`DELETE FROM ducklake_table_stats WHERE table_id IN (SELECT table_id FROM ducklake_table WHERE`+within+`)`,
		// A partitioning stays with its table: files of it may outlive it.
		`DELETE FROM ducklake_partition_column WHERE table_id IN (SELECT table_id FROM ducklake_table WHERE`+within+`)`,
		`DELETE FROM ducklake_partition_info WHERE table_id IN (SELECT table_id FROM ducklake_table WHERE`+within+`)`,
		`DELETE FROM ducklake_sort_expression WHERE table_id IN (SELECT table_id FROM ducklake_table WHERE`+within+`)`,
		`DELETE FROM ducklake_sort_info WHERE table_id IN (SELECT table_id FROM ducklake_table WHERE`+within+`)`,
		`DELETE FROM ducklake_table_column_stats WHERE table_id IN (SELECT table_id FROM ducklake_table WHERE`+within+`)`,
		`DELETE FROM ducklake_schema_versions WHERE table_id IN (SELECT table_id FROM ducklake_table WHERE`+within+`)`,
		`DELETE FROM ducklake_column WHERE`+within,
		`DELETE FROM ducklake_table WHERE`+within)
}
