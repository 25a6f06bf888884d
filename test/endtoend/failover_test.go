package endtoend

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// TestAFailoverSlotSurvivesTheLossOfThePrimary: the slot of a primary is kept on its standby, and the pipeline goes on from
// there when the primary is gone, by itself where its URL names both. The primary sends a change only after the standby has
// it, so that the lake is never ahead of what is promoted.
func TestAFailoverSlotSurvivesTheLossOfThePrimary(t *testing.T) {
	t.Parallel()
	primary := serverWithFailoverSlots(t)
	p := newPipeline(t, primary, twoTables+"; CREATE TABLE log (line text); INSERT INTO log VALUES ('first')")
	standby, err := postgres.StartStandby(t.Context(), primary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Close() })
	set(t, primary, "synchronized_standby_slots", "standby")
	both := fmt.Sprintf("postgres:///%s?user=postgres&host=127.0.0.1,127.0.0.1&port=%d,%d&target_session_attrs=read-write", p.source.Name, primary.Port, standby.Port)
	p.edit(p.source.URL(), both)
	d := p.start()
	d.ready()
	change := func() {
		p.source.Exec(t, "INSERT INTO one SELECT max(id) + 1, 'new' FROM one; UPDATE two SET v = v || '+'; DELETE FROM one WHERE id = (SELECT min(id) FROM one); INSERT INTO log VALUES ('line')")
	}
	change()
	p.same(d, "one", "two", "log")
	set(t, standby, "sync_replication_slots", "on")
	promoted := &postgres.Database{Server: standby, Name: p.source.Name}
	d.eventually(90*time.Second, "the slot on the standby", func() (bool, string) {
		change() // a source that rests is looked at every 30 s only
		p.source.Exec(t, "SELECT pg_log_standby_snapshot()")
		slots := promoted.Query(t, "SELECT synced AND NOT temporary AND failover FROM pg_replication_slots WHERE slot_type = 'logical'")
		return len(slots) == 1 && slots[0][0] == "t", fmt.Sprint(slots)
	})
	change()
	last, err := strconv.Atoi(p.source.Query(t, "SELECT max(id) FROM one")[0][0])
	if err != nil {
		t.Fatal(err)
	}
	d.eventually(time.Minute, "the standby to have all that was committed", func() (bool, string) {
		at := promoted.Query(t, "SELECT max(id) FROM one")[0][0]
		return at == strconv.Itoa(last), at
	})
	if err := primary.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.source = promoted
	change()
	p.same(d, "one", "two", "log")
	if again := p.source.Query(t, "SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'logical' AND failover")[0][0]; again != "1" {
		t.Errorf("the promoted server has %s slots", again)
	}
	d.stop(15)
	change()
	d = p.start()
	p.same(d, "one", "two", "log")
}

// serverWithFailoverSlots starts a server of version 17 or newer; the test is skipped where there is none.
func serverWithFailoverSlots(t *testing.T) *postgres.Server {
	t.Helper()
	for _, version := range []string{"17", "18"} {
		server, err := postgres.Start(t.Context(), postgres.Options{Version: version})
		if errors.Is(err, postgres.ErrNoBinaries) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Close() })
		return server
	}
	t.Skip("failover slots need Postgres 17 or 18, of which no binaries were found: deploy/testservers.sh postgres17 fetches them")
	return nil
}

// set changes a setting of a running server.
func set(t *testing.T, server *postgres.Server, name, value string) {
	t.Helper()
	for _, sql := range []string{"ALTER SYSTEM SET " + name + " = '" + value + "'", "SELECT pg_reload_conf()"} {
		if err := server.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}
