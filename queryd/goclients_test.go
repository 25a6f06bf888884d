package queryd

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/streambed/streambed/test/postgres"
)

// busy tells whether a session runs a statement.
func (l *testLake) busy() bool {
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	for _, n := range l.server.active {
		n.mu.Lock()
		running := n.cancel != nil
		n.mu.Unlock()
		if running {
			return true
		}
	}
	return false
}

// secureClientLake is a lake with the clients' tables behind a password and TLS, and the Postgres with the same tables.
func secureClientLake(t *testing.T) (l *testLake, db *postgres.Database, conninfo string) {
	t.Helper()
	db = postgres.ForTest(t).Database(t)
	l, certificate := secureLake(t)
	db.Exec(t, clientTables)
	for _, table := range []string{"types", "lines", "Mixed Case"} {
		l.copyTable(db, "public", table)
	}
	return l, db, fmt.Sprintf("host=localhost port=%d user=analyst password='s3cret ü' dbname=lake sslmode=verify-full sslrootcert=%s", l.port, certificate)
}

// TestPsqlOverTLS does what a user of psql does: describe, prepare, read, and Ctrl-C.
func TestPsqlOverTLS(t *testing.T) {
	path, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("psql is not installed")
	}
	l, db, conninfo := secureClientLake(t)
	run := func(conninfo string) string {
		cmd := exec.CommandContext(t.Context(), path, "-X", "-v", "ON_ERROR_STOP=1", "-v", "note=two", conninfo)
		cmd.Env = append(os.Environ(), "PGTZ=UTC")
		cmd.Stdin = strings.NewReader(`\d types
\d "Mixed Case"
PREPARE p(int, text) AS SELECT id, note, price FROM lines WHERE line >= $1 AND note = $2;
EXECUTE p(1, 'two');
SELECT id FROM lines WHERE note = :'note';
SELECT * FROM types ORDER BY id;
\copy (SELECT * FROM lines ORDER BY id) TO STDOUT CSV HEADER
`)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.ReplaceAll(string(out), "| mood ", "| text ")
	}
	want, got := strings.Split(run(fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=%s", db.Server.Port, db.Name)), "\n"), strings.Split(run(conninfo), "\n")
	for i, w := range want {
		// A column that is no part of the key may be null in the lake.
		w, g := strings.TrimSpace(strings.ReplaceAll(w, "not null", "        ")), ""
		if i < len(got) {
			g = strings.TrimSpace(strings.ReplaceAll(got[i], "not null", "        "))
		}
		if strings.Join(strings.Fields(g), " ") != strings.Join(strings.Fields(w), " ") {
			t.Errorf("line %d\n%s\nand from Postgres\n%s", i+1, g, w)
		}
	}
	cmd := exec.CommandContext(t.Context(), path, "-X", conninfo, "-c", longQuery)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	ok(t, cmd.Start())
	postgres.Eventually(t, "psql's statement to run", l.busy)
	ok(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	if !strings.Contains(said.String(), "canceling statement due to user request") {
		t.Errorf("after Ctrl-C psql says %q", said.String())
	}
}

// TestDatabaseSQLOverTLS uses pgx in its default mode through database/sql.
func TestDatabaseSQLOverTLS(t *testing.T) {
	l, _, conninfo := secureClientLake(t)
	config, err := pgx.ParseConfig(conninfo)
	ok(t, err)
	db := stdlib.OpenDB(*config)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2 ORDER BY ordinal_position", "public", "lines")
	ok(t, err)
	var columns []string
	for rows.Next() {
		var name, typ string
		ok(t, rows.Scan(&name, &typ))
		columns = append(columns, name+" "+typ)
	}
	ok(t, rows.Err())
	if got := strings.Join(columns, ", "); got != "order_id integer, line integer, id integer, note character varying, price numeric" {
		t.Errorf("columns %s", got)
	}
	var note sql.NullString
	var price sql.NullString
	ok(t, db.QueryRowContext(t.Context(), "SELECT note, price FROM lines WHERE order_id = $1 AND line = $2", 1, 2).Scan(&note, &price))
	if note.String != "two" || price.String != "2.25" {
		t.Errorf("%v %v", note, price)
	}
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	ok(t, err)
	all, err := tx.QueryContext(t.Context(), "SELECT * FROM types ORDER BY id")
	ok(t, err)
	names, err := all.Columns()
	ok(t, err)
	n := 0
	for all.Next() {
		cells := make([]any, len(names))
		for i := range cells {
			cells[i] = &cells[i]
		}
		ok(t, all.Scan(cells...))
		n++
	}
	if ok(t, all.Err()); n != 4 {
		t.Errorf("%d rows", n)
	}
	ok(t, tx.Commit())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(ctx, longQuery)
		ended <- err
	}()
	postgres.Eventually(t, "the statement to run", l.busy)
	cancel()
	if err := <-ended; err == nil {
		t.Error("a cancelled statement ended well")
	}
	postgres.Eventually(t, "the statement to end", func() bool { return !l.busy() })
	var one string
	ok(t, db.QueryRowContext(t.Context(), "SELECT $1::text", strconv.Itoa(1)).Scan(&one))
}
