package postgres

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func TestServerKeepsCommittedRowsOverCrashAndRestart(t *testing.T) {
	s := StartForTest(t, "work_mem=5MB")
	d := s.Database(t)
	d.Exec(t, "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)")
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := s.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Fatal("a crashed server answered")
	}
	if err := s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.Query(t, "SELECT a FROM t"); len(got) != 1 || got[0][0] != "1" {
		t.Fatalf("after crash and restart the table holds %v", got)
	}
	for setting, want := range map[string]string{"wal_level": "logical", "max_replication_slots": "20", "work_mem": "5MB", "server_encoding": "UTF8"} {
		if got := d.Query(t, "SHOW "+setting)[0][0]; got != want {
			t.Errorf("%s is %s, wanted %s", setting, got, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
		t.Fatalf("Close left %s behind (%v)", s.Dir, err)
	}
}

func TestDatabasesAreSeparateAndTheServerIsShared(t *testing.T) {
	s := ForTest(t)
	if ForTest(t) != s {
		t.Fatal("two calls with the same settings gave two servers")
	}
	a, b := s.Database(t), s.Database(t)
	a.Exec(t, "CREATE TABLE only_here ()")
	if got := b.Query(t, "SELECT to_regclass('only_here') IS NULL")[0][0]; got != "t" {
		t.Fatal("one test's table shows in another's database")
	}
	a.Exec(t, "SELECT pg_create_logical_replication_slot('left_over', 'pgoutput')")
	if err := a.drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.Query(t, "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'left_over'")[0][0]; got != "0" {
		t.Fatal("a dropped database left its slot behind")
	}
	if err := s.Exec(t.Context(), "CREATE DATABASE "+a.Name); err != nil { // for the cleanup to drop
		t.Fatal(err)
	}
}

// TestServerDiesWithAKilledOwner kills a process that owns a server and waits for server and folder to go.
func TestServerDiesWithAKilledOwner(t *testing.T) {
	if os.Getenv("STREAMBED_TEST_OWNER") == "1" {
		s := StartForTest(t)
		os.Stdout.WriteString("\nowns " + strconv.Itoa(s.Port) + " " + s.Dir + "\n")
		select {}
	}
	if _, err := Binaries(""); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerDiesWithAKilledOwner$")
	cmd.Env = append(os.Environ(), "STREAMBED_TEST_OWNER=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var text strings.Builder
	buf := make([]byte, 1024)
	for !strings.Contains(text.String(), "owns ") || !strings.HasSuffix(text.String(), "\n") {
		n, err := out.Read(buf)
		text.Write(buf[:n])
		if err != nil {
			t.Fatalf("the owner ended early: %v: %s", err, text.String())
		}
	}
	_, line, _ := strings.Cut(text.String(), "owns ")
	fields := strings.Fields(line)
	answers := func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+fields[0])
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	if !answers() {
		t.Fatal("the server does not run")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the orphaned server to end", func() bool { return !answers() })
	Eventually(t, "its folder to be removed", func() bool { _, err := os.Stat(fields[1]); return os.IsNotExist(err) })
}

func TestServersOfOtherVersionsStart(t *testing.T) {
	for _, version := range []string{"17", "18"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s, err := Start(t.Context(), Options{Version: version})
			if errors.Is(err, ErrNoBinaries) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			got, err := s.Query(t.Context(), "SHOW server_version")
			if err != nil || !strings.HasPrefix(got[0][0], version+".") {
				t.Fatalf("asked for version %s, the server is %v (%v)", version, got, err)
			}
		})
	}
}
