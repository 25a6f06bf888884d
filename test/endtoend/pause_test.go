package endtoend

import (
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// shows waits until status says a phrase.
func (p *pipeline) shows(d *daemon, phrase string) {
	p.t.Helper()
	d.eventually(time.Minute, "status to say "+phrase, func() (bool, string) {
		_, out := p.command("status")
		return strings.Contains(out, phrase), out
	})
}

// TestPauseCommitsNothingAndResumeGoesOn: while paused, also over a restart, the lake stays as it is and is readable, and
// the slot keeps what comes; resume loses none of it.
func TestPauseCommitsNothingAndResumeGoesOn(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.ForTest(t), tables)
	traffic := p.traffic(41)
	d := p.start()
	d.ready()
	p.says(0, "Paused", "pause")
	held := func() string {
		t.Helper()
		got, err := rows(t.Context(), p.lakeURL(), "select count(*), max(id) from public.o")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(got, "")
	}
	before := held()
	p.whole()
	p.says(3, "source keeps its WAL", "status")
	d.stop(syscall.SIGTERM)
	d = p.start()
	p.shows(d, "paused")
	if after := held(); after != before {
		t.Errorf("the paused lake went from %s to %s", before, after)
	}
	p.says(0, "Resumed", "resume")
	d.ready()
	p.whole()
	traffic.end()
	p.same(d, all...)
}

// TestADroppedTableStaysUntilItIsCleanedUp: it is marked, readable, and goes with its files when it is told to, under
// traffic on the others; a table that is followed cannot be cleaned up.
func TestADroppedTableStaysUntilItIsCleanedUp(t *testing.T) {
	server := postgres.ForTest(t)
	for _, format := range []string{"iceberg", "ducklake"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			p := newPipeline(t, server, tables+"create table gone(id int primary key, v text); insert into gone select g, 'v' from generate_series(1, 100) g;")
			if format == "ducklake" {
				p.edit("format: iceberg, mode: dv", "format: ducklake")
			}
			traffic := p.traffic(42)
			d := p.start()
			d.ready()
			p.says(1, "is followed by this pipeline", "cleanup", "--table", "public.gone")
			p.source.Exec(t, "drop table gone")
			p.shows(d, "dropped")
			count := func() string {
				got, err := rows(t.Context(), p.lakeURL(), "select count(*) from public.gone")
				if err != nil {
					return err.Error()
				}
				return got[0]
			}
			if got := count(); got != `"100"` {
				t.Errorf("the dropped table reads as %s", got)
			}
			d.stop(syscall.SIGTERM)
			d = p.start()
			p.shows(d, "dropped")
			p.says(0, "is gone from the lake", "cleanup", "--table", "public.gone", "--grace", "0s")
			p.says(1, "no table public.gone", "cleanup", "--table", "public.gone")
			d.eventually(time.Minute, "the table to be gone for readers", func() (bool, string) { got := count(); return strings.Contains(got, "gone"), got })
			d.eventually(time.Minute, "its files to be deleted", func() (bool, string) {
				left := ""
				_ = filepath.WalkDir(filepath.Join(p.dir, "warehouse", "public", "gone"), func(path string, e fs.DirEntry, err error) error {
					if err == nil && !e.IsDir() {
						left = path
					}
					return nil
				})
				return left == "", left
			})
			d.ready()
			for range 20 {
				p.whole()
			}
			traffic.end()
			p.same(d, all...)
		})
	}
}
