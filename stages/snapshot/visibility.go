package snapshot

import (
	"context"
	"fmt"
	"strconv"
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
			if visible, err = parseSnapshot(text); err != nil {
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

// parseSnapshot reads a pg_snapshot's text form, "xmin:xmax:xip,xip...": a transaction is visible when it had ended
// before the snapshot, that is below xmax and not in the list. The stream names transactions by the lower 32 bits, which
// are compared with wrap-around as Postgres does.
func parseSnapshot(text string) (func(xid uint32) bool, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return nil, fmt.Errorf("%q is not a snapshot", text)
	}
	xmax, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is not a snapshot: %w", text, err)
	}
	running := map[uint32]bool{}
	for _, s := range strings.FieldsFunc(parts[2], func(r rune) bool { return r == ',' }) {
		xid, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a snapshot: %w", text, err)
		}
		running[uint32(xid)] = true
	}
	return func(xid uint32) bool {
		return int32(xid-uint32(xmax)) < 0 && !running[xid]
	}, nil
}
