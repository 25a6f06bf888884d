package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

var shared struct {
	mu      sync.Mutex
	servers map[string]*Server
}

// ForTest gives a running server that all tests of the process with the same settings ("name=value") share; it ends with
// the process. A test works in a database of its own (Server.Database) and must neither stop nor reconfigure the server:
// for that it starts one with StartForTest. Without binaries the test is skipped.
func ForTest(t testing.TB, settings ...string) *Server {
	t.Helper()
	key := slices.Clone(settings)
	slices.Sort(key)
	name := strings.Join(key, "\n")
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if s := shared.servers[name]; s != nil {
		return s
	}
	s := start(t, settings)
	if shared.servers == nil {
		shared.servers = map[string]*Server{}
	}
	shared.servers[name] = s
	return s
}

// StartForTest starts a server that belongs to one test, which may stop and crash it. Without binaries the test is
// skipped.
func StartForTest(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := start(t, settings)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of Postgres' log:\n%s", s.Log())
		}
		if err := s.Close(); err != nil {
			t.Errorf("closing Postgres: %v", err)
		}
	})
	return s
}

func start(t testing.TB, settings []string) *Server {
	t.Helper()
	o := Options{Settings: map[string]string{}}
	for _, setting := range settings {
		name, value, ok := strings.Cut(setting, "=")
		if !ok {
			t.Fatalf("%q is not a setting: expected name=value", setting)
		}
		o.Settings[name] = value
	}
	s, err := Start(t.Context(), o)
	if errors.Is(err, ErrNoBinaries) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Database is one database of a server.
type Database struct {
	Server *Server
	Name   string
}

var databases atomic.Int64

// Database makes a new, empty database. When the test ends, its connections are cut, its replication slots are dropped,
// and it is dropped.
func (s *Server) Database(t testing.TB) *Database {
	t.Helper()
	d := &Database{s, fmt.Sprintf("test_%d", databases.Add(1))}
	if err := s.Exec(t.Context(), "CREATE DATABASE "+d.Name); err != nil {
		t.Fatalf("making a database for the test: %v", err)
	}
	t.Cleanup(func() {
		if !s.running() {
			return
		}
		// The test's own context is over by now.
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := d.drop(ctx); err != nil {
			t.Errorf("dropping the test's database: %v", err)
		}
	})
	return d
}

func (s *Server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process != nil
}

// drop retries: a walsender told to end holds its slot for a moment.
func (d *Database) drop(ctx context.Context) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := d.Server.Exec(ctx, fmt.Sprintf(`
SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = '%[1]s' AND active;
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '%[1]s'`, d.Name))
		if err == nil {
			return d.Server.Exec(ctx, "DROP DATABASE "+d.Name+" WITH (FORCE)")
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// URL is the superuser's connection string.
func (d *Database) URL() string { return d.Server.DatabaseURL(d.Name) }

// Exec runs statements, separated by semicolons, each group in one implicit transaction. It fails the test on an error.
func (d *Database) Exec(t testing.TB, sql string) {
	t.Helper()
	if err := execute(t.Context(), d.URL(), sql); err != nil {
		t.Fatal(err)
	}
}

// Query gives the rows of the last statement as text; NULL reads as "". It fails the test on an error.
func (d *Database) Query(t testing.TB, sql string) [][]string {
	t.Helper()
	rows, err := query(t.Context(), d.URL(), sql)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Connect opens a connection that closes when the test ends.
func (d *Database) Connect(t testing.TB) *pgconn.PgConn {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), d.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Eventually calls condition until it is true, and fails the test with what was waited for after half a minute.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !condition() {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
