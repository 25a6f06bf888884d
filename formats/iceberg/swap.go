package iceberg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/streambed/streambed/formats"
	"go.uber.org/zap"
)

// resolveTime bounds finding out what became of a commit, also when the caller's context has ended.
var resolveTime = 10 * time.Second

// swapTries bounds the tries of a swap whose COMMIT failed and turned out not to have been made.
const swapTries = 3

// lostSwap says that a table's pointer was not where we left it.
type lostSwap struct{ row *row }

func (e *lostSwap) Error() string {
	return fmt.Sprintf("table %s: %v", formatName(e.row.state.Table.Name), formats.ErrForeignWrite)
}

func (e *lostSwap) Unwrap() error { return formats.ErrForeignWrite }

// swap moves all pointers and the state in one transaction and adopts the attempt.
func (l *Lake) swap(ctx context.Context, a *attempt) error {
	var unknown *unknownOutcome
	for try := 1; ; try++ {
		err := l.catalog.retry(ctx, func() error { return l.transactSwap(ctx, a) })
		if err == nil {
			l.adopt(a)
			return nil
		}
		if !errors.As(err, &unknown) {
			return l.swapFailed(ctx, a, err)
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
		case try == swapTries:
			return fmt.Errorf("checkpoint %d was not committed, the catalog refuses it: %w", a.cp.Number, unknown.cause)
		}
	}
}

func (l *Lake) transactSwap(ctx context.Context, a *attempt) error {
	err := l.catalog.transact(ctx, func(tx *sql.Tx) error {
		if err := l.statements(ctx, tx, a); err != nil {
			return err
		}
		if l.cfg.Failpoint != nil {
			return l.cfg.Failpoint(SwapSent)
		}
		return nil
	})
	if err == nil && l.cfg.Failpoint != nil {
		if err = l.cfg.Failpoint(SwapDone); err != nil {
			err = &unknownOutcome{err}
		}
	}
	return err
}

func (l *Lake) swapFailed(ctx context.Context, a *attempt, err error) error {
	var lost *lostSwap
	if errors.As(err, &lost) {
		l.reload(ctx, lost.row)
		return fmt.Errorf("checkpoint %d was not committed: %w", a.cp.Number, err)
	}
	if errors.Is(err, formats.ErrFenced) {
		return fmt.Errorf("checkpoint %d was not committed: %w", a.cp.Number, err)
	}
	return fmt.Errorf("checkpoint %d was not committed, the catalog failed: %w", a.cp.Number, err)
}

// reload forgets a table's content in favour of what the catalog names now.
func (l *Lake) reload(ctx context.Context, r *row) {
	inc := r.inc
	if !inc.published {
		return
	}
	current, err := l.currentPointer(ctx, inc)
	if err != nil {
		l.cfg.Log.Error("a table was changed by another writer and cannot be found again",
			zap.String("table", formatName(inc.state.Table.Name)), zap.Error(err))
		return
	}
	l.mu.Lock()
	inc.content, inc.pointer = nil, current
	l.mu.Unlock()
	if _, err := l.loaded(ctx, inc); err != nil {
		l.cfg.Log.Error("a table was changed by another writer and cannot be read again",
			zap.String("table", formatName(inc.state.Table.Name)), zap.Error(err))
	}
}

// outcome finds out whether an attempt's transaction was committed. It waits for one that is still under way.
func (l *Lake) outcome(ctx context.Context, a *attempt) (committed bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTime)
	defer cancel()
	var epoch int64
	var id string
	err = l.catalog.retry(ctx, func() error {
		return l.catalog.transact(ctx, func(tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, `SELECT epoch, attempt FROM streambed_state WHERE pipeline = $1`+l.catalog.lock(),
				l.cfg.Pipeline).Scan(&epoch, &id)
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
	if cp.Number == a.cp.Number {
		cp.Rewrites = a.cp.Rewrites
		return true, nil
	}
	return false, nil
}

// adopt makes a committed attempt the lake's state in memory.
func (l *Lake) adopt(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hints != nil {
		l.hints.adopted(a.rows)
	}
	for _, id := range sortedKeys(a.rows) {
		r := a.rows[id]
		if r.forgotten {
			delete(l.tables, id)
			continue
		}
		if r.staged != nil {
			r.staged.adopt()
		}
		r.inc.state, r.inc.published = r.state, r.published
		if r.staged != nil {
			r.inc.pointer, r.inc.head, r.inc.schema = r.pointer, r.head, r.schema
			r.inc.moved.Note(r.moves, a.cp.Number)
			a.cp.Rewrites = append(a.cp.Rewrites, r.moves...)
		}
		l.tables[id] = r.inc
	}
	st := &l.state
	st.Checkpoint, st.Position, st.CommitTime, st.Known = a.cp.Number, a.cp.To, a.cp.CommitTime, a.cp.Known
	l.journalDone(a, true)
	l.kept = a.kept
	l.newSource = l.newSource && a.cp.To >= a.cp.From
}

// statements are the whole of a swap; any error undoes all of it.
func (l *Lake) statements(ctx context.Context, tx *sql.Tx, a *attempt) error {
	// Promise 8: only the newest claim commits, and only from the position it knows.
	before := a.cp.Number - 1
	if a.upkeep {
		before = a.cp.Number
	}
	n, err := affected(tx.ExecContext(ctx, `UPDATE streambed_state SET position = $1, checkpoint = $2, commit_time = $3, known = $4, attempt = $5
		WHERE pipeline = $6 AND epoch = $7 AND position = $8 AND checkpoint = $9`,
		int64(a.cp.To), a.cp.Number, micros(a.cp.CommitTime), micros(a.cp.Known), a.id,
		l.cfg.Pipeline, a.epoch, int64(a.cp.From), before))
	if err != nil {
		return err
	}
	if n == 0 {
		return formats.ErrFenced
	}
	for _, id := range sortedKeys(a.rows) {
		r := a.rows[id]
		if err := l.swapPointer(ctx, tx, r); err != nil {
			return err
		}
		if err := l.writeRow(ctx, tx, id, r); err != nil {
			return err
		}
	}
	return l.writeCheckpoints(ctx, tx, a)
}

// swapPointer moves the pointer that other readers of the catalog see.
func (l *Lake) swapPointer(ctx context.Context, tx *sql.Tx, r *row) error {
	was, is := r.inc.published, r.published
	key := []any{catalogName, namespaceKey(r.state.Table.Name.Schema), r.state.Table.Name.Table}
	old := r.old
	if r.replaces != nil {
		was, old = true, r.replaces.old
	}
	var n int64
	var err error
	switch {
	case was && is && r.pointer != old:
		n, err = affected(tx.ExecContext(ctx, `UPDATE iceberg_tables SET metadata_location = $4, previous_metadata_location = $5, iceberg_type = 'TABLE'
			WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3 AND metadata_location = $5
			AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)`, append(key, r.pointer, old)...))
	case !was && is:
		if _, err := tx.ExecContext(ctx, `INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
			VALUES ($1, $2, 'exists', 'true') ON CONFLICT DO NOTHING`, key[:2]...); err != nil {
			return err
		}
		n, err = affected(tx.ExecContext(ctx, `INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
			VALUES ($1, $2, $3, $4, 'TABLE') ON CONFLICT DO NOTHING`, append(key, r.pointer)...))
	case was && !is && !r.replaced:
		n, err = affected(tx.ExecContext(ctx, `DELETE FROM iceberg_tables
			WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3 AND metadata_location = $4`, append(key, old)...))
	default:
		return nil
	}
	if err == nil && n == 0 {
		err = &lostSwap{r}
	}
	return err
}

// writeRow stores what changed of an incarnation's own row.
func (l *Lake) writeRow(ctx context.Context, tx *sql.Tx, id string, r *row) error {
	if r.forgotten {
		_, err := tx.ExecContext(ctx, `DELETE FROM streambed_tables WHERE pipeline = $1 AND id = $2`, l.cfg.Pipeline, id)
		return err
	}
	var state []byte
	var err error
	if r.stateChanged {
		if state, err = json.Marshal(&r.state); err != nil {
			return err
		}
	}
	head, err := json.Marshal(&r.head)
	if err != nil {
		return err
	}
	if name := r.state.Table.Name; r.created {
		_, err := tx.ExecContext(ctx, `INSERT INTO streambed_tables (pipeline, id, schema_name, table_name, namespace, published, metadata_location, head, lake_schema, state)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, l.cfg.Pipeline, id, name.Schema, name.Table, namespaceKey(name.Schema),
			integer(r.published), r.pointer, string(head), r.schema, string(state))
		return err
	}
	if r.staged != nil {
		if _, err := tx.ExecContext(ctx, `UPDATE streambed_tables SET metadata_location = $1, head = $2 WHERE pipeline = $3 AND id = $4`,
			r.pointer, string(head), l.cfg.Pipeline, id); err != nil {
			return err
		}
	}
	if r.staged != nil && r.schema != r.inc.schema {
		if _, err := tx.ExecContext(ctx, `UPDATE streambed_tables SET lake_schema = $1 WHERE pipeline = $2 AND id = $3`,
			r.schema, l.cfg.Pipeline, id); err != nil {
			return err
		}
	}
	if r.stateChanged || r.published != r.inc.published {
		if _, err := tx.ExecContext(ctx, `UPDATE streambed_tables SET published = $1, state = $2 WHERE pipeline = $3 AND id = $4`,
			integer(r.published), string(state), l.cfg.Pipeline, id); err != nil {
			return err
		}
	}
	return nil
}

func integer(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (l *Lake) writeCheckpoints(ctx context.Context, tx *sql.Tx, a *attempt) error {
	if m := a.mark; m != nil {
		if _, err := tx.ExecContext(ctx, `INSERT INTO streambed_checkpoints (pipeline, checkpoint, position, commit_time, recorded)
			VALUES ($1, $2, $3, $4, $5)`, l.cfg.Pipeline, m.number, int64(m.position), micros(m.commitTime), micros(m.recorded)); err != nil {
			return err
		}
	}
	for _, number := range a.expired {
		if _, err := tx.ExecContext(ctx, `DELETE FROM streambed_checkpoints WHERE pipeline = $1 AND checkpoint = $2`,
			l.cfg.Pipeline, number); err != nil {
			return err
		}
	}
	return nil
}
