package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// socketName is the control socket's name in the state folder.
const socketName = "control.sock"

// lockName is the file in the state folder that the daemon keeps locked for its life.
const lockName = "streambedd.lock"

// maxSocketPath is the longest path of a unix socket that both Linux and macOS take.
const maxSocketPath = 103

// errNotRunning means that no daemon answers on the control socket.
var errNotRunning = errors.New("the daemon is not running")

// errStateBusy means that another daemon has the state folder.
var errStateBusy = errors.New("another streambedd is running on the state folder")

// takeState takes the state folder; a standby waits for the daemon that has it, until ctx ends.
func takeState(ctx context.Context, folder string, standby bool, log *zap.Logger) (*os.File, error) {
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	for waited := false; ; waited = true {
		lock, err := lockState(folder)
		if !standby || !errors.Is(err, errStateBusy) {
			return lock, err
		}
		if !waited {
			log.Info("standing by: another daemon on this machine has the state folder, and is taken over from when it ends", zap.String("folder", folder))
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// lockState makes the state folder and takes it for this process; the lock goes with the process, however it ends.
func lockState(folder string) (*os.File, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("the state folder %s cannot be made: %w; create it for this user, or set another with state", folder, err)
	}
	path := filepath.Join(folder, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the state folder %s cannot be written: %w; give it to this user, or set another with state", folder, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 32))
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w %s (process %s); stop it first, or give this pipeline a state folder of its own", errStateBusy, folder, holder)
		}
		return nil, fmt.Errorf("the state folder %s cannot be locked: %w; use a local disk", folder, err)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(fmt.Sprint(os.Getpid())), 0)
	}
	return f, nil
}

// listenControl opens the control socket. REQUIRES: the state folder's lock is held, so a socket in place is a dead
// daemon's.
func listenControl(folder string) (net.Listener, error) {
	path := filepath.Join(folder, socketName)
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the control socket %s would have a path longer than the %d bytes a system allows; choose a shorter state folder", path, maxSocketPath)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the control socket of an earlier run cannot be removed: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("the control socket cannot be opened: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("the control socket cannot be kept for this user alone: %w", err)
	}
	return listener, nil
}

// controlHandler answers the operator's commands.
func controlHandler(make func() report, pipeline operated) http.Handler {
	mux := http.NewServeMux()
	handleResync(mux, pipeline)
	handleOperate(mux, pipeline)
	handleMaintain(mux, pipeline)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { writeReport(w, make()) })
	return mux
}

// askControl makes one request to a running daemon; errNotRunning when none answers. A question may take ten seconds, an
// order nearly a minute. The caller closes the response's body.
func askControl(ctx context.Context, folder, method, what string, body io.Reader) (*http.Response, error) {
	path := filepath.Join(folder, socketName)
	within := 10 * time.Second
	if method != http.MethodGet {
		within = 55 * time.Second
	}
	if what == "/maintain" {
		within = 0 // a compaction takes as long as it takes
	}
	client := http.Client{Timeout: within, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}}
	request, err := http.NewRequestWithContext(ctx, method, "http://streambedd"+what, body)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, errNotRunning
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("the daemon's control socket %s belongs to another user; run this command as that user", path)
	case err != nil:
		return nil, fmt.Errorf("the daemon does not answer on %s: %w", path, err)
	}
	return response, nil
}

// askStatus asks a running daemon; errNotRunning when none answers.
func askStatus(ctx context.Context, folder string) (*report, error) {
	response, err := askControl(ctx, folder, http.MethodGet, "/status", nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var r report
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the daemon answers %s on its control socket; is it of another version?", response.Status)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, 64<<20)).Decode(&r); err != nil {
		return nil, fmt.Errorf("the daemon's answer cannot be read: %w", err)
	}
	return &r, nil
}

// post has the running daemon do something and waits until it is done; errNotRunning when none answers, and what stood in
// the way as the daemon says it. An answer is decoded into out, which is nil where none is expected.
func post(ctx context.Context, folder, what string, request, out any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	response, err := askControl(ctx, folder, http.MethodPost, what, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch {
	case out == nil && response.StatusCode == http.StatusNoContent:
		return nil
	case out != nil && response.StatusCode == http.StatusOK:
		return json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(out)
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	return errors.New(strings.TrimSpace(string(text)))
}
