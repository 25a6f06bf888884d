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

// standby starts a second daemon of the pipeline that waits for the first, and returns once it does. Its own addresses
// become the pipeline's.
func (p *pipeline) standby() *daemon {
	p.t.Helper()
	config, query, page := p.configure("standby.yaml", "standby-state")
	d := p.launch(page, []string{"run", "--standby", "--config", config})
	d.eventually(time.Minute, "the second daemon to stand by", func() (bool, string) {
		return strings.Contains(d.said(), "standing by"), d.tail()
	})
	p.config, p.query, p.page = config, query, page
	return d
}

// TestStandbyTakesOverFromAKilledDaemon: the second daemon serves queries while it waits, says that it is not the one, and
// goes on where the first was killed, under traffic (promises 2 and 8).
func TestStandbyTakesOverFromAKilledDaemon(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.ForTest(t), tables)
	traffic := p.traffic(21)
	first := p.start()
	first.ready()
	second := p.standby()
	p.whole()
	if code, out := p.command("status"); code != 0 || !strings.Contains(out, "standby") {
		t.Errorf("status of the standby exits with %d: %s", code, out)
	}
	first.kill()
	second.ready()
	p.whole()
	traffic.end()
	p.same(second, all...)
	second.stop(syscall.SIGTERM)
}

// TestStandbyOnTheSameStateFolderTakesOver: with one configuration for both, the second waits for the first one's folder.
func TestStandbyOnTheSameStateFolderTakesOver(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.ForTest(t), tables)
	first := p.start()
	first.ready()
	second := p.launch(p.page, []string{"--standby", "--config", p.config})
	second.eventually(time.Minute, "the second daemon to stand by", func() (bool, string) {
		return strings.Contains(second.said(), "standing by"), second.tail()
	})
	first.stop(syscall.SIGTERM)
	second.ready()
	p.source.Exec(t, "insert into log values (1, 'taken over'); insert into o values (1, 1, 'taken over')")
	p.same(second, all...)
}

// TestADaemonThatLostItsLockWhileItHungIsFenced: the first daemon is stopped in its tracks and its lock given to the
// standby; when it wakes it must notice, commit nothing more and end with a sentence.
func TestADaemonThatLostItsLockWhileItHungIsFenced(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.ForTest(t), tables)
	traffic := p.traffic(22)
	first := p.start()
	first.ready()
	second := p.standby()
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.source.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'streambed%' and datname = current_database() and pid <> pg_backend_pid()")
	second.ready()
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := first.end(time.Minute); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the first daemon ended with %v, want exit code 1", err)
	}
	if said := strings.ToLower(first.tail()); !strings.Contains(said, "another streambed") {
		t.Errorf("the first daemon does not say who took over:\n%s", first.tail())
	}
	p.whole()
	traffic.end()
	p.same(second, all...)
}
