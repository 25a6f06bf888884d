package iceberg

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/lsn"
)

// restore writes a pipeline's rows, in place of what an older copy of the catalog holds of it.
func (l *Lake) restore(ctx context.Context, tx *sql.Tx, st *formats.State, rows []*recoveredRow, kept []checkpoint) error {
	// An older copy may show tables that are not there any more.
	if _, err := tx.ExecContext(ctx, `DELETE FROM iceberg_tables WHERE catalog_name = $1 AND metadata_location IN
		(SELECT metadata_location FROM streambed_tables WHERE pipeline = $2 AND published = 1)`, catalogName, l.cfg.Pipeline); err != nil {
		return err
	}
	for _, table := range []string{"streambed_state", "streambed_tables", "streambed_checkpoints"} {
		if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE pipeline = $1`, l.cfg.Pipeline); err != nil {
			return err
		}
	}
	identity := ""
	if st.Identity != (formats.Identity{}) {
		text, err := json.Marshal(st.Identity)
		if err != nil {
			return err
		}
		identity = string(text)
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO streambed_state (pipeline, epoch, position, checkpoint, commit_time, known, identity, attempt)
		VALUES ($1, $2, $3, $4, $5, $6, $7, '')`, l.cfg.Pipeline, st.Epoch, int64(st.Position), st.Checkpoint, micros(st.CommitTime),
		micros(st.Known), identity); err != nil {
		return err
	}
	for _, row := range rows {
		if err := l.restoreTable(ctx, tx, row); err != nil {
			return err
		}
	}
	for i := range kept {
		if err := l.writeCheckpoints(ctx, tx, &attempt{mark: &kept[i]}); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lake) restoreTable(ctx context.Context, tx *sql.Tx, found *recoveredRow) error {
	name := found.State.Table.Name
	stored := &row{inc: &incarnation{}, state: found.State, published: found.Published, pointer: found.Pointer, head: found.content.head(),
		schema: found.content.schema, created: true, stateChanged: true}
	if err := l.writeRow(ctx, tx, found.State.Table.ID, stored); err != nil {
		return err
	}
	if found.Published {
		key := []any{catalogName, namespaceKey(name.Schema), name.Table, found.Pointer}
		if _, err := tx.ExecContext(ctx, `INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
			VALUES ($1, $2, 'exists', 'true') ON CONFLICT DO NOTHING`, key[:2]...); err != nil {
			return err
		}
		n, err := affected(tx.ExecContext(ctx, `INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
			VALUES ($1, $2, $3, $4, 'TABLE') ON CONFLICT DO NOTHING`, key...))
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("the catalog holds another table %s already: drop it there, or use another catalog", formatName(name))
		}
	}
	return nil
}

// checkpointsOf finds the checkpoints that can be read: those of which every visible table keeps the snapshot that was its
// newest. Whether one has been dropped in between shows in the next one's parent.
func checkpointsOf(rows []*recoveredRow) []checkpoint {
	known := map[int64]checkpoint{}
	for _, row := range rows {
		if !row.Published {
			continue
		}
		for _, s := range row.content.history {
			var raw struct {
				Summary map[string]string `json:"summary"`
			}
			if json.Unmarshal(s.raw, &raw) != nil || raw.Summary[summaryLSN] == "" {
				continue
			}
			c := checkpoint{number: s.checkpoint, recorded: time.UnixMilli(s.timestamp).UTC()}
			c.position, _ = lsn.Parse(raw.Summary[summaryLSN])
			c.commitTime, _ = time.Parse(time.RFC3339Nano, raw.Summary[summaryCommitTime])
			known[c.number] = c
		}
	}
	var kept []checkpoint
	for _, number := range slices.Sorted(maps.Keys(known)) {
		if !slices.ContainsFunc(rows, func(r *recoveredRow) bool { return r.Published && !readableAt(r.content.history, number) }) {
			kept = append(kept, known[number])
		}
	}
	return kept
}

// readableAt reports whether a history keeps what was newest at a checkpoint, or begins after it.
func readableAt(history []pastSnapshot, number int64) bool {
	i := 0
	for i < len(history) && history[i].checkpoint <= number {
		i++
	}
	if i == len(history) {
		return true
	}
	var next struct {
		Parent *int64 `json:"parent-snapshot-id"`
	}
	if json.Unmarshal(history[i].raw, &next) != nil {
		return false
	}
	if i == 0 {
		return next.Parent == nil
	}
	return next.Parent != nil && *next.Parent == history[i-1].id
}
