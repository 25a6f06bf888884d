package endtoend

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// TestASlotThatKeepsTooMuchIsGivenUp: with source.max_slot_wal the source's disk comes before the pipeline, which says so
// and can be begun anew.
func TestASlotThatKeepsTooMuchIsGivenUp(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.StartForTest(t), twoTables)
	p.edit(`tables: ["public.*"]`, `tables: ["public.*"], max_slot_wal: 64MiB`)
	d := p.start()
	d.ready()
	p.same(d, "one", "two")
	if code, out := p.command("pause"); code != 0 {
		t.Fatalf("pause: %s", out)
	}
	p.source.Exec(t, "UPDATE one SET v = 'unseen'; SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1000000)) FROM generate_series(1, 96)")
	if err := d.end(time.Minute); err == nil {
		t.Error("the daemon ended as if nothing had happened")
	}
	if said := d.said(); !strings.Contains(said, "max_slot_wal") || !strings.Contains(said, "resync --all") {
		t.Errorf("the reason or the remedy is missing:\n%s", d.tail())
	}
	if left := p.source.Query(t, "SELECT slot_name FROM pg_replication_slots"); len(left) != 0 {
		t.Fatalf("the source still keeps WAL for %v", left)
	}
	if out, err := exec.Command(binary, "resync", "--all", "--config", p.config).CombinedOutput(); err != nil {
		t.Fatalf("resync --all: %v\n%s", err, out)
	}
	d = p.start()
	d.says("paused")
	if code, out := p.command("resume"); code != 0 {
		t.Fatalf("resume: %s", out)
	}
	p.same(d, "one", "two")
}
