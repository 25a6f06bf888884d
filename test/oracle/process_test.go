package oracle

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/ducklake"
	"github.com/streambed/streambed/stages"
	"go.uber.org/zap"
)

// settings are what a pipeline's process is told.
type settings struct {
	URL, Slot, Folder, Catalog string
	// Mode is dv, mor or cow, or that of a DuckLake.
	Mode                   string
	Inlining               ducklake.Inlining // of a DuckLake
	Memory, TargetFileSize int64
	Flush                  stages.FlushOptions
	UploadWorkers          int
	CopyWorkers            int
	InFlight               int
	// KillAt names a point of a commit at which the process kills itself, the KillAfter-th time it gets there.
	KillAt    string `json:",omitempty"`
	KillAfter int64  `json:",omitempty"`
}

func (s *settings) state() string { return filepath.Join(s.Folder, "state") }

// publication and tables are the same in all histories, each of which has a database of its own.
const publication = "oracle"

var patterns = []string{"public.*"}

// runChild is the whole life of a pipeline's process. It answers requests, a line each, on standard input, and ends itself
// when that closes, so that it never outlives the test.
func runChild(text string) int {
	err := child(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the pipeline's process ends:", err)
		return 1
	}
	return 0
}

func child(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	logs := zap.NewDevelopmentConfig()
	logs.Level.SetLevel(zap.InfoLevel)
	logs.DisableStacktrace = true
	log, err := logs.Build()
	if err != nil {
		return err
	}
	var fail func(string) error
	if s.KillAt != "" {
		var times atomic.Int64
		fail = func(point string) error {
			if point == s.KillAt && times.Add(1) == s.KillAfter {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return nil
		}
	}
	lake, store, err := s.open(ctx, fail, log)
	if err != nil {
		return err
	}
	defer lake.Close()
	p, err := stages.New(stages.Options{Pipeline: "oracle",
		Source: stages.SourceOptions{URL: s.URL, Slot: s.Slot, Publication: publication, Tables: patterns},
		Lake:   lake, Store: store, StateDir: s.state(), Memory: s.Memory, Flush: s.Flush, UploadWorkers: s.UploadWorkers,
		CopyWorkers: s.CopyWorkers, InFlight: s.InFlight, TargetFileSize: s.TargetFileSize, Log: log})
	if err != nil {
		return err
	}
	go answer(p)
	if err := p.Run(ctx); err != nil {
		return err
	}
	if ctx.Err() == nil {
		return errors.New("it was not told to")
	}
	return nil
}

// answer gives the status for an empty line, and has the table that a line names copied anew.
func answer(p *stages.Pipeline) {
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for lines.Scan() {
		if table := lines.Text(); table != "" {
			_ = p.Resync(formats.TableName{Schema: "public", Table: table})
		}
		if err := out.Encode(p.Status()); err != nil {
			break
		}
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// process is a running pipeline.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // once exited

	mu  sync.Mutex
	in  io.WriteCloser
	out *json.Decoder
}

// startProcess begins one; its log is appended to a file in the folder.
func startProcess(s *settings) (*process, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(s.Folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	fmt.Fprintf(log, "---- %s begins with %s\n", time.Now().Format(time.TimeOnly), text)
	p := &process{cmd: exec.Command(os.Args[0], "-test.run=^$"), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	p.cmd.Stderr = log
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// ask gives the pipeline's status; resync names a table that is to be copied anew, or is "".
func (p *process) ask(resync string) (*stages.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := fmt.Fprintln(p.in, resync); err != nil {
		return nil, err
	}
	s := new(stages.Status)
	return s, p.out.Decode(s)
}

// stop ends the process gracefully; it must obey within half a minute, and without an error.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	select {
	case <-p.exited:
		return p.err
	case <-deadline.C:
		_ = p.cmd.Process.Signal(syscall.SIGABRT) // its goroutines go to the log
		<-p.exited
		return errors.New("the pipeline did not stop within 30 s")
	}
}

// kill ends it at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}
