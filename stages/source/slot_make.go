package source

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/lsn"
)

// ErrSlotUnsettled means that the source's tables were altered each time a slot was made. Try again later.
var ErrSlotUnsettled = errors.New("the source's tables changed while its replication slot was made")

// slotAttempts bounds how often a slot is thrown away and made again in one go.
const slotAttempts = 5

// makeSlot makes a slot whose view of the catalog can be trusted.
//
// The server gathers that view in two phases, each of which waits for the transactions open at its beginning. A transaction
// that begins and ends inside the first phase is missing in the view under which transactions are decoded that begin in
// the second phase and end after it. If it altered a table, their changes come without the new columns, or decoding fails
// with "could not map filenode to relation OID" each time that it comes to the place (seen with 15 to 18). So a slot is
// thrown away if the catalog changed while it was made.
func makeSlot(ctx context.Context, conn *pgx.Conn, cfg *Config) (lsn.LSN, error) {
	for range slotAttempts {
		before, err := TakeSnapshot(ctx, conn)
		if err != nil {
			return 0, err
		}
		position, err := createSlot(ctx, conn, cfg)
		if err != nil {
			return 0, fmt.Errorf("replication slot %s cannot be made: %w", cfg.Slot, err)
		}
		altered, err := catalogChanged(ctx, conn, before.Xmax)
		if err == nil && !altered {
			return position, nil
		}
		if drop := DropSlot(ctx, conn, cfg.Slot); drop != nil || err != nil {
			return 0, errors.Join(err, drop)
		}
	}
	return 0, fmt.Errorf("%w: slot %s was made %d times in vain; it works once no table is created or altered for as long as the longest open transaction takes", ErrSlotUnsettled, cfg.Slot, slotAttempts)
}

// createSlot makes a slot. On a standby the primary is asked meanwhile to log what the server waits for.
func createSlot(ctx context.Context, conn *pgx.Conn, cfg *Config) (lsn.LSN, error) {
	nudge, stop := context.WithCancel(ctx)
	defer stop()
	if cfg.PrimaryURL != "" && cfg.PrimaryURL != cfg.URL {
		go logStandbySnapshots(nudge, cfg.PrimaryURL)
	}
	create := "SELECT lsn::text FROM pg_create_logical_replication_slot($1, 'pgoutput')"
	if ServerVersion(conn.PgConn()) >= 17 {
		// A slot of a primary is kept on its standbys too, where they are set up for it, and survives their promotion.
		create = "SELECT lsn::text FROM pg_create_logical_replication_slot($1, 'pgoutput', failover => NOT pg_is_in_recovery())"
	}
	var position string
	if err := conn.QueryRow(ctx, create, cfg.Slot).Scan(&position); err != nil {
		return 0, err
	}
	return lsn.Parse(position)
}

// DropSlot drops a slot that nobody reads; it is no error if there is none.
func DropSlot(ctx context.Context, conn *pgx.Conn, slot string) error {
	_, err := conn.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1", slot)
	if err != nil {
		return fmt.Errorf("replication slot %s cannot be dropped: %w", slot, err)
	}
	return nil
}

// catalogChanged tells whether a transaction with the given id or a later one has left its mark in those parts of the
// catalog that decoding looks into. Temporary tables do not count: their changes are not decoded.
func catalogChanged(ctx context.Context, conn *pgx.Conn, since uint64) (changed bool, err error) {
	namespace := ""
	if ServerVersion(conn.PgConn()) >= 15 {
		namespace = "UNION ALL SELECT xmin FROM pg_publication_namespace"
	}
	// Ids wrap around: the younger one has the smaller age. Those of rows that have always been there have the greatest.
	err = conn.QueryRow(ctx, `WITH c AS MATERIALIZED (SELECT oid, xmin FROM pg_class WHERE relpersistence <> 't'), marks(xmin) AS (
		SELECT xmin FROM c
		UNION ALL SELECT a.xmin FROM pg_attribute a JOIN c ON c.oid = a.attrelid
		UNION ALL SELECT i.xmin FROM pg_index i JOIN c ON c.oid = i.indrelid
		UNION ALL SELECT xmin FROM pg_type WHERE typtype IN ('d', 'e')
		UNION ALL SELECT xmin FROM pg_enum
		UNION ALL SELECT xmin FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'
		UNION ALL SELECT xmin FROM pg_publication
		UNION ALL SELECT xmin FROM pg_publication_rel `+namespace+`)
		SELECT EXISTS (SELECT FROM marks WHERE age(xmin) <= age($1::text::xid))`, strconv.FormatUint(uint64(uint32(since)), 10)).Scan(&changed)
	if err != nil {
		return false, fmt.Errorf("catalog of the source cannot be read: %w", err)
	}
	return changed, nil
}

// logStandbySnapshots has an idle primary log its running transactions, every second until ctx ends: a slot on its
// standby is not made before that. Without the privilege the primary does it by itself every few minutes.
func logStandbySnapshots(ctx context.Context, url string) {
	conn, err := Connect(ctx, url, "slot")
	if err != nil {
		return
	}
	defer CloseConn(conn)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if _, err := conn.Exec(ctx, "SELECT pg_log_standby_snapshot()"); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
