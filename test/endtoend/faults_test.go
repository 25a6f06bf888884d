package endtoend

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/streambed/streambed/test/postgres"
)

// TestAChangedPasswordIsWaitedForAndHeals: the source refuses the password that the daemon has, which says so, goes on
// answering queries and streams again when it is put right.
func TestAChangedPasswordIsWaitedForAndHeals(t *testing.T) {
	t.Parallel()
	server := postgres.StartForTest(t)
	p := newPipeline(t, server, tables)
	hba := p.source.Query(t, "show hba_file")[0][0]
	before, err := os.ReadFile(hba)
	if err != nil {
		t.Fatal(err)
	}
	asks := []byte("local all follower scram-sha-256\nhost all follower all scram-sha-256\nhost replication follower all scram-sha-256\n")
	if err := os.WriteFile(hba, append(asks, before...), 0o600); err != nil {
		t.Fatal(err)
	}
	p.source.Exec(t, "create role follower superuser login password 'first'")
	p.source.Exec(t, "select pg_reload_conf()")
	as, err := url.Parse(p.source.URL())
	if err != nil {
		t.Fatal(err)
	}
	as.User = url.UserPassword("follower", "first")
	p.edit(p.source.URL(), as.String())
	d := p.start()
	d.ready()
	p.source.Exec(t, "alter role follower password 'second'")
	p.source.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'follower'")
	p.source.Exec(t, "insert into log values (1, 'unseen'); insert into o values (1, 1, 'unseen')")
	p.shows(d, "password authentication failed")
	p.whole()
	p.source.Exec(t, "alter role follower password 'first'")
	p.same(d, all...)
	d.ready()
}

// TestAFullStateFolderLosesNothing: the disk of the state folder is full under traffic. The daemon says so and waits, the
// lake stays whole and readable, and it goes on by itself once there is space.
func TestAFullStateFolderLosesNothing(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.ForTest(t), tables)
	small := p.smallDisk()
	p.edit(p.dir+"/state", small+"/state")
	traffic := p.traffic(51)
	d := p.start()
	d.ready()
	filler := filepath.Join(small, "filler")
	fill(t, filler)
	p.shows(d, "disk of the key index is full")
	p.whole()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	d.ready()
	p.whole()
	traffic.end()
	p.same(d, all...)
}

// TestAFullWarehouseOrCatalogLosesNothing: as above, where the disk that is full is that of the files or that of the
// catalog.
func TestAFullWarehouseOrCatalogLosesNothing(t *testing.T) {
	for from, place := range map[string]string{"/warehouse": "/small/warehouse", "/catalog.db": "in the catalog"} {
		t.Run(from[1:], func(t *testing.T) {
			t.Parallel()
			p := newPipeline(t, postgres.ForTest(t), tables)
			small := p.smallDisk()
			p.edit(p.dir+from, small+from)
			traffic := p.traffic(52)
			d := p.start()
			d.ready()
			filler := filepath.Join(small, "filler")
			fill(t, filler)
			p.shows(d, "a disk is full, and the pipeline goes on by itself once there is space on it")
			p.shows(d, place)
			p.whole()
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			d.ready()
			p.whole()
			traffic.end()
			p.same(d, all...)
		})
	}
}

// smallDisk mounts a file system that is soon full; the test is skipped where it may not.
func (p *pipeline) smallDisk() string {
	p.t.Helper()
	small := filepath.Join(p.dir, "small")
	if err := os.Mkdir(small, 0o700); err != nil {
		p.t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", small).CombinedOutput(); err != nil {
		p.t.Skipf("a small file system cannot be mounted here: %v: %s", err, out)
	}
	p.t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	return small
}

// fill writes a file until its file system is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = io.Copy(f, zeros{})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(fmt.Errorf("filling the disk: %w", err))
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
