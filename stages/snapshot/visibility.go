package snapshot

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/stages/source"
)

// exportSnapshot opens a transaction whose snapshot others can take over, and tells which transactions it sees. A standby
// does not tell which transactions are open in a snapshot, only from which to which: one in which none is open is waited for
// there, and ErrNotYet given if there is none for a while.
func exportSnapshot(ctx context.Context, conn *pgx.Conn) (tx pgx.Tx, name string, visible func(xid uint32) bool, err error) {
	recovering, err := source.InRecovery(ctx, conn)
	if err != nil {
		return nil, "", nil, err
	}
	again := time.NewTicker(quietPoll)
	defer again.Stop()
	for range quietAttempts {
		var text string
		if tx, name, text, err = takeSnapshot(ctx, conn); err != nil {
			return nil, "", nil, err
		}
		if !recovering || quiet(text) {
			if visible, err = source.Visible(text); err != nil {
				rollback(tx)
			}
			return tx, name, visible, err
		}
		rollback(tx)
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, "", nil, context.Cause(ctx)
		}
	}
	return nil, "", nil, fmt.Errorf("%w: a table without a key is copied from a standby at a moment when no transaction is open, and there was none for %s", ErrNotYet, quietAttempts*quietPoll)
}

// quietPoll is how often a standby is looked at for a moment without open transactions, quietAttempts how many times.
const quietPoll, quietAttempts = 10 * time.Millisecond, 500

// quiet reports whether no transaction is open in a snapshot's text form, "xmin:xmax:...".
func quiet(text string) bool {
	parts := strings.Split(text, ":")
	return len(parts) == 3 && parts[0] == parts[1]
}

func takeSnapshot(ctx context.Context, conn *pgx.Conn) (tx pgx.Tx, name, text string, err error) {
	tx, err = conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, "", "", err
	}
	if err = tx.QueryRow(ctx, `SELECT pg_export_snapshot(), pg_current_snapshot()::text`).Scan(&name, &text); err != nil {
		rollback(tx)
		return nil, "", "", fmt.Errorf("the source's snapshot cannot be taken: %w", err)
	}
	return tx, name, text, nil
}
