package queryd

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats/lease"
	"github.com/streambed/streambed/test/postgres"
)

// TestServerTellsTheCatalogWhatItsSessionsRead opens blocks, cursors and queries of the past, ends them in the ways they
// may end, and asks as maintenance does.
func TestServerTellsTheCatalogWhatItsSessionsRead(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t, func(o *Options) { o.LeaseInterval = 10 * time.Millisecond })
	table := l.source(db, "t", "CREATE TABLE t(id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 10)")
	for i := range uint32(3) {
		l.remove(table, 0, i)
	}
	leases := l.lake.Leases()
	reads := func(checkpoint int64) {
		t.Helper()
		var o lease.Oldest
		postgres.Eventually(t, "the lease to name the checkpoint that is read", func() bool {
			var err error
			o, err = leases.Oldest(t.Context())
			ok(t, err)
			return o.Holders == 1 && o.Checkpoint == checkpoint
		})
	}
	run := func(conn *pgx.Conn, statements ...string) {
		t.Helper()
		for _, sql := range statements {
			_, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
			ok(t, err)
		}
	}
	newest := l.number
	reads(0)
	block, past, gone := l.connect(), l.connect(), l.connect()
	run(block, "SELECT * FROM t", "BEGIN", "SELECT * FROM t")
	reads(newest)
	l.remove(table, 0, 7)
	run(past, "BEGIN", "DECLARE c CURSOR FOR SELECT * FROM t AT (VERSION => 2)", "FETCH 1 FROM c")
	reads(2)
	run(past, "ROLLBACK")
	reads(newest)
	run(gone, "BEGIN", "SELECT * FROM t AT (VERSION => 1)", "DECLARE c CURSOR FOR SELECT * FROM t AT (VERSION => 1)")
	reads(1)
	ok(t, gone.Close(context.Background()))
	reads(newest)
	run(block, "COMMIT")
	reads(0)
	if _, err := past.Exec(t.Context(), "SELECT nope FROM t AT (VERSION => 1)"); err == nil {
		t.Error("a column that does not exist was found")
	}
	reads(0)
}
