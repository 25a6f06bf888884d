// Package postgres starts real Postgres servers for tests, benchmarks and the demo. A server lives in a folder of its
// own, listens on a free loopback port, and ends with the process that started it.
package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Options say what server to start. The zero value is good for a test.
type Options struct {
	// Dir is the folder that will hold the cluster; it is left in place by Close. "" makes a temporary one that Close
	// removes.
	Dir string
	// Settings go into the configuration over our own (wal_level=logical, 20 slots and senders, fsync=off).
	Settings map[string]string
	// Version is a major version such as "17"; "" takes what Binaries finds.
	Version string
	// Port is a fixed port; 0 takes a free one.
	Port int

	// bin is the folder of binaries to use; "" has it found.
	bin string
}

// Mode is a way of stopping Postgres.
type Mode syscall.Signal

// The modes, as pg_ctl names them. Immediate leaves the cluster as a crash would.
const (
	Smart     = Mode(syscall.SIGTERM)
	Fast      = Mode(syscall.SIGINT)
	Immediate = Mode(syscall.SIGQUIT)
)

// Server is a Postgres server of ours. Its methods are safe for concurrent use.
type Server struct {
	// Port is the loopback port; it stays the same over restarts.
	Port int
	// Dir holds the cluster ("data") and the server's log ("log").
	Dir string
	// Bin is the folder of the server's binaries.
	Bin string

	account  *account
	settings map[string]string
	remove   bool
	reaper   *reaper

	mu      sync.Mutex
	process *process
	closed  bool
}

// attempts bounds how often another port is tried when somebody took ours between choosing and listening.
const attempts = 10

// Start makes a cluster and starts it; it returns once the server answers. ctx bounds only the start. The caller ends the
// server with Close; should the process die before that, the server dies too.
func Start(ctx context.Context, o Options) (*Server, error) {
	bin, err := o.bin, error(nil)
	if bin == "" {
		if bin, err = Binaries(o.Version); err != nil {
			return nil, err
		}
	}
	acc, err := unprivileged()
	if err != nil {
		return nil, err
	}
	s := &Server{Bin: bin, Dir: o.Dir, account: acc, settings: o.Settings, remove: o.Dir == "", Port: o.Port}
	if err := s.makeFolder(); err != nil {
		return nil, err
	}
	if s.reaper, err = startReaper(s.Dir, s.remove); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.initialise(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for n := 1; ; n++ {
		if o.Port == 0 {
			if s.Port, err = freePort(); err != nil {
				return nil, errors.Join(err, s.Close())
			}
		}
		err := s.Resume(ctx)
		if err == nil {
			return s, nil
		}
		if o.Port != 0 || n == attempts || !strings.Contains(s.Log(), "Address already in use") {
			return nil, errors.Join(err, s.Close())
		}
	}
}

func (s *Server) makeFolder() error {
	if s.Dir == "" {
		dir, err := os.MkdirTemp("", "streambed-postgres-")
		if err != nil {
			return err
		}
		s.Dir = dir
	}
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		return err
	}
	s.Dir = dir
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	if s.account != nil {
		return os.Chown(s.Dir, s.account.uid, s.account.gid)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// initialise runs initdb, unless the folder holds a cluster already, and writes the configuration.
func (s *Server) initialise(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(s.data(), "PG_VERSION")); err == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.Bin, "initdb"), "-D", s.data(), "-A", "trust", "-U", "postgres",
		"-E", "UTF8", "--no-locale", "--no-sync")
	cmd.Dir, cmd.Env = s.Dir, environment(s.Bin)
	cmd.SysProcAttr = s.account.attributes()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb in %s failed: %w: %s", s.Dir, err, out)
	}
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
		"wal_level":               "logical",
		"max_replication_slots":   "20",
		"max_wal_senders":         "20",
		"max_connections":         "100",
		"fsync":                   "off",
		"shared_buffers":          "64MB",
		"log_line_prefix":         "%m [%p] ",
		"log_checkpoints":         "off",
	}
	for name, value := range s.settings {
		settings[name] = value
	}
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(settings))
	for name := range settings {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(f, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	return f.Close()
}

// freePort asks the kernel for a port that nobody listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Resume starts the server again after Stop or Crash, on the same port, and waits until it answers.
func (s *Server) Resume(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the Postgres server is closed")
	}
	if s.process != nil {
		return nil
	}
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(s.Bin, "postgres"), "-D", s.data(), "-p", fmt.Sprint(s.Port))
	cmd.Dir, cmd.Env = s.Dir, environment(s.Bin)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = s.account.attributes()
	dieWithParent(cmd.SysProcAttr)
	p, err := launch(cmd)
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", cmd.Path, err)
	}
	if err := s.await(ctx, p); err != nil {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		<-p.exited
		return err
	}
	s.process = p
	return nil
}

// await polls until the server lets somebody in, its process has ended, or ctx (at most a minute) is over.
func (s *Server) await(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		conn, err := pgconn.Connect(ctx, s.URL())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-again.C:
		case <-p.exited:
			return fmt.Errorf("Postgres ended while starting (%v): %s", p.err, s.Log())
		case <-ctx.Done():
			return fmt.Errorf("Postgres on port %d did not answer in time: %w: %s", s.Port, err, s.Log())
		}
	}
}

// Stop ends the server in the given mode and waits until it is gone. Stopping a stopped server does nothing.
func (s *Server) Stop(mode Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop(mode)
}

func (s *Server) stop(mode Mode) error {
	if s.process == nil {
		return nil
	}
	p := s.process
	s.process = nil
	if err := p.cmd.Process.Signal(syscall.Signal(mode)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

// Restart stops the server fast and starts it again on the same port.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(Fast); err != nil {
		return err
	}
	return s.Resume(ctx)
}

// Crash ends the server at once, without a checkpoint; Resume then recovers from its log.
func (s *Server) Crash() error { return s.Stop(Immediate) }

// Close ends the server and removes its folder if it was a temporary one. It may be called more than once.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.stop(Immediate)
	if s.reaper != nil {
		s.reaper.dismiss()
	}
	if s.remove {
		err = errors.Join(err, os.RemoveAll(s.Dir))
	}
	return err
}

func (s *Server) logPath() string { return filepath.Join(s.Dir, "log") }

// Log gives the last 8 KiB of the server's log.
func (s *Server) Log() string {
	b, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(b[max(0, len(b)-8<<10):]))
}

// URL is the connection string of the superuser to the database postgres.
func (s *Server) URL() string { return s.DatabaseURL("postgres") }

// DatabaseURL is the connection string of the superuser to a database.
func (s *Server) DatabaseURL(name string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.Port, url.PathEscape(name))
}

// Exec runs statements, separated by semicolons, in the database postgres.
func (s *Server) Exec(ctx context.Context, sql string) error { return execute(ctx, s.URL(), sql) }

// Query runs statements in the database postgres and gives the rows of the last one as text; NULL reads as "".
func (s *Server) Query(ctx context.Context, sql string) ([][]string, error) {
	return query(ctx, s.URL(), sql)
}

func execute(ctx context.Context, url, sql string) error {
	_, err := query(ctx, url, sql)
	return err
}

func query(ctx context.Context, url, sql string) ([][]string, error) {
	conn, err := pgconn.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%w, running %q", err, shortened(sql))
	}
	if len(results) == 0 {
		return nil, nil
	}
	var rows [][]string
	for _, values := range results[len(results)-1].Rows {
		row := make([]string, len(values))
		for i, v := range values {
			row[i] = string(v)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func shortened(sql string) string {
	if len(sql) > 200 {
		return sql[:200] + "..."
	}
	return sql
}
