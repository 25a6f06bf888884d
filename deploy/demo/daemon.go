package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// daemon is a running streambedd.
type daemon struct {
	binary, config, log string
	query, page         string
	warehouse, catalog  string

	cmd    *exec.Cmd
	exited chan struct{} // closed once the process has ended
	err    error         // how it ended; read after exited
}

// startDaemon writes a configuration into folder and starts bin/streambedd on it.
func startDaemon(bin, folder, source string) (*daemon, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	d := &daemon{binary: filepath.Join(bin, "streambedd"), config: filepath.Join(folder, "pipeline.yaml"), log: filepath.Join(folder, "streambedd.log"),
		query: ports[0], page: ports[1], warehouse: filepath.Join(folder, "warehouse"), catalog: filepath.Join(folder, "catalog.db"),
		exited: make(chan struct{})}
	if _, err := os.Stat(d.binary); err != nil {
		return nil, fmt.Errorf("%s is not there; run `make build` first", d.binary)
	}
	text := fmt.Sprintf(`pipeline: demo
source:
  url: %s
  tables: ["public.pgbench_*"]
lake:
  format: iceberg
  mode: dv
  warehouse: file://%s
  catalog: sqlite://%s
flush: {interval: 500ms}
memory: 512MiB
state: %s
query: {listen: %s}
http: {listen: %s}
`, source, d.warehouse, d.catalog, filepath.Join(folder, "state"), d.query, d.page)
	if err := os.WriteFile(d.config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(d.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d.cmd = exec.Command(d.binary, "--config", d.config)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = endWithParent()
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.exited)
	}()
	return d, nil
}

// freePorts finds loopback addresses that nobody listens on.
func freePorts(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // held until all are found, so that they differ
		out = append(out, l.Addr().String())
	}
	return out, nil
}

// ready waits until all tables are copied and streaming.
func (d *daemon) ready(ctx context.Context) error {
	return d.await(ctx, 3*time.Minute, "ready", func() (bool, error) {
		answer, err := http.Get("http://" + d.page + "/readyz")
		if err != nil {
			return false, nil // not listening yet
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK, nil
	})
}

// await polls a condition until it holds.
func (d *daemon) await(ctx context.Context, limit time.Duration, what string, condition func() (bool, error)) error {
	deadline := time.After(limit)
	for {
		if ok, err := condition(); ok || err != nil {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		case <-d.exited:
			return fmt.Errorf("streambedd ended by itself (%v) before it was %s", d.err, what)
		case <-deadline:
			return fmt.Errorf("streambedd was not %s within %s", what, limit)
		}
	}
}

// standing is the part of /status.json that the demo shows.
type standing struct {
	Lag struct {
		Bytes   uint64  `json:"bytes"`
		Seconds float64 `json:"seconds"`
	} `json:"lag"`
	Status struct {
		Checkpoint int64 `json:"checkpoint"`
	} `json:"status"`
}

func (d *daemon) standing(ctx context.Context) (s standing, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.page+"/status.json", nil)
	if err != nil {
		return s, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return s, err
	}
	defer answer.Body.Close()
	return s, json.NewDecoder(answer.Body).Decode(&s)
}

func (d *daemon) queryURL() string {
	return "postgres://postgres@" + d.query + "/postgres?sslmode=disable"
}

// psql is the command that opens the lake in psql.
func (d *daemon) psql() string {
	host, port, _ := net.SplitHostPort(d.query)
	return fmt.Sprintf("psql -h %s -p %s -U postgres -d postgres", host, port)
}

// explain gives the end of the daemon's log, for an error.
func (d *daemon) explain() error {
	body, err := os.ReadFile(d.log)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	return errors.New("the end of streambedd's log:\n  " + strings.Join(lines[max(0, len(lines)-15):], "\n  "))
}

// stop ends the daemon gracefully, or in the end by force.
func (d *daemon) stop() error {
	select {
	case <-d.exited: // what it had to say was said where it was noticed
		return nil
	default:
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.exited:
		if d.err != nil {
			return fmt.Errorf("streambedd did not stop cleanly: %w", errors.Join(d.err, d.explain()))
		}
		return nil
	case <-time.After(40 * time.Second):
		_ = d.cmd.Process.Kill()
		<-d.exited
		return fmt.Errorf("streambedd did not stop within 40 s of SIGTERM: %w", d.explain())
	}
}
