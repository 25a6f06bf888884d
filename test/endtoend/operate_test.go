package endtoend

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// TestSecondDaemonSaysSoAndDoesNoHarm: whether or not it shares the state folder, the second one ends with a sentence, and
// the first goes on (promise 8).
func TestSecondDaemonSaysSoAndDoesNoHarm(t *testing.T) {
	p := newPipeline(t, postgres.ForTest(t), tables)
	first := p.start()
	first.ready()
	other, _, page := p.configure("other.yaml", "other-state")
	for name, second := range map[string]*daemon{"same state folder": p.start(), "state folder of its own": p.startOn(other, page)} {
		err := second.end(30 * time.Second)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() <= 0 {
			t.Errorf("%s: the second daemon ended with %v, want an exit code that is not 0", name, err)
		}
		lines := strings.Split(strings.TrimSpace(second.said()), "\n")
		if last := strings.ToLower(lines[len(lines)-1]); !strings.Contains(last, "another streambed") {
			t.Errorf("%s: its last line is %q", name, last)
		}
	}
	p.source.Exec(t, "insert into log values (1, 'still here'); insert into o values (1, 1, 'still here')")
	p.same(first, all...)
	p.whole()
	first.stop(syscall.SIGTERM)
}

// TestOperatorsCommandsTellTheTruth: check, status, snapshots, verify and teardown on a pipeline that runs, and on one that
// does not.
func TestOperatorsCommandsTellTheTruth(t *testing.T) {
	p := newPipeline(t, postgres.ForTest(t), tables)
	expect := func(code int, phrases []string, args ...string) {
		t.Helper()
		got, out := p.command(args...)
		if got != code {
			t.Errorf("%v exits with %d, want %d:\n%s", args, got, code, out)
		}
		for _, phrase := range phrases {
			if !strings.Contains(out, phrase) {
				t.Errorf("%v does not say %q:\n%s", args, phrase, out)
			}
		}
	}
	expect(0, []string{"memory 256MiB"}, "check")
	expect(3, []string{"not running"}, "status")
	d := p.start()
	d.ready()
	p.source.Exec(t, "update a set x = x + 1 where id = 1; update b set x = x - 1 where id = 1")
	p.same(d, all...)
	expect(0, []string{"streaming, ready", "public.a", "public.log", "append-only"}, "status")
	expect(0, []string{"CHECKPOINT", "SOURCE COMMIT TIME"}, "snapshots", "--table", "public.a")
	expect(1, []string{"no table public.none"}, "snapshots", "--table", "public.none")
	expect(0, []string{"public.a: 50 rows", "equal"}, "verify", "--table", "public.a")
	expect(0, []string{"public.log: 0 rows", "equal"}, "verify", "--table", "public.log")
	expect(1, []string{"public.none"}, "verify", "--table", "public.none")
	expect(1, []string{"stop it first"}, "teardown")
	d.stop(syscall.SIGTERM)
	expect(3, []string{"not running", "public.a"}, "status")
	p.source.Exec(t, "update a set x = x + 1 where id = 1")
	expect(3, []string{"different", "id=1", "x", "is behind"}, "verify", "--table", "public.a", "--wait", "0")
	expect(0, nil, "teardown")
	for _, left := range []string{"select slot_name from pg_replication_slots where database = current_database()", "select pubname from pg_publication"} {
		if rows := p.source.Query(t, left); len(rows) != 0 {
			t.Errorf("teardown left %v", rows)
		}
	}
}
