package endtoend

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// edit changes the pipeline's configuration.
func (p *pipeline) edit(from, to string) {
	p.t.Helper()
	text, err := os.ReadFile(p.config)
	if err != nil {
		p.t.Fatal(err)
	}
	if !strings.Contains(string(text), from) {
		p.t.Fatalf("the configuration has no %q", from)
	}
	if err := os.WriteFile(p.config, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// lose removes a file or folder of the pipeline, which must be there.
func (p *pipeline) lose(path ...string) {
	p.t.Helper()
	at := filepath.Join(append([]string{p.dir}, path...)...)
	if _, err := os.Stat(at); err != nil {
		p.t.Fatal(err)
	}
	if err := os.RemoveAll(at); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pipeline) loseCatalog() {
	p.t.Helper()
	p.lose("catalog.db")
	for _, more := range []string{"-wal", "-shm"} {
		_ = os.Remove(filepath.Join(p.dir, "catalog.db"+more))
	}
}

// refuses starts the daemon and wants it to end with a sentence that holds a phrase.
func (p *pipeline) refuses(phrase string) {
	p.t.Helper()
	d := p.start()
	if err := d.end(time.Minute); err == nil {
		p.t.Fatalf("the daemon ended without an error:\n%s", d.tail())
	}
	if !strings.Contains(d.tail(), phrase) {
		p.t.Fatalf("the daemon does not say %q:\n%s", phrase, d.tail())
	}
}

// says runs a command and wants its exit code and a phrase.
func (p *pipeline) says(code int, phrase string, args ...string) {
	p.t.Helper()
	got, out := p.command(args...)
	if got != code || !strings.Contains(out, phrase) {
		p.t.Fatalf("%v exits with %d, want %d with %q:\n%s", args, got, code, phrase, out)
	}
}

// TestLostKeyIndexAndLostCatalogLoseNothing: under traffic the daemon is killed and its local state deleted, then killed
// again and its catalog deleted. It refuses to begin anew without one, and after recover nothing is lost or there twice
// (promise 2), nor is a transaction halved (promise 3).
func TestLostKeyIndexAndLostCatalogLoseNothing(t *testing.T) {
	server := postgres.ForTest(t)
	for _, mode := range []string{"dv", "cow", "mor"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := newPipeline(t, server, tables)
			p.edit("mode: dv", "mode: "+mode)
			traffic := p.traffic(31)
			d := p.start()
			d.ready()
			d.kill()
			p.lose("state", "pipeline", "keyindex")
			d = p.start()
			d.ready()
			p.whole()
			d.kill()
			p.loseCatalog()
			p.refuses("streambedd recover")
			p.says(0, "The slot still has everything", "recover")
			p.says(1, "nothing to recover", "recover")
			d = p.start()
			d.ready()
			p.whole()
			traffic.end()
			p.same(d, all...)
			d.stop(syscall.SIGTERM)
		})
	}
}

// TestWhatRecoverCannotMendIsSaidAndResyncAllMendsIt: the slot was advanced by somebody else; and a format whose catalog
// cannot be made anew.
func TestWhatRecoverCannotMendIsSaidAndResyncAllMendsIt(t *testing.T) {
	server := postgres.ForTest(t)
	for _, test := range []struct {
		name, format string
		code         int
		phrase       string
	}{
		{"slot advanced by another", "iceberg", 3, "resync --all"},
		{"ducklake", "ducklake", 1, "put back the catalog's newest copy"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newPipeline(t, server, `create table items(id int primary key, v text); insert into items select g, 'v' || g from generate_series(1, 500) g`)
			if test.format == "ducklake" {
				p.edit("format: iceberg, mode: dv", "format: ducklake")
			}
			d := p.start()
			d.ready()
			p.same(d, "items")
			d.stop(syscall.SIGTERM)
			p.source.Exec(t, `update items set v = 'changed unseen' where id % 3 = 0`)
			p.source.Exec(t, `select pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) from pg_replication_slots where database = current_database()`)
			p.loseCatalog()
			p.refuses("resync --all")
			p.says(test.code, test.phrase, "recover")
			p.says(0, "copied anew", "resync", "--all")
			d = p.start()
			d.ready()
			p.source.Exec(t, `insert into items values (9001, 'after')`)
			p.same(d, "items")
		})
	}
}
