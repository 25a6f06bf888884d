package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shortDir is a folder whose path leaves room for a socket's name, unlike that of a test with a long name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sbd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestStatusTravelsOverTheControlSocket(t *testing.T) {
	dir := shortDir(t)
	if _, err := askStatus(context.Background(), dir); !errors.Is(err, errNotRunning) {
		t.Fatalf("without a daemon: %v, want %v", err, errNotRunning)
	}
	listener, err := listenControl(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, socketName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket's mode is %v (%v), others could use it", info.Mode(), err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- serve(ctx, listener, controlHandler(reportOf(sample()), nil)) }()
	r, err := askStatus(ctx, dir)
	if err != nil || r.Status.Pipeline != "shop" || r.PID != 7 {
		t.Errorf("got %+v, %v", r, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v, although it was told to", err)
	}
	if _, err := askStatus(context.Background(), dir); !errors.Is(err, errNotRunning) {
		t.Errorf("after the end: %v, want %v", err, errNotRunning)
	}
}

func TestSocketOfADeadDaemonIsReplaced(t *testing.T) {
	dir := shortDir(t)
	if err := os.WriteFile(filepath.Join(dir, socketName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := listenControl(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
}

func TestStateFolderBelongsToOneDaemon(t *testing.T) {
	dir := filepath.Join(shortDir(t), "not", "there", "yet")
	first, err := lockState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockState(dir); err == nil || !strings.Contains(err.Error(), "another streambedd") || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second daemon gets %v", err)
	}
	_ = first.Close()
	second, err := lockState(dir)
	if err != nil {
		t.Fatalf("after the first is gone: %v", err)
	}
	_ = second.Close()
}

func TestTooLongAStatePathIsSaidBeforeAnythingStarts(t *testing.T) {
	if _, err := listenControl("/" + strings.Repeat("long", 30)); err == nil || !strings.Contains(err.Error(), "shorter state folder") {
		t.Errorf("got %v", err)
	}
}
