package main

import (
	"bytes"
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

	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/lsn"
)

// errRefused means that the daemon does not take its configuration: it cannot do yet what the target asks for.
var errRefused = errors.New("the daemon refuses it")

// buildDaemon builds streambedd from this tree into a folder.
func buildDaemon(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "streambedd")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, "github.com/streambed/streambed/cmd/streambedd")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the daemon: %w: %s", err, out)
	}
	return path, nil
}

// daemon is a running streambedd.
type daemon struct {
	query, page string // addresses
	log         string
	cmd         *exec.Cmd
	exited      chan struct{} // closed once the process has ended
	outcome     error         // read after exited
}

// status is what we need of /status.json.
type status struct {
	Status struct {
		Ready     bool    `json:"ready"`
		Trouble   string  `json:"trouble"`
		Committed lsn.LSN `json:"committed"`
		Commits   int64   `json:"commits"`
		Tables    []struct {
			SetAside string `json:"set_aside"`
		} `json:"tables"`
	} `json:"status"`
	Store storage.Counts `json:"store"`
}

// startDaemon writes a configuration into dir and starts the daemon on it.
func startDaemon(binary, dir string, o *options, src *source, p *place, w *workload, t *target) (*daemon, error) {
	d := &daemon{log: filepath.Join(dir, "log"), exited: make(chan struct{})}
	var err error
	if d.query, d.page, err = freeAddresses(); err != nil {
		return nil, err
	}
	// Cuts are made by rows alone, as long as no target stalls for the whole interval, so that each makes the same ones.
	text := fmt.Sprintf(`pipeline: bench
source: {url: %q, slot: %s, tables: ["public.orders", "public.marker"]}
lake: {%s, warehouse: %q, catalog: %q}
%sflush: {interval: %s, rows: %d, bytes: 1GiB}
memory: %s
state: %s
query: {listen: %q}
http: {listen: %q}
log: {level: warn}
`, src.url(), src.name, t.lake, p.warehouse, p.catalog, p.s3, o.interval, w.cut(o.scale), o.memory, filepath.Join(dir, "state"), d.query, d.page)
	config := filepath.Join(dir, "pipeline.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(d.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d.cmd = exec.Command(binary, "--config", config)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	// A group of its own: an interrupt typed at our terminal reaches us alone, and we end the daemon.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		d.outcome = d.cmd.Wait()
		close(d.exited)
	}()
	return d, nil
}

// freeAddresses finds two loopback addresses that nobody listens on.
func freeAddresses() (one, other string, err error) {
	var listeners [2]net.Listener // held until both are found, so that they differ
	for i := range listeners {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return "", "", err
		}
		defer listeners[i].Close()
	}
	return listeners[0].Addr().String(), listeners[1].Addr().String(), nil
}

// ask gets the daemon's status.
func (d *daemon) ask(ctx context.Context) (*status, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.page+"/status.json", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	s := new(status)
	return s, json.NewDecoder(answer.Body).Decode(s)
}

// await polls the status until reached says so. The daemon's end and a table set aside are errors.
func (d *daemon) await(ctx context.Context, reached func(*status) bool) (*status, error) {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		s, err := d.ask(ctx)
		if err == nil {
			for _, t := range s.Status.Tables {
				if t.SetAside != "" {
					return nil, fmt.Errorf("the table was set aside: %s", t.SetAside)
				}
			}
			if reached(s) {
				return s, nil
			}
		}
		select {
		case <-again.C:
		case <-d.exited:
			return nil, d.failure()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// failure tells why the daemon ended; errRefused is wrapped when its configuration was not taken.
func (d *daemon) failure() error {
	said := d.lastLine()
	if d.cmd.ProcessState.ExitCode() == 2 {
		return fmt.Errorf("%w: %s", errRefused, said)
	}
	return fmt.Errorf("the daemon ended (%v): %s", d.outcome, said)
}

func (d *daemon) lastLine() string {
	body, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	body = bytes.TrimSpace(body)
	return strings.TrimSpace(string(body[bytes.LastIndexByte(body, '\n')+1:]))
}

// stop ends the daemon gracefully, by force when that takes longer than a minute, and waits for it.
func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	force := time.AfterFunc(time.Minute, func() { _ = d.cmd.Process.Kill() })
	<-d.exited
	force.Stop()
}
