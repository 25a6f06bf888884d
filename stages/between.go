package stages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"
)

// errInterrupted ends a run that an operator's command has to come before.
var errInterrupted = errors.New("the pipeline is interrupted by a command")

// pausedTrouble is what a paused pipeline shows.
const pausedTrouble = "paused by `streambedd pause`: nothing is committed, and the source keeps its WAL, until `streambedd resume`"

// between is what happens between two runs: pauses, and tasks that commit by themselves. Guarded by Pipeline.mu.
type between struct {
	paused bool
	tasks  []task
	// asked has Run look; interrupt ends the current run, nil when there is none.
	asked     chan struct{}
	interrupt context.CancelCauseFunc
	// resting is closed while the pipeline is paused and no run lives; it is made anew when one begins.
	resting chan struct{}
	rests   bool
}

// task is work that needs the lake to itself.
type task struct {
	work func(ctx context.Context) error
	done chan error
}

func newBetween(paused bool) between {
	return between{paused: paused, asked: make(chan struct{}, 1), resting: make(chan struct{})}
}

// pauseFile marks a pipeline as paused, also over a restart of the daemon.
func (p *Pipeline) pauseFile() string { return filepath.Join(p.options.StateDir, "paused") }

func (p *Pipeline) markedPaused() (bool, error) {
	_, err := os.Stat(p.pauseFile())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Pause stops the stream until Resume, also over a restart of the daemon: nothing is committed, and the source keeps its
// WAL. It returns when no run is under way any more, or with ctx's error. The lock at the source stays with the pipeline.
func (p *Pipeline) Pause(ctx context.Context) error {
	if err := os.WriteFile(p.pauseFile(), nil, 0o600); err != nil {
		return fmt.Errorf("the pause cannot be noted in the state folder: %w", err)
	}
	p.mu.Lock()
	p.between.paused = true
	resting := p.between.resting
	p.mu.Unlock()
	p.interrupt()
	select {
	case <-resting:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Resume ends a pause.
func (p *Pipeline) Resume() error {
	if err := os.Remove(p.pauseFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the note of the pause cannot be removed from the state folder: %w", err)
	}
	p.mu.Lock()
	p.between.paused = false
	p.mu.Unlock()
	p.ask()
	return nil
}

// alone does work while no run lives: the stream is interrupted for it and goes on afterwards. It needs the source's lock,
// which is taken if need be.
func (p *Pipeline) alone(ctx context.Context, work func(ctx context.Context) error) error {
	t := task{work: work, done: make(chan error, 1)}
	p.mu.Lock()
	p.between.tasks = append(p.between.tasks, t)
	p.mu.Unlock()
	p.interrupt()
	select {
	case err := <-t.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *Pipeline) ask() {
	select {
	case p.between.asked <- struct{}{}:
	default:
	}
}

// interrupt ends the current run and has Run look at what was asked for.
func (p *Pipeline) interrupt() {
	p.mu.Lock()
	stop := p.between.interrupt
	p.mu.Unlock()
	if stop != nil {
		stop(errInterrupted)
	}
	p.ask()
}

// rest does what has been asked for between runs, and returns when the next run may begin: with a context that ends when
// something is asked for again.
func (p *Pipeline) rest(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	for ctx.Err() == nil {
		p.mu.Lock()
		b := &p.between
		switch {
		case len(b.tasks) > 0:
			next := b.tasks[0]
			b.tasks = b.tasks[1:]
			p.mu.Unlock()
			next.done <- p.perform(ctx, next)
			continue
		case !b.paused:
			if b.rests {
				b.rests, b.resting = false, make(chan struct{})
				p.options.Log.Info("resumed")
			}
			running, stop := context.WithCancelCause(ctx)
			b.interrupt = stop
			p.mu.Unlock()
			return running, stop
		case !b.rests:
			b.rests = true
			p.trouble = pausedTrouble
			close(b.resting)
			p.options.Log.Warn("paused: nothing is committed, and the source keeps its WAL, until `streambedd resume`",
				zap.String("slot", p.source.Slot))
		}
		p.mu.Unlock()
		select {
		case <-b.asked:
		case <-ctx.Done():
		}
	}
	return context.WithCancelCause(ctx)
}

func (p *Pipeline) perform(ctx context.Context, t task) error {
	if err := p.takeLock(ctx); err != nil {
		return err
	}
	return t.work(ctx)
}
