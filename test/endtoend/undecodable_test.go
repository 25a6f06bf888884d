package endtoend

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/streambed/streambed/test/postgres"
)

// TestASlotThatCannotBeDecodedAnyMoreIsSaidAndResyncAllMendsIt: somebody made the slot while tables were altered, and the
// server comes to the place that it cannot decode ("could not map filenode") when the slot has moved already.
func TestASlotThatCannotBeDecodedAnyMoreIsSaidAndResyncAllMendsIt(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.StartForTest(t), "CREATE TABLE base (id int PRIMARY KEY); CREATE TABLE held (id int)")
	p.source.Exec(t, "CREATE PUBLICATION streambed_"+p.source.Name+" FOR ALL TABLES")
	third := p.badSlot("CREATE TABLE fresh (id int PRIMARY KEY); ALTER TABLE base ADD added int", "INSERT INTO fresh VALUES (1); INSERT INTO base VALUES (1, 7)")
	confirmed := func() string {
		return p.source.Query(t, "SELECT confirmed_flush_lsn FROM pg_replication_slots")[0][0]
	}
	first := confirmed()
	d := p.start()
	p.source.Exec(t, "INSERT INTO held VALUES (3)")
	d.eventually(time.Minute, "the slot to move", func() (bool, string) { return confirmed() != first, first })
	if _, err := third.Exec(t.Context(), "COMMIT").ReadAll(); err != nil {
		t.Fatal(err)
	}
	committed := p.source.Query(t, "SELECT pg_current_wal_insert_lsn()")[0][0]
	passed := false
	postgres.Eventually(t, "the daemon to end", func() bool {
		select {
		case <-d.exited:
			return true
		default:
			passed = p.source.Query(t, "SELECT confirmed_flush_lsn >= '"+committed+"' FROM pg_replication_slots")[0][0] == "t"
			return passed
		}
	})
	if passed {
		t.Skip("this server has no such fault: it decoded what its slot had missed")
	}
	if err := d.end(time.Minute); err == nil || !strings.Contains(d.tail(), "run `streambedd resync --all`, which makes another slot") {
		t.Fatalf("the daemon ended with %v:\n%s", err, d.tail())
	}
	p.says(0, "copied anew", "resync", "--all")
	d = p.start()
	d.ready()
	p.source.Exec(t, "INSERT INTO fresh VALUES (2); INSERT INTO base VALUES (2, 8)")
	p.same(d, "base", "fresh", "held")
}

// badSlot makes the pipeline's slot so that the server misses the DDL in its view of the catalog: that falls into the first
// phase of the slot's making. The transaction of the changes begins in the second phase, and is given while it is open.
func (p *pipeline) badSlot(ddl, changes string) *pgconn.PgConn {
	p.t.Helper()
	run := func(conn *pgconn.PgConn, sql string) {
		p.t.Helper()
		if _, err := conn.Exec(p.t.Context(), sql).ReadAll(); err != nil {
			p.t.Fatal(err)
		}
	}
	session := func() *pgconn.PgConn {
		p.t.Helper()
		conn, err := pgconn.Connect(p.t.Context(), p.source.URL())
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(p.t.Context())) })
		return conn
	}
	maker, first, second, third := session(), session(), session(), session()
	run(first, "BEGIN; INSERT INTO held VALUES (1)")
	made := make(chan error, 1)
	go func() {
		_, err := maker.Exec(p.t.Context(), "SELECT pg_create_logical_replication_slot('streambed_"+p.source.Name+"', 'pgoutput')").ReadAll()
		made <- err
	}()
	waitsFor := func(holder *pgconn.PgConn) {
		p.t.Helper()
		postgres.Eventually(p.t, "the slot's making to wait for a transaction", func() bool {
			return p.source.Query(p.t, fmt.Sprintf("SELECT %d = ANY (pg_blocking_pids(%d))", holder.PID(), maker.PID()))[0][0] == "t"
		})
	}
	waitsFor(first)
	run(second, "BEGIN; INSERT INTO held VALUES (2)")
	p.source.Exec(p.t, ddl)
	run(first, "COMMIT")
	waitsFor(second)
	run(third, "BEGIN; "+changes)
	run(second, "COMMIT")
	if err := <-made; err != nil {
		p.t.Fatal(err)
	}
	return third
}
