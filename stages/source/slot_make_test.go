package source

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/test/postgres"
)

// TestASlotMadeDuringDDLDecodesWhatWasAltered plays the one interleaving in which the server's view of its catalog misses
// an altered table, and wants a slot of ours to decode it all the same.
func TestASlotMadeDuringDDLDecodesWhatWasAltered(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, "CREATE TABLE base (id int PRIMARY KEY); CREATE TABLE held (id int)")
	if err := EnsurePublications(t.Context(), f.conn, f.cfg); err != nil {
		t.Fatal(err)
	}
	if err := AddTable(t.Context(), f.conn, f.cfg, f.discover(t)["public.base"]); err != nil {
		t.Fatal(err)
	}
	f.madeDuring(t, "CREATE TABLE fresh (id int PRIMARY KEY); ALTER TABLE base ADD added int", func(ctx context.Context, conn *pgx.Conn) (lsn.LSN, error) {
		return createSlot(ctx, conn, f.cfg)
	}, "INSERT INTO fresh VALUES (1); INSERT INTO base VALUES (1, 7)")
	if err := f.decodes(t); err == nil || !strings.Contains(err.Error(), "could not map filenode") {
		t.Skipf("this server has no such fault: %v", err)
	}
	if err := DropSlot(t.Context(), f.conn, f.cfg.Slot); err != nil {
		t.Fatal(err)
	}
	f.madeDuring(t, "CREATE TABLE fresher (id int PRIMARY KEY); ALTER TABLE base ADD again int", func(ctx context.Context, conn *pgx.Conn) (lsn.LSN, error) {
		_, at, err := EnsureSlot(ctx, conn, f.cfg)
		return at, err
	}, "INSERT INTO fresher VALUES (1); INSERT INTO base VALUES (2, 7, 8)")
	f.Exec(t, "INSERT INTO base VALUES (3, 7, 8)")
	if err := f.decodes(t); err != nil {
		t.Fatal(err)
	}
	if got := f.relations(t)["public.base"]; got == nil || len(got.Columns) != 3 {
		t.Errorf("the stream shows base as %+v", got)
	}
}

// madeDuring makes a slot while one transaction after another is open: the DDL falls into the first phase of its making,
// the changes begin in the second and end after it.
func (f *fixture) madeDuring(t *testing.T, ddl string, make func(context.Context, *pgx.Conn) (lsn.LSN, error), changes string) {
	t.Helper()
	run := func(conn *pgx.Conn, sql string) {
		t.Helper()
		if _, err := conn.PgConn().Exec(t.Context(), "SET search_path = public; "+sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	maker, first, second, third := connect(t, f.cfg.URL), connect(t, f.cfg.URL), connect(t, f.cfg.URL), connect(t, f.cfg.URL)
	waitsFor := func(holder *pgx.Conn) {
		t.Helper()
		postgres.Eventually(t, "the slot's making to wait for a transaction", func() bool {
			return f.Query(t, "SELECT "+itoa(holder.PgConn().PID())+" = ANY (pg_blocking_pids("+itoa(maker.PgConn().PID())+"))")[0][0] == "t"
		})
	}
	run(first, "BEGIN; INSERT INTO held VALUES (1)")
	made := asked(func() error {
		_, err := make(deadline(t), maker)
		return err
	})
	waitsFor(first)
	run(second, "BEGIN; INSERT INTO held VALUES (2)")
	f.Exec(t, ddl)
	run(first, "COMMIT")
	waitsFor(second)
	run(third, "BEGIN; "+changes)
	run(second, "COMMIT")
	finished := asked(func() error { _, err := third.Exec(t.Context(), "COMMIT"); return err })
	for _, outcome := range []<-chan error{finished, made} {
		if err := <-outcome; err != nil {
			t.Fatal(err)
		}
	}
}

// asked runs f beside the caller.
func asked(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// decodes tells whether the server can decode what the slot holds.
func (f *fixture) decodes(t *testing.T) error {
	t.Helper()
	_, err := f.conn.Exec(t.Context(), `SELECT count(*) FROM pg_logical_slot_peek_binary_changes($1, NULL, NULL, 'proto_version', '1', 'publication_names', $2)`,
		f.cfg.Slot, Quote(f.cfg.Publication)+","+Quote(f.cfg.AppendPublication()))
	return err
}
