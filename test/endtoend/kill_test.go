package endtoend

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// TestKilledAtEveryCommitPointLosesAndDoublesNothing: at each named point of a commit, of the first one and of later
// one, the process ends as in a crash; what the next one shows is whole at once and equal in the end (promises 1 to 3).
func TestKilledAtEveryCommitPointLosesAndDoublesNothing(t *testing.T) {
	server := postgres.ForTest(t)
	for _, point := range []string{"files put", "metadata put", "swap sent", "swap done", "acknowledged"} {
		for _, times := range []int{1, 4, 20} {
			t.Run(fmt.Sprintf("%s %d", strings.ReplaceAll(point, " ", "_"), times), func(t *testing.T) {
				t.Parallel()
				p := newPipeline(t, server, tables)
				traffic := p.traffic(uint64(times))
				killed := p.start(fmt.Sprintf("STREAMBED_FAILPOINT=%s:%d", point, times))
				if err := killed.end(2 * time.Minute); !endedBySignal(err, syscall.SIGKILL) {
					t.Fatalf("the daemon ended with %v before it came to %q for the %d. time", err, point, times)
				}
				second := p.start()
				second.ready()
				p.whole()
				traffic.end()
				p.same(second, all...)
				second.stop(syscall.SIGTERM)
			})
		}
	}
}

// TestKilledAgainAndAgainLosesAndDoublesNothing: kills at points that nobody chose, under traffic, some before the daemon
// has found its feet.
func TestKilledAgainAndAgainLosesAndDoublesNothing(t *testing.T) {
	p := newPipeline(t, postgres.ForTest(t), tables)
	traffic := p.traffic(7)
	for n := range 5 {
		d := p.start()
		if n%2 == 0 {
			d.ready()
			p.whole()
		} else {
			d.eventually(time.Minute, "a sign of life in the log", func() (bool, string) { return strings.Contains(d.said(), "streambedd runs"), d.tail() })
		}
		d.kill()
	}
	d := p.start()
	d.ready()
	p.whole()
	traffic.end()
	p.same(d, all...)
}

// TestGracefulStopUnderTrafficExitsWithZero: a stop finishes within seconds with exit code 0, and the next start goes on
// from there.
func TestGracefulStopUnderTrafficExitsWithZero(t *testing.T) {
	p := newPipeline(t, postgres.ForTest(t), tables)
	traffic := p.traffic(11)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		d := p.start()
		d.ready()
		p.whole()
		d.stop(signal)
	}
	// Before it is ready a daemon stops as cleanly.
	d := p.start()
	d.eventually(time.Minute, "a sign of life in the log", func() (bool, string) { return strings.Contains(d.said(), "streambedd runs"), d.tail() })
	d.stop(syscall.SIGTERM)
	traffic.end()
	d = p.start()
	d.ready()
	p.same(d, all...)
}

// TestSourceThatCrashesIsWaitedFor: the source restarts without warning; the same process goes on when it is back.
func TestSourceThatCrashesIsWaitedFor(t *testing.T) {
	server := postgres.StartForTest(t)
	p := newPipeline(t, server, tables)
	d := p.start()
	d.ready()
	p.same(d, all...)
	if err := server.Crash(); err != nil {
		t.Fatal(err)
	}
	d.eventually(time.Minute, "the daemon to notice that its source is gone", func() (bool, string) {
		code, out := p.command("status")
		return code == 3 && strings.Contains(out, "trouble"), out
	})
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.source.Exec(t, "insert into log values (1, 'after the crash'); insert into o values (1, 1, 'after the crash')")
	p.same(d, all...)
	d.ready()
}
