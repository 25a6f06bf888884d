package source

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/test/postgres"
)

// startStandby makes a hot standby of a server.
func startStandby(t testing.TB, primary *postgres.Server) *postgres.Server {
	t.Helper()
	standby, err := postgres.StartStandby(t.Context(), primary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Close(); err != nil {
			t.Error(err)
		}
	})
	return standby
}

func TestAStandbyIsReadAndItsPrimaryPublishes(t *testing.T) {
	primary := postgres.StartForTest(t)
	f := fixtureOn(t, primary)
	f.Exec(t, "CREATE TABLE t (id int PRIMARY KEY)")
	standby := startStandby(t, primary)
	f.cfg.PrimaryURL, f.cfg.URL = f.URL(), standby.DatabaseURL(f.Name)
	conn := connect(t, f.cfg.URL)
	system, err := Identify(t.Context(), f.cfg.URL)
	if err != nil || !system.InRecovery {
		t.Fatalf("%+v, %v", system, err)
	}
	main, err := Identify(t.Context(), f.cfg.PrimaryURL)
	if err != nil || main.InRecovery || main.Identity != system.Identity {
		t.Errorf("the primary is %+v, its standby %+v, %v", main, system, err)
	}
	// A position of the primary is reached, and what was committed before it is seen.
	if err := EnsurePublications(t.Context(), f.conn, f.cfg); err != nil {
		t.Fatal(err)
	}
	if err := AddTable(t.Context(), f.conn, f.cfg, f.discover(t)["public.t"]); err != nil {
		t.Fatal(err)
	}
	goal, err := InsertLSN(t.Context(), f.conn)
	if err != nil {
		t.Fatal(err)
	}
	postgres.Eventually(t, "the standby to replay "+goal.String(), func() bool {
		at, err := InsertLSN(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		return at >= goal
	})
	tables, err := Discover(t.Context(), conn, f.cfg)
	if err != nil || len(tables) != 1 || tables[0].Publication != f.cfg.Publication {
		t.Errorf("the standby shows %+v, %v", tables, err)
	}
	f.openTransactionCounts(t, conn)
	l, err := AcquireLock(t.Context(), f.cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = AcquireLock(t.Context(), f.cfg)
	mustBe(t, err, ErrLocked)
	l.Release()
	if err := standby.Exec(t.Context(), "ALTER SYSTEM SET hot_standby_feedback = off"); err != nil {
		t.Fatal(err)
	}
	if err := standby.Exec(t.Context(), "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	postgres.Eventually(t, "the standby to give no feedback", func() bool {
		rows, err := standby.Query(t.Context(), "SHOW hot_standby_feedback")
		return err == nil && rows[0][0] == "off"
	})
	findings := f.check(t)
	var old, feedback bool
	for _, finding := range findings {
		feedback = feedback || strings.Contains(finding.Text, "hot_standby_feedback")
		old = old || strings.Contains(finding.Text, "decodes changes only on a primary")
	}
	if old != (system.Version < 16) || !feedback {
		t.Errorf("found %+v", findings)
	}
	if done, err := Teardown(t.Context(), f.cfg); err != nil || len(f.Query(t, "SELECT 1 FROM pg_publication")) != 0 {
		t.Errorf("%q, %v", done, err)
	}
}

// openTransactionCounts proves that a transaction open at the primary is waited for on the standby.
func (f *fixture) openTransactionCounts(t *testing.T, standby *pgx.Conn) {
	t.Helper()
	open := connect(t, f.cfg.PrimaryURL)
	if _, err := open.PgConn().Exec(t.Context(), "BEGIN; INSERT INTO public.t VALUES (1)").ReadAll(); err != nil {
		t.Fatal(err)
	}
	goal, err := InsertLSN(t.Context(), f.conn)
	if err != nil {
		t.Fatal(err)
	}
	var since Snapshot
	postgres.Eventually(t, "the standby to know of the open transaction", func() bool {
		at, err := InsertLSN(t.Context(), standby)
		if err != nil {
			t.Fatal(err)
		}
		since, err = TakeSnapshot(t.Context(), standby)
		if err != nil {
			t.Fatal(err)
		}
		return at >= goal
	})
	waited := make(chan error, 1)
	go func() { waited <- WaitForOpenTransactions(deadline(t), standby, since, nil) }()
	if now, err := TakeSnapshot(t.Context(), connect(t, f.cfg.URL)); err != nil || now.Xmin >= since.Xmax {
		t.Errorf("the open transaction does not count: %+v, then %+v, %v", since, now, err)
	}
	if _, err := open.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}
