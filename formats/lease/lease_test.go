package lease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/streambed/streambed/test/postgres"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	_ "modernc.org/sqlite"
)

// tables gives a fresh table of leases in each kind of catalog.
func tables(t *testing.T) map[string]*Table {
	t.Helper()
	lite, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "catalog.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgx.ParseConfig(postgres.ForTest(t).Database(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	pg := stdlib.OpenDB(*config)
	all := map[string]*Table{"sqlite": {Write: lite, Read: lite, Pipeline: "shop", Clock: SQLiteClock}, "postgres": {Write: pg, Read: pg, Pipeline: "shop", Clock: PostgresClock}}
	for _, table := range all {
		table.Missing = func(err error) bool {
			return strings.Contains(err.Error(), "no such table") || strings.Contains(err.Error(), "does not exist")
		}
		if _, err := table.Write.Exec(Statement); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { table.Write.Close() })
	}
	return all
}

func oldest(t *testing.T, table *Table) Oldest {
	t.Helper()
	o, err := table.Oldest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestLeaseLastsAsLongAsTheOldestQuery follows what maintenance may delete while queries of two processes come and go.
func TestLeaseLastsAsLongAsTheOldestQuery(t *testing.T) {
	for name, table := range tables(t) {
		t.Run(name, func(t *testing.T) {
			if o := oldest(t, table); o.Holders != 0 || o.Since != o.Now || time.Until(time.UnixMicro(o.Now)).Abs() > time.Minute {
				t.Fatalf("without holders: %+v", o)
			}
			log := zap.NewNop()
			one, other := Hold(t.Context(), table, 20*time.Millisecond, log), Hold(t.Context(), table, 20*time.Millisecond, log)
			defer other.Close()
			first := one.Begin()
			first.At(7)
			began := oldest(t, table).Now
			second := other.Begin()
			second.At(9)
			// The margin passes by in no test: what is looked at is which query decides.
			reads := func(checkpoint int64) func() bool {
				return func() bool { return oldest(t, table).Checkpoint == checkpoint }
			}
			postgres.Eventually(t, "both processes' leases", func() bool { o := oldest(t, table); return o.Holders == 2 && o.Checkpoint == 7 })
			if o := oldest(t, table); o.Since > began {
				t.Errorf("since %d, but a query began before %d", o.Since, began)
			}
			one.Begin().End()
			first.End()
			first.End()
			held := oldest(t, table).Now
			postgres.Eventually(t, "the lease to follow the second query", func() bool { o := oldest(t, table); return o.Checkpoint == 0 || o.Checkpoint == 9 })
			postgres.Eventually(t, "the moment of the oldest query to move on", func() bool {
				return oldest(t, table).Since > began-margin.Microseconds()
			})
			if o := oldest(t, table); o.Since > held {
				t.Errorf("since %d, but a query that began before %d still reads", o.Since, held)
			}
			one.Close()
			postgres.Eventually(t, "one lease", func() bool { return oldest(t, table).Holders == 1 })
			postgres.Eventually(t, "the second query's checkpoint", reads(9))
			second.End()
			postgres.Eventually(t, "a lease without queries", reads(0))
		})
	}
}

// TestDeadProcessKeepsNothing finds the lease of a process that was killed.
func TestDeadProcessKeepsNothing(t *testing.T) {
	for name, table := range tables(t) {
		if err := table.beat(t.Context(), "dead", 3, time.Hour); err != nil {
			t.Fatal(err)
		}
		if o := oldest(t, table); o.Holders != 1 || o.Since > o.Now-time.Hour.Microseconds() || o.Checkpoint != 3 {
			t.Errorf("%s: while it lives: %+v", name, o)
		}
		if _, err := table.Write.Exec(`UPDATE streambed_leases SET heartbeat = heartbeat - $1`, Expiry.Microseconds()+1); err != nil {
			t.Fatal(err)
		}
		if o := oldest(t, table); o.Holders != 0 || o.Since != o.Now {
			t.Errorf("%s: after it is dead: %+v", name, o)
		}
	}
}

// TestCatalogThatCannotBeWrittenIsToldOnce reads without a lease.
func TestCatalogThatCannotBeWrittenIsToldOnce(t *testing.T) {
	if os.Getuid() < 0 {
		t.Skip("no users here")
	}
	for name, table := range tables(t) {
		readOnly := *table
		if name == "sqlite" {
			var path string
			if err := table.Read.QueryRow("SELECT file FROM pragma_database_list").Scan(&path); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			readOnly.Write, readOnly.Read = db, db
		} else if _, err := table.Write.Exec("ALTER DATABASE " + database(t, table) + " SET default_transaction_read_only = on"); err != nil {
			t.Fatal(err)
		} else {
			table.Write.SetMaxIdleConns(0) // the next connection has the setting
		}
		core, logs := observer.New(zap.WarnLevel)
		h := Hold(t.Context(), &readOnly, time.Hour, zap.New(core))
		h.beat(t.Context())
		h.Begin().End()
		h.Close()
		if logs.Len() != 1 {
			t.Errorf("%s: %d lines in the log, not 1", name, logs.Len())
		}
		missing := readOnly
		missing.Missing = func(error) bool { return true }
		if err := missing.write(t.Context(), "x", 0, 0); !errors.Is(err, errNothingYet) {
			t.Errorf("%s: a catalog without the table gives %v", name, err)
		}
	}
}

func database(t *testing.T, table *Table) (name string) {
	t.Helper()
	if err := table.Read.QueryRowContext(context.Background(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%q", name)
}
