package source

import (
	"errors"
	"strings"
	"testing"

	"github.com/streambed/streambed/test/postgres"
)

// TestWhatTheStandbysPrimaryLacksIsFoundWithWhatMendsIt: a role that begins with nothing on the primary of the standby that
// is followed is led to what it needs there.
func TestWhatTheStandbysPrimaryLacksIsFoundWithWhatMendsIt(t *testing.T) {
	t.Parallel()
	primary := startOneOf(t, "18", "17", "16")
	f := fixtureOn(t, primary)
	f.Exec(t, "CREATE TABLE t (id int PRIMARY KEY)")
	role, url := f.role(t, "REPLICATION")
	standby := startStandby(t, primary)
	f.cfg.PrimaryURL, f.cfg.URL = url, strings.Replace(url, "port="+itoa(uint32(primary.Port)), "port="+itoa(uint32(standby.Port)), 1)
	heals := func(text string, severity Severity, restart bool) {
		t.Helper()
		finding := f.eventually(t, text, true)
		if finding.Severity != severity {
			t.Errorf("%+v", finding)
		}
		f.mend(t, finding)
		if restart {
			if err := primary.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		f.eventually(t, text, false)
	}
	heals("log its running transactions", Warning, false)
	heals("may not read table public.t", Error, false)
	heals("may not make publications in this database", Error, false)
	f.Exec(t, "CREATE TABLE late (id int PRIMARY KEY); GRANT SELECT ON late TO "+Quote(role))
	heals("may not put table public.late into publication", Error, false)
	f.Exec(t, "ALTER SYSTEM SET wal_level = 'replica'")
	if err := primary.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	heals("wal_level is replica on the primary", Error, true)
	for _, left := range f.check(t) {
		if left.Severity == Error {
			t.Errorf("still %+v", left)
		}
	}
	right := f.cfg.PrimaryURL
	f.cfg.PrimaryURL = strings.Replace(url, "dbname="+f.Name, "dbname=postgres", 1)
	f.eventually(t, "leads to database", true)
	f.cfg.PrimaryURL = f.cfg.URL
	f.eventually(t, "leads to a standby", true)
	f.cfg.PrimaryURL = right
	if err := standby.Exec(t.Context(), "ALTER SYSTEM SET primary_slot_name = ''"); err != nil {
		t.Fatal(err)
	}
	if err := standby.Exec(t.Context(), "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	f.eventually(t, "without a physical slot", true)
}

// TestAStandbyThatHoldsTheSlotUpIsFound: the source waits for the standbys of synchronized_standby_slots.
func TestAStandbyThatHoldsTheSlotUpIsFound(t *testing.T) {
	t.Parallel()
	primary := startOneOf(t, "18", "17")
	f := fixtureOn(t, primary)
	f.Exec(t, "CREATE TABLE t (id int PRIMARY KEY)")
	standby := startStandby(t, primary)
	f.Exec(t, "ALTER SYSTEM SET synchronized_standby_slots = 'standby'")
	f.Exec(t, "SELECT pg_reload_conf()")
	text := "synchronized_standby_slots names standby, which no standby reads"
	f.eventually(t, text, false)
	if err := standby.Stop(postgres.Fast); err != nil {
		t.Fatal(err)
	}
	f.mend(t, f.eventually(t, text, true))
	f.eventually(t, text, false)
}

// eventually waits until check says something, or does not say it any more: a standby follows its primary a little later.
func (f *fixture) eventually(t *testing.T, text string, there bool) (found *Finding) {
	t.Helper()
	postgres.Eventually(t, "what check says of "+text, func() bool {
		findings, err := Check(t.Context(), f.cfg)
		if err != nil {
			return false // the standby lost its primary's answer, or a connection
		}
		found = nil
		for i := range findings {
			if strings.Contains(findings[i].Text, text) {
				found = &findings[i]
			}
		}
		return (found != nil) == there
	})
	return found
}

// startOneOf starts a server of the first of these versions that can be had; without any the test is skipped.
func startOneOf(t *testing.T, versions ...string) *postgres.Server {
	t.Helper()
	for _, version := range versions {
		server, err := postgres.Start(t.Context(), postgres.Options{Version: version})
		if errors.Is(err, postgres.ErrNoBinaries) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
		return server
	}
	t.Skipf("none of Postgres %s was found: deploy/testservers.sh fetches them", strings.Join(versions, ", "))
	return nil
}
