package ducklake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/streambed/streambed/formats"
)

// resolveTime bounds finding out what became of a commit, also when the caller's context has ended.
var resolveTime = 10 * time.Second

// swapTries bounds the tries of a swap whose COMMIT failed and turned out not to have been made.
const swapTries = 3

// swap makes the snapshot and moves the state in one transaction, and adopts the attempt.
func (l *Lake) swap(ctx context.Context, a *attempt) error {
	var unknown *unknownOutcome
	for try := 1; ; try++ {
		err := l.catalog.retry(ctx, func() error { return l.transactSwap(ctx, a) })
		if err == nil {
			l.adopt(a)
			return nil
		}
		var foreign *foreignWrite
		if errors.As(err, &foreign) {
			if err := l.followFor(ctx, a); err != nil {
				return fmt.Errorf("checkpoint %d was not committed: %w", a.cp.Number, err)
			}
			continue
		}
		if !errors.As(err, &unknown) {
			return fmt.Errorf("checkpoint %d was not committed: %w", a.cp.Number, err)
		}
		committed, rerr := l.outcome(ctx, a)
		switch {
		case errors.Is(rerr, formats.ErrFenced):
			return fmt.Errorf("checkpoint %d: %w", a.cp.Number, rerr)
		case rerr != nil: // never guess: the next call finds out
			l.pending = a
			return fmt.Errorf("checkpoint %d: %w", a.cp.Number, errors.Join(err, rerr))
		case committed:
			l.adopt(a)
			return nil
		case context.Cause(ctx) != nil:
			return fmt.Errorf("checkpoint %d was not committed: %w", a.cp.Number, context.Cause(ctx))
		case try >= swapTries:
			return fmt.Errorf("checkpoint %d was not committed, the catalog refuses it: %w", a.cp.Number, unknown.cause)
		}
	}
}

func (l *Lake) transactSwap(ctx context.Context, a *attempt) error {
	err := l.catalog.transact(ctx, func(tx *transaction) error {
		if err := l.statements(tx, a); err != nil {
			return err
		}
		return l.cfg.fail(SwapSent)
	})
	if err == nil {
		if err = l.cfg.fail(SwapDone); err != nil {
			err = &unknownOutcome{err}
		}
	}
	return err
}

// outcome finds out whether an attempt's transaction was committed. It waits for one that is still under way.
func (l *Lake) outcome(ctx context.Context, a *attempt) (committed bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTime)
	defer cancel()
	var epoch int64
	var id string
	err = l.catalog.retry(ctx, func() error {
		return l.catalog.transact(ctx, func(tx *transaction) error {
			return tx.row(`SELECT epoch, attempt FROM streambed_state WHERE pipeline = $1`+l.catalog.lock(), l.cfg.Pipeline).Scan(&epoch, &id)
		})
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("cannot find out whether checkpoint %d was committed: %w", a.cp.Number, err)
	case id == a.id:
		return true, nil
	case epoch != a.epoch:
		return false, formats.ErrFenced
	}
	return false, nil
}

// settlePending resolves an earlier commit whose outcome was unknown. done says that it was this very checkpoint.
func (l *Lake) settlePending(ctx context.Context, cp *formats.Checkpoint) (done bool, err error) {
	if l.pending == nil {
		return false, nil
	}
	a := l.pending
	committed, err := l.outcome(ctx, a)
	if err != nil {
		return false, err
	}
	l.pending = nil
	if !committed {
		return false, nil
	}
	l.adopt(a)
	return cp.Number == a.cp.Number, nil
}

// adopt makes a committed attempt the lake's state in memory.
func (l *Lake) adopt(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, r := range a.rows {
		if r.forgotten {
			delete(l.tables, id)
			continue
		}
		if r.staged != nil {
			for _, path := range r.staged.kept {
				if body := l.store.kept(path); body != nil {
					l.bodies.Put(path, body, int64(len(body)))
				}
				l.store.settle(path)
			}
			r.staged.adopt(r.inc)
		}
		if r.inc.published && !r.published {
			r.inc.files, r.inc.totals = map[string]*dataFile{}, counts{}
		}
		r.inc.state, r.inc.schema, r.inc.published, r.inc.tableID, r.inc.head = r.state, r.schema, r.published, r.tableID, r.head
		if r.published && r.staged != nil {
			r.inc.arrangement = r.arrangement
		}
		l.tables[id] = r.inc
	}
	st := &l.state
	st.Checkpoint, st.Position, st.CommitTime, st.Known = a.cp.Number, a.cp.To, a.cp.CommitTime, a.cp.Known
	l.kept, l.snapshot = a.kept, a.snapshot
	l.newSource = l.newSource && a.cp.To >= a.cp.From
}

// statements are the whole of a swap; any error undoes all of it.
func (l *Lake) statements(tx *transaction, a *attempt) error {
	// Promise 8: only the newest claim commits, and only from the position it knows.
	n, err := tx.exec(`UPDATE streambed_state SET position = $1, checkpoint = $2, commit_time = $3, known = $4, attempt = $5
		WHERE pipeline = $6 AND epoch = $7 AND position = $8 AND checkpoint = $9`,
		int64(a.cp.To), a.cp.Number, micros(a.cp.CommitTime), micros(a.cp.Known), a.id,
		l.cfg.Pipeline, a.epoch, int64(a.cp.From), a.follows())
	if err != nil {
		return err
	}
	if n == 0 {
		return formats.ErrFenced
	}
	a.snapshot = l.snapshot
	if a.mark != nil && a.task != formats.Expire {
		if err := l.writeSnapshot(tx, a); err != nil {
			return err
		}
		if _, err := tx.exec(`UPDATE streambed_state SET snapshot = $1 WHERE pipeline = $2`, a.snapshot, l.cfg.Pipeline); err != nil {
			return err
		}
	}
	for _, id := range sortedKeys(a.rows) {
		if err := l.writeRow(tx, id, a.rows[id], a); err != nil {
			return err
		}
	}
	if a.mark != nil {
		return l.writeHistory(tx, a)
	}
	return nil
}

// follows is the checkpoint that the lake must be at.
func (a *attempt) follows() int64 {
	if a.task != "" {
		return a.cp.Number
	}
	return a.cp.Number - 1
}

// writeRow stores what changed of an incarnation's own rows.
func (l *Lake) writeRow(tx *transaction, id string, r *row, a *attempt) error {
	key := []any{l.cfg.Pipeline, id}
	if r.forgotten {
		return tx.run(key, `DELETE FROM streambed_tables WHERE pipeline = $1 AND id = $2`, `DELETE FROM streambed_files WHERE pipeline = $1 AND id = $2`,
			`DELETE FROM streambed_inlined WHERE pipeline = $1 AND id = $2`,
			`DELETE FROM streambed_history WHERE pipeline = $1 AND id = $2`, `DELETE FROM streambed_schemas WHERE pipeline = $1 AND id = $2`)
	}
	head, err := json.Marshal(&r.head)
	if err != nil {
		return err
	}
	var state []byte
	if r.stateChanged {
		if state, err = json.Marshal(&r.state); err != nil {
			return err
		}
	}
	switch name := r.state.Table.Name; {
	case r.created:
		_, err = tx.exec(`INSERT INTO streambed_tables (pipeline, id, schema_name, table_name, published, table_id, schema_id, head, state)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, l.cfg.Pipeline, id, name.Schema, name.Table, integer(r.published), r.tableID, r.head.Schema,
			string(head), string(state))
	case r.stateChanged:
		_, err = tx.exec(`UPDATE streambed_tables SET published = $3, table_id = $4, schema_id = $5, head = $6, state = $7 WHERE pipeline = $1 AND id = $2`,
			append(key, integer(r.published), r.tableID, r.head.Schema, string(head), string(state))...)
	default:
		_, err = tx.exec(`UPDATE streambed_tables SET head = $3 WHERE pipeline = $1 AND id = $2`, append(key, string(head))...)
	}
	if err == nil && (r.created || r.schema != r.inc.schema) {
		err = writeSchema(tx, key, r.schema)
	}
	if err != nil {
		return err
	}
	switch {
	case r.inc.published:
		return nil
	case r.published && !r.created:
		return tx.run(key, `DELETE FROM streambed_files WHERE pipeline = $1 AND id = $2`)
	case !r.published && r.staged != nil:
		return l.writeCopying(tx, key, r.staged)
	}
	return nil
}

func writeSchema(tx *transaction, key []any, s *formats.Schema) error {
	body, err := encodeSchema(s)
	if err != nil {
		return err
	}
	_, err = tx.exec(`INSERT INTO streambed_schemas (pipeline, id, schema_id, body) VALUES ($1, $2, $3, $4)
		ON CONFLICT (pipeline, id, schema_id) DO UPDATE SET body = excluded.body`, append(key, s.ID, body)...)
	return err
}

// writeCopying stores the files of an incarnation that DuckLake does not know yet.
func (l *Lake) writeCopying(tx *transaction, key []any, s *staged) error {
	for _, f := range s.gone {
		if _, err := tx.exec(`DELETE FROM streambed_files WHERE pipeline = $1 AND id = $2 AND path = $3`, append(key, f.path)...); err != nil {
			return err
		}
	}
	for _, u := range s.updated {
		deleted, err := u.bits.MarshalBinary()
		if err != nil {
			return err
		}
		if _, err := tx.exec(`UPDATE streambed_files SET deleted = $4 WHERE pipeline = $1 AND id = $2 AND path = $3`, append(key, u.file.path, deleted)...); err != nil {
			return err
		}
	}
	for _, f := range s.added {
		stored := storeStats(&f.stats)
		stored.Partition = f.partition
		stats, err := json.Marshal(stored)
		if err != nil {
			return err
		}
		var deleted []byte
		if f.bits != nil {
			if deleted, err = f.bits.MarshalBinary(); err != nil {
				return err
			}
		}
		if _, err := tx.exec(`INSERT INTO streambed_files (pipeline, id, path, record_count, file_size_bytes, sequence, stats, deleted)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, append(key, f.path, f.rows, f.size, f.sequence, string(stats), deleted)...); err != nil {
			return err
		}
	}
	return nil
}
