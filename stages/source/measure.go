package source

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Measure replaces the estimated Pages of a table and its leaves by the true ones, for the chunks of a copy. It locks
// each relation against being dropped for a moment (ACCESS SHARE) and waits at most 2 s for that: ErrLockTimeout.
// ErrTableGone when one does not exist any more.
func Measure(ctx context.Context, conn *pgx.Conn, t *Table) error {
	sizes := make(map[uint32]*int64)
	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, setLockTimeout); err != nil {
			return err
		}
		oids := []uint32{t.OID}
		for _, leaf := range t.Leaves {
			oids = append(oids, leaf.OID)
		}
		rows, err := tx.Query(ctx, `SELECT r, pg_relation_size(r::regclass) / current_setting('block_size')::bigint FROM unnest($1::oid[]) r`, oids)
		if err != nil {
			return err
		}
		var oid uint32
		var pages *int64
		_, err = pgx.ForEachRow(rows, []any{&oid, &pages}, func() error {
			sizes[oid] = pages
			pages = nil
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("table %s cannot be measured: %w", Show(t.Name), typed(err))
	}
	for oid, pages := range sizes {
		if pages == nil {
			return fmt.Errorf("table %s cannot be measured: %w (oid %d)", Show(t.Name), ErrTableGone, oid)
		}
	}
	t.Pages = uint32(*sizes[t.OID])
	for i := range t.Leaves {
		t.Leaves[i].Pages = uint32(*sizes[t.Leaves[i].OID])
		t.Pages += t.Leaves[i].Pages
	}
	return nil
}
