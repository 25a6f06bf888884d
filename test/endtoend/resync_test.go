package endtoend

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// TestALostSlotIsSaidAndResyncAllMends drops the slot while the daemon is down: what happened since cannot be known from
// the stream, so the daemon must not go on, and the command that it names must help.
func TestALostSlotIsSaidAndResyncAllMends(t *testing.T) {
	server := postgres.ForTest(t)
	p := newPipeline(t, server, `CREATE TABLE items (id int PRIMARY KEY, v text);
		INSERT INTO items SELECT g, 'v' || g FROM generate_series(1, 500) g`)
	d := p.start()
	d.ready()
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	if err := d.end(time.Minute); err != nil {
		t.Fatal("graceful stop: ", err)
	}
	p.source.Exec(t, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database();
		UPDATE items SET v = 'changed unseen' WHERE id % 3 = 0; DELETE FROM items WHERE id % 7 = 0`)

	stopped := p.start()
	if err := stopped.end(time.Minute); err == nil {
		t.Fatal("the daemon went on without its slot")
	}
	if said := stopped.said(); !strings.Contains(said, "resync --all") {
		t.Fatalf("the daemon does not name the remedy:\n%s", said)
	}
	if out, err := exec.Command(binary, "resync", "--all", "--config", p.config).CombinedOutput(); err != nil {
		t.Fatalf("resync --all: %v\n%s", err, out)
	}
	p.source.Exec(t, `INSERT INTO items VALUES (9001, 'between')`)
	again := p.start()
	again.ready()
	p.source.Exec(t, `INSERT INTO items VALUES (9002, 'after')`)
	p.same(again, "items")
}

// TestACopyMadeAnewHasTheColumnThatCameJustBefore: the stream tells of a new column once, before the copy begins, so the
// copy must look at the table after it was asked for.
func TestACopyMadeAnewHasTheColumnThatCameJustBefore(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.ForTest(t), `CREATE TABLE items (id int PRIMARY KEY, v text);
		INSERT INTO items SELECT g, 'v' || g FROM generate_series(1, 20) g`)
	d := p.start()
	d.ready()
	p.source.Exec(t, `ALTER TABLE items ADD more int DEFAULT 5; UPDATE items SET v = 'changed' WHERE id = 4`)
	p.same(d, "items")
	if out, err := exec.Command(binary, "resync", "--table", "public.items", "--config", p.config).CombinedOutput(); err != nil {
		t.Fatalf("resync: %v\n%s", err, out)
	}
	d.eventually(time.Minute, "the new copy to be live", func() (bool, string) {
		said := d.said()
		return strings.Count(said, "table is live") == 2, said
	})
	p.same(d, "items")
}

// TestAnAlterIsSeenWholeAlthoughItsCommitWaitsForASynchronousStandby: the stream sends a commit that no session sees yet,
// here for as long as no standby answers. The catalog does not show the new column until then, and the table needs no
// new copy for that.
func TestAnAlterIsSeenWholeAlthoughItsCommitWaitsForASynchronousStandby(t *testing.T) {
	t.Parallel()
	server := postgres.StartForTest(t)
	p := newPipeline(t, server, `CREATE TABLE items (id int PRIMARY KEY, v text, n numeric(10,2));
		INSERT INTO items SELECT g, 'v' || g, g FROM generate_series(1, 20) g`)
	d := p.start()
	d.ready()
	standbys := func(names string) {
		p.source.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'")
		p.source.Exec(t, "SELECT pg_reload_conf()")
		postgres.Eventually(t, "the server to reload its settings", func() bool {
			return p.source.Query(t, "SHOW synchronous_standby_names")[0][0] == names
		})
	}
	standbys("nobody")
	done := make(chan error, 1)
	waits := p.source.Connect(t)
	go func() {
		_, err := waits.Exec(t.Context(), `BEGIN; ALTER TABLE items ADD more int DEFAULT 5; ALTER TABLE items ALTER n TYPE numeric(12,2);
			UPDATE items SET v = 'changed', n = 1234567890.12 WHERE id = 4; COMMIT`).ReadAll()
		done <- err
	}()
	postgres.Eventually(t, "the commit to wait for a standby", func() bool {
		return len(p.source.Query(t, "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'")) > 0
	})
	postgres.Eventually(t, "the daemon to look for the commit", func() bool {
		return len(p.source.Query(t, "SELECT FROM pg_stat_activity WHERE application_name LIKE 'streambed%' AND query LIKE 'SELECT pg_current_snapshot()%'")) > 0
	})
	standbys("")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	p.same(d, "items")
	if said := d.said(); strings.Contains(said, "set aside") {
		t.Errorf("the table was set aside:\n%s", said)
	}
}

// TestAColumnReplacedByOneThatLooksTheSameIsNotTakenForIt: the stream describes both by the same words. Rows come between
// the replacement and a change that it does show, and the catalog is read when all of it has happened.
func TestAColumnReplacedByOneThatLooksTheSameIsNotTakenForIt(t *testing.T) {
	t.Parallel()
	server := postgres.ForTest(t)
	for name, changes := range map[string]string{
		"and then another comes": `ALTER TABLE items DROP v, ADD v text; UPDATE items SET v = 'second' WHERE id < 5;
			ALTER TABLE items ADD more int DEFAULT 5; UPDATE items SET more = 6 WHERE id = 3`,
		"and is renamed": `ALTER TABLE items DROP v, ADD v text; UPDATE items SET v = 'second' WHERE id < 5;
			ALTER TABLE items RENAME v TO w; UPDATE items SET w = 'third' WHERE id = 3`,
		"after it has just come": `ALTER TABLE items ADD more int; UPDATE items SET more = 6 WHERE id < 9;
			ALTER TABLE items DROP more, ADD more int; UPDATE items SET v = 'x' WHERE id = 2`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPipeline(t, server, `CREATE TABLE items (id int PRIMARY KEY, v text); INSERT INTO items SELECT g, 'first' FROM generate_series(1, 20) g`)
			d := p.start()
			d.ready()
			p.source.Exec(t, "UPDATE items SET v = 'changed' WHERE id = 20")
			p.same(d, "items")
			d.stop(15)
			for statement := range strings.SplitSeq(changes, ";") {
				p.source.Exec(t, statement)
			}
			p.same(p.start(), "items")
		})
	}
}
