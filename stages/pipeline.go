package stages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/keyindex"
	"github.com/streambed/streambed/stages/reader"
	"github.com/streambed/streambed/stages/source"
	"go.uber.org/zap"
)

var (
	// ErrAnotherSource means that the source is not the database that the lake was filled from.
	ErrAnotherSource = errors.New("the source is another database than the lake was filled from")
	// ErrSlotPast means that the slot no longer has what the lake still needs.
	ErrSlotPast = errors.New("the replication slot no longer has the changes that the lake still needs")
)

// Pipeline keeps a lake in step with a source. Its stages live in a run; when a run breaks, the next one starts from what
// the lake durably holds.
type Pipeline struct {
	options Options
	source  source.Config
	index   *keyindex.Index
	lock    *source.Lock
	trash   *trash

	mu      sync.Mutex
	current *run
	trouble string
	stopped bool
	// standby tells that another daemon has the source's lock and is waited for.
	standby bool
	between between
}

// New makes a pipeline and opens its local state; it does not touch the source or the lake yet.
func New(o Options) (*Pipeline, error) {
	p := &Pipeline{options: o, source: source.Config{URL: o.Source.URL, PrimaryURL: o.Source.PrimaryURL, Slot: o.Source.Slot,
		Publication: o.Source.Publication, Tables: o.Source.Tables, Exclude: o.Source.Exclude, Columns: o.Source.Columns}}
	if err := p.source.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.spillDir(), 0o700); err != nil {
		return nil, fmt.Errorf("the state folder cannot be used: %w", err)
	}
	paused, err := p.markedPaused()
	if err != nil {
		return nil, fmt.Errorf("the state folder cannot be used: %w", err)
	}
	p.between, p.trash = newBetween(paused), newTrash(&o)
	index, err := keyindex.Open(filepath.Join(o.StateDir, "keyindex"), keyindex.Options{CacheBytes: max(8<<20, o.Memory/8), Log: o.Log})
	if err != nil {
		return nil, err
	}
	p.index = index
	return p, nil
}

// spillDir holds files under construction; whatever a killed run left there is nobody's.
func (p *Pipeline) spillDir() string { return filepath.Join(p.options.StateDir, "spill") }

// The waits between runs that failed for a reason that may pass.
const retryFirst, retryMost = 500 * time.Millisecond, 30 * time.Second

// Run streams until ctx ends, and then returns nil; or until something stands in the way that only a person can move,
// and then returns it with its remedy. Everything else is tried again for ever. The source's lock is held throughout.
func (p *Pipeline) Run(ctx context.Context) error {
	defer p.close()
	ctx, stop := context.WithCancelCause(ctx)
	var background sync.WaitGroup
	background.Go(func() { p.trash.run(ctx, p.holds) })
	background.Go(func() { p.watchSlot(ctx, stop) })
	defer background.Wait()
	defer stop(nil)
	wait := retryFirst
	for {
		running, end := p.rest(ctx)
		progressed, err := p.once(running)
		interrupted := context.Cause(running) == errInterrupted
		end(nil)
		if ctx.Err() != nil {
			return p.giveUp(ctx)
		}
		if interrupted && !final(err) {
			continue
		}
		if err == nil {
			err = errors.New("the pipeline ended by itself")
		}
		if final(err) {
			p.setTrouble(err.Error())
			return err
		}
		if progressed {
			wait = retryFirst
		}
		err = explainFullDisk(err)
		p.setTrouble(fmt.Sprintf("%v; trying again", err))
		p.options.Log.Warn("the pipeline is started again", zap.Duration("in", wait), zap.Error(err))
		select {
		case <-time.After(wait):
		case <-p.between.asked:
			p.ask() // for rest
		case <-ctx.Done():
			return p.giveUp(ctx)
		}
		wait = min(2*wait, retryMost)
	}
}

// final tells that trying again cannot help.
func final(err error) bool {
	for _, kind := range []error{ErrAnotherSource, ErrSlotPast, formats.ErrFenced, formats.ErrCatalogLost, source.ErrLocked, source.ErrSlotMissing, source.ErrSlotLost,
		source.ErrSlotForeign, source.ErrNotOurs, reader.ErrSlotMissing, reader.ErrSlotLost, reader.ErrSlotAhead, reader.ErrSlotForeign, reader.ErrUndecodable} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// holds reports whether the lake has an incarnation, which is known once a run has begun.
func (p *Pipeline) holds(id string) (is, known bool) {
	p.mu.Lock()
	known = p.current != nil
	p.mu.Unlock()
	return p.options.Lake.Exists(formats.TableRef{ID: id}), known
}

// once makes one run. progressed tells that it committed something.
func (p *Pipeline) once(ctx context.Context) (progressed bool, err error) {
	if err := p.takeLock(ctx); err != nil {
		return false, err
	}
	r, err := newRun(ctx, p)
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	p.current, p.trouble = r, ""
	p.mu.Unlock()
	return p.mend(ctx, r, r.work(ctx))
}

func (p *Pipeline) setTrouble(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = text
}

func (p *Pipeline) close() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	if p.lock != nil {
		p.lock.Release()
	}
	if err := p.index.Close(); err != nil {
		p.options.Log.Warn("the key index was not closed cleanly; it is repaired at the next start", zap.Error(err))
	}
}
