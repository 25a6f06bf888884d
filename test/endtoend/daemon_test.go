package endtoend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// binary is the daemon, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "streambed-endtoend-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "streambedd")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "github.com/streambed/streambed/cmd/streambedd")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the daemon: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// pipeline is a source database with everything that a daemon on it needs.
type pipeline struct {
	t      *testing.T
	source *postgres.Database
	dir    string
	config string
	query  string // addresses
	page   string
}

// newPipeline makes a source from SQL and writes a configuration for it.
func newPipeline(t *testing.T, server *postgres.Server, sql string) *pipeline {
	t.Helper()
	source := server.Database(t)
	source.Exec(t, sql)
	dir, err := os.MkdirTemp("", "sbe-") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &pipeline{t: t, source: source, dir: dir}
	p.config, p.query, p.page = p.configure("pipeline.yaml", "state")
	return p
}

// configure writes a configuration of the pipeline with its own addresses and a state folder.
func (p *pipeline) configure(name, state string) (path, query, page string) {
	p.t.Helper()
	path = filepath.Join(p.dir, name)
	query, page = freeAddresses(p.t)
	text := fmt.Sprintf(`pipeline: %[1]s
source: {url: "%[2]s", tables: ["public.*"]}
lake: {format: iceberg, mode: dv, warehouse: "file://%[3]s/warehouse", catalog: "sqlite://%[3]s/catalog.db"}
flush: {interval: 100ms, rows: 200}
memory: 256MiB
state: %[3]s/%[4]s
query: {listen: "%[5]s"}
http: {listen: "%[6]s"}
`, p.source.Name, p.source.URL(), p.dir, state, query, page)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path, query, page
}

// tables has the pipeline follow other tables than those of the schema public: a list of patterns in quotes.
func (p *pipeline) tables(patterns string) {
	p.t.Helper()
	p.edit(`tables: ["public.*"]`, "tables: ["+patterns+"]")
}

// freeAddresses finds two loopback addresses that nobody listens on.
func freeAddresses(t *testing.T) (one, other string) {
	t.Helper()
	var listeners [2]net.Listener // held until both are found, so that they differ
	for i := range listeners {
		var err error
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		defer listeners[i].Close()
	}
	return listeners[0].Addr().String(), listeners[1].Addr().String()
}

// daemon is a running streambedd.
type daemon struct {
	t       *testing.T
	cmd     *exec.Cmd
	log     *os.File
	page    string
	exited  chan struct{}
	outcome error // read after exited
}

// start starts the daemon on the pipeline's configuration; it is killed when the test ends.
func (p *pipeline) start(env ...string) *daemon { return p.startOn(p.config, p.page, env...) }

func (p *pipeline) startOn(config, page string, env ...string) *daemon {
	p.t.Helper()
	return p.launch(page, []string{"--config", config}, env...)
}

// launch starts the daemon with arguments.
func (p *pipeline) launch(page string, args []string, env ...string) *daemon {
	p.t.Helper()
	log, err := os.CreateTemp(p.dir, "log-")
	if err != nil {
		p.t.Fatal(err)
	}
	d := &daemon{t: p.t, log: log, page: page, exited: make(chan struct{}), cmd: exec.Command(binary, args...)}
	d.cmd.Stdout, d.cmd.Stderr, d.cmd.Env = log, log, append(os.Environ(), env...)
	if err := d.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		d.outcome = d.cmd.Wait()
		close(d.exited)
	}()
	p.t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		<-d.exited
		if p.t.Failed() {
			p.t.Logf("the end of the daemon's log (%v):\n%s", d.outcome, d.tail())
		}
		_ = log.Close()
	})
	return d
}

// said is the daemon's log so far.
func (d *daemon) said() string {
	body, err := os.ReadFile(d.log.Name())
	if err != nil {
		d.t.Fatal(err)
	}
	return string(body)
}

func (d *daemon) tail() string {
	lines := strings.Split(strings.TrimSpace(d.said()), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// eventually polls a condition; it fails the test with what was waited for when the daemon ends or the limit passes.
func (d *daemon) eventually(limit time.Duration, what string, condition func() (ok bool, detail string)) {
	d.t.Helper()
	deadline, again := time.NewTimer(limit), time.NewTicker(20*time.Millisecond)
	defer deadline.Stop()
	defer again.Stop()
	for {
		ok, detail := condition()
		if ok {
			return
		}
		select {
		case <-again.C:
		case <-d.exited:
			d.t.Fatalf("the daemon ended (%v) while the test waited for %s: %s", d.outcome, what, detail)
		case <-deadline.C:
			d.t.Fatalf("waited %s in vain for %s: %s", limit, what, detail)
		}
	}
}

// ready waits until all tables are copied and streaming.
func (d *daemon) ready() {
	d.t.Helper()
	d.eventually(90*time.Second, "readiness", func() (bool, string) {
		answer, err := http.Get("http://" + d.page + "/readyz")
		if err != nil {
			return false, err.Error()
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return answer.StatusCode == http.StatusOK, string(bytes.TrimSpace(body))
	})
}

// end waits for the daemon to end, and gives how it did.
func (d *daemon) end(limit time.Duration) error {
	d.t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-d.exited:
		return d.outcome
	case <-timer.C:
		d.t.Fatalf("the daemon did not end within %s", limit)
		return nil
	}
}

// kill ends the daemon as a crash would.
func (d *daemon) kill() {
	d.t.Helper()
	if err := d.cmd.Process.Kill(); err != nil {
		d.t.Fatalf("the daemon had ended before it was killed: %v", err)
	}
	<-d.exited
}

// stop asks the daemon to stop, and wants it to do so cleanly and soon.
func (d *daemon) stop(with syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(with); err != nil {
		d.t.Fatalf("the daemon had ended before it was told to: %v", err)
	}
	if err := d.end(20 * time.Second); err != nil {
		d.t.Fatalf("told to stop by %s, the daemon ended with %v", with, err)
	}
}

// endedBySignal reports whether a process was ended by a signal.
func endedBySignal(err error, signal syscall.Signal) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

// command runs an operator's command on the pipeline and gives what it printed.
func (p *pipeline) command(args ...string) (code int, out string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(args, "--config", p.config)...)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatalf("%v: %v", args, err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}
