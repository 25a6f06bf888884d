package ducklake

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"

	"github.com/streambed/streambed/formats"
	"go.uber.org/zap"
)

// Other programs may write to the catalog: DuckDB's maintenance, somebody's INSERT, another pipeline of ours. Their
// snapshots are found at the next commit or claim by ids that we did not make, and followed: what they changed is read
// again, and a checkpoint that was worked out on the old files is refused (promise 8).

// foreignWrite says that the catalog has snapshots of others that change our tables.
type foreignWrite struct{}

func (*foreignWrite) Error() string { return formats.ErrForeignWrite.Error() }

func (*foreignWrite) Unwrap() error { return formats.ErrForeignWrite }

// changeWord finds the ids in ducklake_snapshot_changes. A quoted name that looks like a word makes us read a table
// again in vain, no more.
var changeWord = regexp.MustCompile(`[a-z_]+:([0-9]+)`)

// foreignTables gives the ids of tables that snapshots after since have changed.
func foreignTables(tx *transaction, since int64) (map[int64]bool, error) {
	ids := map[int64]bool{}
	err := tx.each(func(scan func(...any) error) error {
		var changes string
		if err := scan(&changes); err != nil {
			return err
		}
		for _, m := range changeWord.FindAllStringSubmatch(changes, -1) {
			if id, err := strconv.ParseInt(m[1], 10, 64); err == nil {
				ids[id] = true
			}
		}
		return nil
	}, `SELECT COALESCE(changes_made, '') FROM ducklake_snapshot_changes WHERE snapshot_id > $1`, since)
	return ids, err
}

// followFor follows what others have written; an error when the attempt changes one of those tables.
func (l *Lake) followFor(ctx context.Context, a *attempt) error {
	changed, err := l.follow(ctx)
	if err != nil {
		return err
	}
	for id, r := range a.rows {
		if changed[id] && (r.change != nil || r.staged != nil) { // what is staged is of the files before
			return lost(r)
		}
		if changed[id] {
			r.head = r.inc.head
		}
	}
	return nil
}

// follow takes over the snapshots of others and gives the incarnations that they changed.
func (l *Lake) follow(ctx context.Context) (map[string]bool, error) {
	var heads map[string]head
	var newest int64
	err := l.catalog.retry(ctx, func() error {
		heads = map[string]head{}
		return l.catalog.transact(ctx, func(tx *transaction) error {
			w, err := lastSnapshot(tx)
			if err != nil {
				return err
			}
			if newest = w.id; newest == l.snapshot {
				return nil
			}
			changed, err := foreignTables(tx, l.snapshot)
			if err != nil {
				return err
			}
			for id, inc := range l.tables {
				if inc.published && changed[inc.tableID] {
					if heads[id], err = l.followTable(tx, id, inc, newest); err != nil {
						return err
					}
				}
			}
			n, err := tx.exec(`UPDATE streambed_state SET snapshot = $1 WHERE pipeline = $2 AND epoch = $3`, newest, l.cfg.Pipeline, l.state.Epoch)
			if err == nil && n == 0 {
				err = formats.ErrFenced
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot follow what others have written to the DuckLake catalog: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snapshot = newest
	changed := map[string]bool{}
	for id, h := range heads {
		inc := l.tables[id]
		inc.head, inc.files = h, nil
		l.bodies.Clear()
		changed[id] = true
		l.cfg.Log.Warn("a table was changed by another writer and is read again",
			zap.String("table", formatName(inc.state.Table.Name)), zap.Int64("snapshot", newest))
	}
	return changed, nil
}

func (l *Lake) followTable(tx *transaction, id string, inc *incarnation, newest int64) (head, error) {
	h := inc.head
	h.Sequence++
	h.Snapshot = newest
	inlined, err := l.followInlined(tx, inc, h)
	if err != nil {
		return h, err
	}
	text, err := json.Marshal(&h)
	if err != nil {
		return h, err
	}
	if _, err := tx.exec(`UPDATE streambed_tables SET head = $1 WHERE pipeline = $2 AND id = $3`, string(text), l.cfg.Pipeline, id); err != nil {
		return h, err
	}
	_, err = tx.exec(`INSERT INTO streambed_history (pipeline, id, snapshot, checkpoint, position, commit_time, recorded, sequence, schema_id, operation,
			record_count, files, deleted)
		SELECT $1, $2, CAST($3 AS BIGINT), CAST($4 AS BIGINT), CAST($5 AS BIGINT), CAST($6 AS BIGINT), CAST($7 AS BIGINT), CAST($8 AS BIGINT),
			CAST($9 AS BIGINT), 'replace', CAST($11 AS BIGINT) + COALESCE(sum(d.record_count), 0), count(*), COALESCE(sum(x.delete_count), 0)
		FROM ducklake_data_file d LEFT JOIN ducklake_delete_file x ON x.table_id = $10 AND x.data_file_id = d.data_file_id AND x.end_snapshot IS NULL
		WHERE d.table_id = $10 AND d.end_snapshot IS NULL`,
		l.cfg.Pipeline, id, newest, l.state.Checkpoint, int64(l.state.Position), micros(l.state.CommitTime), micros(l.cfg.Now()), h.Sequence, h.Schema, inc.tableID, inlined)
	return h, err
}
