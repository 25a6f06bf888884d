package queryd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/streambed/streambed/test/postgres"
)

func pgError(err error) *pgconn.PgError {
	var pg *pgconn.PgError
	errors.As(err, &pg)
	return pg
}

func TestPgxReadsAndBindsEveryType(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	l.source(db, "types", everyType)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		config, err := pgx.ParseConfig(l.url())
		ok(t, err)
		config.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(t.Context(), config)
		ok(t, err)
		reference, err := pgx.ParseConfig(db.URL())
		ok(t, err)
		reference.DefaultQueryExecMode = mode
		pg, err := pgx.ConnectConfig(t.Context(), reference)
		ok(t, err)
		for _, q := range []struct {
			sql  string
			args []any
		}{
			{"SELECT id FROM types WHERE i4 = $1", []any{int32(2147483647)}},
			{"SELECT id FROM types WHERE i8 = $1 AND i2 < $2", []any{int64(-9223372036854775808), int16(0)}},
			{"SELECT id FROM types WHERE t = $1 OR vc = $2 ORDER BY id", []any{"NULL", "v"}},
			{"SELECT id FROM types WHERE u = $1", []any{"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}},
			{"SELECT id FROM types WHERE d = $1", []any{time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)}},
			{"SELECT id FROM types WHERE tz = $1", []any{time.Date(2024, 2, 29, 6, 30, 0, 123456000, time.UTC)}},
			{"SELECT id FROM types WHERE f8 > $1 ORDER BY id", []any{0.05}},
			{"SELECT id FROM types WHERE b = $1", []any{true}},
			{"SELECT id FROM types WHERE by = $1", []any{[]byte{0, 255, 16}}},
			{"SELECT id FROM types WHERE id = ANY($1) ORDER BY id", []any{[]int32{1, 3, 99}}},
			{"SELECT id FROM types WHERE t = ANY($1) ORDER BY id", []any{[]string{"NULL", `a"b`, ""}}},
			{"SELECT id FROM types WHERE n > $1::numeric ORDER BY id", []any{"1000000000000000.5"}},
			{"SELECT $1::text, $2::int4, $3::timestamptz", []any{"x", int32(5), time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}},
			{"SELECT id FROM types WHERE $1::text IS NULL ORDER BY id LIMIT $2 OFFSET $3", []any{nil, int64(2), int64(1)}},
			{"SELECT id, i2, i4, i8, f4, f8, t, b, u, d, ts, tz, by, ia, ta, js::text FROM types ORDER BY id", nil},
		} {
			want, wantErr := collect(t, pg, q.sql, q.args)
			got, err := collect(t, conn, q.sql, q.args)
			if err != nil || wantErr != nil {
				t.Errorf("mode %s: %s: %v (Postgres: %v)", mode, q.sql, err, wantErr)
				continue
			}
			if want != got {
				t.Errorf("mode %s: %s\ngives    %s\nPostgres %s", mode, q.sql, got, want)
			}
		}
		ok(t, conn.Close(t.Context()))
		ok(t, pg.Close(t.Context()))
	}
}

func collect(t *testing.T, conn *pgx.Conn, sql string, args []any) (string, error) {
	rows, err := conn.Query(t.Context(), sql, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		v, err := rows.Values()
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&b, v...)
	}
	return b.String(), rows.Err()
}

func TestParametersInAtClauses(t *testing.T) {
	l, _, _ := history(t)
	conn := l.connect()
	for _, v := range []any{"1", "0/64"} {
		var s string
		ok(t, conn.QueryRow(t.Context(), "SELECT string_agg(id::text, ',' ORDER BY id) FROM t AT (VERSION => $1) WHERE id < $2", v, 5).Scan(&s))
		if s != "1" {
			t.Errorf("at %v: %s", v, s)
		}
	}
	var s string
	ok(t, conn.QueryRow(t.Context(), "SELECT string_agg(id::text, ',' ORDER BY id) FROM t AT (TIMESTAMP => $1)", l.now.Add(-2*time.Second)).Scan(&s))
	if s != "1,2" {
		t.Error(s)
	}
}

// TestPortalsStopAtTheirRowLimit uses the protocol directly: two portals read in turns, a few rows at a time.
func TestPortalsStopAtTheirRowLimit(t *testing.T) {
	l := newLake(t)
	f := frontend(t, l)
	send := func(m ...pgproto3.FrontendMessage) {
		for _, x := range m {
			f.Send(x)
		}
		ok(t, f.Flush())
	}
	send(&pgproto3.Query{String: "BEGIN"})
	receive(t, f, "C BEGIN", "Z T")
	send(&pgproto3.Parse{Name: "s", Query: "SELECT i FROM range($1::bigint) r(i)", ParameterOIDs: nil}, &pgproto3.Describe{ObjectType: 'S', Name: "s"}, &pgproto3.Bind{PreparedStatement: "s", DestinationPortal: "a", Parameters: [][]byte{[]byte("5")}},
		&pgproto3.Bind{PreparedStatement: "s", DestinationPortal: "b", Parameters: [][]byte{[]byte("3")}}, &pgproto3.Execute{Portal: "a", MaxRows: 2}, &pgproto3.Execute{Portal: "b", MaxRows: 2}, &pgproto3.Execute{Portal: "a", MaxRows: 2},
		&pgproto3.Execute{Portal: "b"}, &pgproto3.Execute{Portal: "a", MaxRows: 2}, &pgproto3.Close{ObjectType: 'P', Name: "a"}, &pgproto3.Sync{})
	receive(t, f, "1", "t 20", "T i", "2", "2", "D 0", "D 1", "s", "D 0", "D 1", "s", "D 2", "D 3", "s", "D 2", "C SELECT 1", "D 4", "C SELECT 1", "3", "Z T")
	// An error skips everything up to Sync, and fails the block.
	send(&pgproto3.Parse{Query: "SELECT nope"}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}, &pgproto3.Query{String: "SELECT 1"}, &pgproto3.Query{String: "ROLLBACK"}, &pgproto3.Parse{Query: ""}, &pgproto3.Bind{}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}, &pgproto3.Sync{})
	receive(t, f, "E 42703", "Z E", "E 25P02", "Z E", "C ROLLBACK", "Z I", "1", "2", "n", "I", "Z I")
	send(&pgproto3.Query{String: "BEGIN; DECLARE c CURSOR FOR SELECT i FROM range(5) r(i); FETCH 2 FROM c; MOVE 1 IN c; FETCH ALL FROM c; CLOSE c; COMMIT; "})
	receive(t, f, "C BEGIN", "C DECLARE CURSOR", "T i", "D 0", "D 1", "C FETCH 2", "C MOVE 1", "T i", "D 3", "D 4", "C FETCH 2", "C CLOSE CURSOR", "C COMMIT", "Z I")
	send(&pgproto3.Query{String: "PREPARE p(int, text) AS SELECT $1 + 1, $2; EXECUTE p(2 * 3, 'x'); DEALLOCATE p; EXECUTE p(1, '')"})
	receive(t, f, "C PREPARE", "T ?column?,?column?", "D 7,x", "C SELECT 1", "C DEALLOCATE", "E 26000", "Z I")
	send(&pgproto3.Query{String: "COPY (SELECT i, 'a\tb' AS s, NULL AS n FROM range(2) r(i)) TO STDOUT; COPY (SELECT 'a,b' AS s, NULL AS n, '' AS e) TO STDOUT (FORMAT csv, HEADER)"})
	receive(t, f, "H", `d 0	a\tb	\N`, `d 1	a\tb	\N`, "c", "C COPY 2", "H", "d s,n,e", `d "a,b",,""`, "c", "C COPY 1", "Z I")
	send(&pgproto3.Query{String: ";"}, &pgproto3.Query{String: "SHOW server_encoding; SET application_name = 'x'; SAVEPOINT a"})
	receive(t, f, "I", "Z I", "T server_encoding", "D UTF8", "C SHOW", "S application_name=x", "C SET", "E 25P01", "Z I")
}

func frontend(t *testing.T, l *testLake) *pgproto3.Frontend {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", l.port))
	ok(t, err)
	t.Cleanup(func() { c.Close() })
	ok(t, c.SetDeadline(time.Now().Add(time.Minute)))
	f := pgproto3.NewFrontend(c, c)
	f.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "analyst", "database": "lake"}})
	ok(t, f.Flush())
	for {
		m, err := f.Receive()
		ok(t, err)
		if _, ready := m.(*pgproto3.ReadyForQuery); ready {
			return f
		}
	}
}

// receive compares the messages that come with a short form of them.
func receive(t *testing.T, f *pgproto3.Frontend, want ...string) {
	t.Helper()
	for i, w := range want {
		m, err := f.Receive()
		ok(t, err)
		if got := short(m); got != w {
			t.Fatalf("message %d is %q, not %q (after %q)", i, got, w, want[:i])
		}
	}
}

func short(m pgproto3.BackendMessage) string {
	join := func(values [][]byte) string {
		parts := make([]string, len(values))
		for i, v := range values {
			parts[i] = string(v)
		}
		return strings.Join(parts, ",")
	}
	switch m := m.(type) {
	case *pgproto3.CommandComplete:
		return "C " + string(m.CommandTag)
	case *pgproto3.ReadyForQuery:
		return "Z " + string(m.TxStatus)
	case *pgproto3.DataRow:
		return "D " + join(m.Values)
	case *pgproto3.RowDescription:
		var names [][]byte
		for _, f := range m.Fields {
			names = append(names, f.Name)
		}
		return "T " + join(names)
	case *pgproto3.ErrorResponse:
		return "E " + m.Code
	case *pgproto3.ParameterDescription:
		return "t " + strings.Trim(fmt.Sprint(m.ParameterOIDs), "[]")
	case *pgproto3.CopyData:
		return "d " + strings.TrimSuffix(string(m.Data), "\n")
	case *pgproto3.ParameterStatus:
		return "S " + m.Name + "=" + m.Value
	case *pgproto3.ParseComplete:
		return "1"
	case *pgproto3.BindComplete:
		return "2"
	case *pgproto3.CloseComplete:
		return "3"
	case *pgproto3.PortalSuspended:
		return "s"
	case *pgproto3.NoData:
		return "n"
	case *pgproto3.EmptyQueryResponse:
		return "I"
	case *pgproto3.CopyOutResponse:
		return "H"
	case *pgproto3.CopyDone:
		return "c"
	}
	return fmt.Sprintf("%T", m)
}

func TestCancelEndsTheStatementAndNotTheSession(t *testing.T) {
	l := newLake(t)
	conn := l.connect()
	for _, sql := range []string{
		"SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)", "SELECT a.i FROM range(1000000000) a(i)",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		results := conn.PgConn().Exec(ctx, sql)
		requests := make(chan struct{})
		go func() {
			defer close(requests)
			for ctx.Err() == nil {
				_ = conn.PgConn().CancelRequest(t.Context())
			}
		}()
		_, err := results.ReadAll()
		cancel()
		if pg := pgError(err); pg == nil || pg.Code != "57014" {
			t.Fatalf("%s: %v", sql, err)
		}
		// A request has had its effect when its connection is closed, so none is left to hit a later statement.
		<-requests
		_, err = conn.Exec(t.Context(), "SELECT 1", pgx.QueryExecModeSimpleProtocol)
		ok(t, err)
	}
	_, err := conn.Exec(t.Context(), "SET statement_timeout = '30ms'")
	ok(t, err)
	_, err = conn.Exec(t.Context(), "SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)")
	if pg := pgError(err); pg == nil || pg.Code != "57014" || !strings.Contains(pg.Message, "timeout") {
		t.Fatal(err)
	}
}

func TestStatementEndsWhenItsClientIsGone(t *testing.T) {
	l := newLake(t)
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", l.port))
	ok(t, err)
	f := pgproto3.NewFrontend(c, c)
	f.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "analyst"}})
	f.Send(&pgproto3.Query{String: "SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)"})
	ok(t, f.Flush())
	postgres.Eventually(t, "the statement to run", l.busy)
	ok(t, c.Close())
	postgres.Eventually(t, "the session to end", func() bool {
		l.server.mu.Lock()
		defer l.server.mu.Unlock()
		return len(l.server.active) == 0
	})
}

// TestClientThatLeavesIsToldOfNoShutdown: a driver that still reads when it has said Terminate takes a FATAL for a fault.
func TestClientThatLeavesIsToldOfNoShutdown(t *testing.T) {
	l := newLake(t)
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", l.port))
	ok(t, err)
	defer c.Close()
	ok(t, c.SetDeadline(time.Now().Add(time.Minute)))
	f := pgproto3.NewFrontend(c, c)
	f.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "analyst"}})
	f.Send(&pgproto3.Query{String: "SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)"})
	f.Send(&pgproto3.Terminate{})
	ok(t, f.Flush())
	ok(t, c.(*net.TCPConn).CloseWrite())
	for {
		m, err := f.Receive()
		if err != nil {
			return // the server has hung up
		}
		if failure, is := m.(*pgproto3.ErrorResponse); is && failure.Severity == "FATAL" {
			t.Fatalf("the client is told: %s", failure.Message)
		}
	}
}

func TestOnlyLoopbackWithoutPasswords(t *testing.T) {
	for listen, allowed := range map[string]bool{"127.0.0.1:0": true, "localhost:0": true, "[::1]:0": true, "0.0.0.0:0": false, ":0": false, "10.0.0.1:5433": false, "example.com:5433": false} {
		o := Options{Listen: listen, Reader: nil, TempDir: t.TempDir()}
		o.Reader = newLake(t).server.options.Reader
		if err := o.complete(); (err == nil) != allowed {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

func TestTooManyClientsAreTurnedAway(t *testing.T) {
	l := newLake(t, func(o *Options) { o.MaxConnections = 2 })
	l.connect()
	l.connect()
	_, err := pgx.Connect(t.Context(), l.url())
	if pg := pgError(err); pg == nil || pg.Code != "53300" {
		t.Fatal(err)
	}
}
