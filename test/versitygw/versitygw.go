// Package versitygw starts versitygw, a real S3 server over a folder, for tests and benchmarks.
package versitygw

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/streambed/streambed/test/cached"
)

// ErrNoBinary says that there is no versitygw to start.
var ErrNoBinary = errors.New("versitygw is not there: run `make testservers`, put it into PATH, or name it in STREAMBED_VERSITYGW")

// What every server started here has.
const (
	AccessKey = "test-access"
	SecretKey = "test-secret"
	Region    = "us-east-1"
	Bucket    = "bucket"
)

// Server is a running server with one bucket. Its methods are safe for concurrent use.
type Server struct {
	// Endpoint is the server's URL.
	Endpoint string

	cmd    *exec.Cmd
	ended  chan struct{}
	output *output
}

// Binary finds versitygw: STREAMBED_VERSITYGW, then what deploy/testservers.sh built, then PATH. The error is ErrNoBinary.
func Binary() (string, error) {
	if named := os.Getenv("STREAMBED_VERSITYGW"); named != "" {
		return named, nil
	}
	if path := cached.Path("versitygw-v1.8.0/versitygw"); path != "" {
		return path, nil
	}
	if path, err := exec.LookPath("versitygw"); err == nil {
		return path, nil
	}
	return "", ErrNoBinary
}

// Start starts a server over dir, which must exist and stays the caller's; objects lie in dir/Bucket. It blocks until the
// server listens, half a minute at most. The caller ends it with Close.
func Start(ctx context.Context, dir string) (*Server, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, Bucket), 0o755); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	l.Close()
	s := &Server{Endpoint: "http://" + address, ended: make(chan struct{}), output: &output{}}
	s.cmd = exec.Command(binary, "--access", AccessKey, "--secret", SecretKey, "--port", address, "--quiet", "posix", dir)
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	// A group of its own: an interrupt typed at our terminal reaches us alone.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", binary, err)
	}
	go func() { _ = s.cmd.Wait(); close(s.ended) }()
	if err := s.await(ctx, address); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// await waits until the server listens.
func (s *Server) await(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			return c.Close()
		}
		select {
		case <-again.C:
		case <-s.ended:
			return fmt.Errorf("versitygw ended while starting: %s", s.Log())
		case <-ctx.Done():
			return fmt.Errorf("versitygw does not listen on %s: %w: %s", address, ctx.Err(), s.Log())
		}
	}
}

// Close ends the server and waits until it is gone. It may be called more than once.
func (s *Server) Close() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// Log is what the server has printed.
func (s *Server) Log() string { return s.output.String() }

// output gathers what a process prints while others may read it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
