package source

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/lsn"
)

// InsertLSN gives a position at or after the end of everything committed when it was called, and sees to it that the
// stream reaches it also on a source where nothing else happens: what lies before it is flushed, and the header of a WAL
// page that holds nothing yet is not counted. On a standby it is the position that has been replayed. It blocks for a
// commit at most.
func InsertLSN(ctx context.Context, conn *pgx.Conn) (lsn.LSN, error) {
	const query = `SELECT pg_is_in_recovery(),
		CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END::text,
		CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END::text,
		current_setting('wal_block_size')::bigint, pg_size_bytes(current_setting('wal_segment_size'))`
	var (
		recovering         bool
		insert, flush      string
		blockSize, segment int64
	)
	err := conn.QueryRow(ctx, query).Scan(&recovering, &insert, &flush, &blockSize, &segment)
	if err != nil {
		return 0, fmt.Errorf("source's WAL position cannot be read: %w", err)
	}
	position, err := lsn.Parse(insert)
	if err != nil {
		return 0, err
	}
	flushed, err := lsn.Parse(flush)
	if err != nil {
		return 0, err
	}
	position = beforePageHeader(position, lsn.LSN(blockSize), lsn.LSN(segment))
	if !recovering && flushed < position {
		forceFlush(ctx, conn)
	}
	return position, ctx.Err()
}

// The sizes of WAL page headers: long ones begin a segment.
const shortPageHeader, longPageHeader = 24, 40

// beforePageHeader steps back over the header of a page without a record. Where the next record goes just behind a
// header, the server's end of written WAL is the page's start, and no sent position will pass it before the next record.
// A position at 40 in another page than a segment's first is a true end of a record that ran over from the page before.
func beforePageHeader(position, blockSize, segment lsn.LSN) lsn.LSN {
	start := position - position%blockSize
	header := lsn.LSN(shortPageHeader)
	if start%segment == 0 {
		header = longPageHeader
	}
	if position-start == header {
		return start
	}
	return position
}

// forceFlush commits a message that no one reads: on an idle server, records without a commit behind them could stay in
// memory until the next checkpoint. Where the role may not do it, the background writer gets there within seconds.
func forceFlush(ctx context.Context, conn *pgx.Conn) {
	// Local is enough, and does not wait for a synchronous standby.
	_, _ = conn.PgConn().Exec(ctx, `BEGIN; SET LOCAL synchronous_commit = local;
		SELECT pg_logical_emit_message(true, 'streambed', ''); COMMIT`).ReadAll()
	if conn.PgConn().TxStatus() != 'I' {
		_, _ = conn.Exec(ctx, "ROLLBACK")
	}
}

// Snapshot tells which transactions may still be open: every transaction below Xmin has ended, none from Xmax on has
// been given its id.
type Snapshot struct {
	Xmin, Xmax uint64
}

// TakeSnapshot reads which transactions are open now.
//
// Xmax is the next id to be given out, not the server's own pg_snapshot_xmax: that one is just above the newest
// transaction that has *ended*, and an open transaction may well have a higher id. age() counts from the next id on, in
// 32 bits, on a standby too.
func TakeSnapshot(ctx context.Context, conn *pgx.Conn) (Snapshot, error) {
	var xmin, xmax int64
	var age int32
	err := conn.QueryRow(ctx, `SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint, age('3'::xid)
		FROM pg_current_snapshot() s`).Scan(&xmin, &xmax, &age)
	if err != nil {
		return Snapshot{}, fmt.Errorf("source's snapshot cannot be read: %w", err)
	}
	// The next id is at or a little above xmax: the difference of their low halves is how far.
	next := uint64(xmax) + uint64(uint32(age)+3-uint32(xmax))
	return Snapshot{Xmin: uint64(xmin), Xmax: next}, nil
}

// Holder is a transaction that is being waited for.
type Holder struct {
	// PID is the backend's; 0 for a prepared transaction, whose name is in Application.
	PID               int32
	User, Application string
	// Age is the transaction's; 0 when we may not see it (membership in pg_read_all_stats shows it).
	Age   time.Duration
	State string
}

// String names the holder and what can be done about it.
func (h Holder) String() string {
	if h.PID == 0 {
		return fmt.Sprintf("prepared transaction %s of %s, %s old (end it with COMMIT PREPARED or ROLLBACK PREPARED)",
			QuoteLiteral(h.Application), h.User, h.Age.Round(time.Second))
	}
	return fmt.Sprintf("backend %d (%s, %s, %s) with a transaction of %s", h.PID, h.User, h.Application, h.State, h.Age.Round(time.Second))
}

// openPoll is how often open transactions are looked at after a while, openFirst the wait before the second look: most end
// at once. openReport is how often those that are waited for are reported.
const openFirst, openPoll, openReport = 2 * time.Millisecond, 100 * time.Millisecond, 5 * time.Second

// WaitForOpenTransactions blocks until every transaction that could have been open in the given snapshot has ended, or
// ctx ends. waiting, which may be nil, is told soon after the wait begins and every few seconds who is waited for.
func WaitForOpenTransactions(ctx context.Context, conn *pgx.Conn, since Snapshot, waiting func([]Holder)) error {
	begun, reported := time.Now(), time.Time{}
	return poll(ctx, func() (bool, error) {
		now, err := TakeSnapshot(ctx, conn)
		if err != nil || now.Xmin >= since.Xmax {
			return true, err
		}
		if waiting != nil && time.Since(begun) > openPoll && time.Since(reported) >= openReport {
			holders, err := holders(ctx, conn, since)
			if err != nil {
				return true, err
			}
			waiting(holders)
			reported = time.Now()
		}
		return false, nil
	})
}

// poll calls f, first after short waits and then after openPoll, until it is done or fails, or ctx ends.
func poll(ctx context.Context, f func() (done bool, err error)) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for wait := openFirst; ; wait = min(2*wait, openPoll) {
		if done, err := f(); done || err != nil {
			return err
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// holders lists the open transactions that began before the end of a snapshot.
func holders(ctx context.Context, conn *pgx.Conn, since Snapshot) ([]Holder, error) {
	const query = `SELECT pid, COALESCE(usename, ''), application_name, COALESCE(state, ''),
			COALESCE(extract(epoch FROM clock_timestamp() - xact_start), 0)::float8, backend_xid
		FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
		UNION ALL
		SELECT 0, owner, gid, 'prepared', extract(epoch FROM clock_timestamp() - prepared)::float8, transaction FROM pg_prepared_xacts`
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	var all []Holder
	var h Holder
	var age float64
	var xid uint32
	_, err = pgx.ForEachRow(rows, []any{&h.PID, &h.User, &h.Application, &h.State, &age, &xid}, func() error {
		// 32-bit ids wrap around: the older of two is the one behind.
		if int32(xid-uint32(since.Xmax)) < 0 {
			h.Age = time.Duration(age * float64(time.Second))
			all = append(all, h)
		}
		return nil
	})
	return all, err
}

// WaitForCommit blocks until new snapshots see a transaction that the stream has told of, which is usually so when it is
// called: a commit is decoded from the WAL a moment before other sessions see it, or longer before when it waits for a
// synchronous standby. It gives up after within, with false.
func WaitForCommit(ctx context.Context, conn *pgx.Conn, xid uint32, within time.Duration) (seen bool, err error) {
	begun := time.Now()
	err = poll(ctx, func() (bool, error) {
		var text string
		if err := conn.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&text); err != nil {
			return true, fmt.Errorf("source's snapshot cannot be read: %w", err)
		}
		visible, err := Visible(text)
		if err != nil {
			return true, err
		}
		seen = visible(xid)
		return seen || time.Since(begun) >= within, nil
	})
	return seen, err
}

// Visible reads a pg_snapshot's text form, "xmin:xmax:xip,xip...": a transaction is visible when it had ended
// before the snapshot, that is below xmax and not in the list. The stream names transactions by the lower 32 bits, which
// are compared with wrap-around as Postgres does.
func Visible(text string) (func(xid uint32) bool, error) {
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
