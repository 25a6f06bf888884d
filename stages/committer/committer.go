// Package committer takes cuts in order, waits for their parts, and makes each a checkpoint of the lake. Only after that
// does the source hear that it may let its write-ahead log go (promise 1).
package committer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/rows"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// mergeLimit bounds the cuts that share one swap when they are ready together.
const mergeLimit = 16

// Config is what a committer works with.
type Config struct {
	Lake  formats.Lake
	State *formats.State
	// InFlight bounds the cuts between decoder and lake.
	InFlight int
	// Acknowledge is told the position up to which the source may let its log go; it must not block.
	Acknowledge func(lsn.LSN)
	// Failpoint is called at named points, for tests that kill the process there; nil for none.
	Failpoint func(name string)
	Log       *zap.Logger
}

// Committer is the last stage.
type Committer struct {
	cfg     Config
	tracker *lsn.Tracker
	// aside are incarnations whose later parts are dropped: a part of theirs could not be written.
	aside map[string]bool
	turns chan func(ctx context.Context)

	mu     sync.Mutex
	status Status
}

// Status tells how far the committer is.
type Status struct {
	Position           lsn.LSN
	Checkpoint         int64
	CommitTime, Known  time.Time
	Commits            int64
	Rows               int64
	WaitTime, SwapTime time.Duration
}

// pending is a cut under way with the call that frees its place.
type pending struct {
	cut  *message.Cut
	done func()
}

// New makes a committer that goes on from a claimed state.
func New(cfg Config) *Committer {
	return &Committer{cfg: cfg, tracker: lsn.NewTracker(cfg.InFlight, cfg.State.Position), aside: map[string]bool{}, turns: make(chan func(context.Context)),
		status: Status{Position: cfg.State.Position, Checkpoint: cfg.State.Checkpoint, CommitTime: cfg.State.CommitTime, Known: cfg.State.Known}}
}

// Status gives the newest checkpoint.
func (c *Committer) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// Run commits cuts until ctx ends or the lake fails. Cuts are taken from the channel only while fewer than InFlight are
// under way, so that a slow lake holds the decoder back.
func (c *Committer) Run(ctx context.Context, cuts <-chan *message.Cut) error {
	queue := make(chan pending, c.cfg.InFlight)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for {
			select {
			case cut := <-cuts:
				done, err := c.tracker.Track(ctx, cut.End)
				if err != nil {
					return err
				}
				queue <- pending{cut, done} // never blocks: the tracker admits no more than the queue holds
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
	group.Go(func() error {
		backlog := backlog{queue: queue, turns: c.turns}
		for {
			batch, err := backlog.next(ctx)
			if err != nil {
				return err
			}
			if len(batch) == 0 {
				continue // somebody else's turn
			}
			if err := c.checkpoint(ctx, batch); err != nil {
				return err
			}
		}
	})
	return group.Wait()
}

// backlog takes cuts from the queue in order.
type backlog struct {
	queue chan pending
	held  *pending
	turns chan func(ctx context.Context)
}

// Turn runs f between two checkpoints and gives its error; nothing is committed meanwhile. It waits for its turn, and ends
// without f when ctx ends or the committer has.
func (c *Committer) Turn(ctx context.Context, f func(ctx context.Context) error) error {
	done := make(chan error, 1)
	select {
	case c.turns <- func(ctx context.Context) { done <- f(ctx) }:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// next waits for a cut, or gives none after somebody else's turn. It adds those behind it that are answered already: under pressure they share one swap.
func (b *backlog) next(ctx context.Context) ([]pending, error) {
	var batch []pending
	select { // turns come first: a stream without a pause would have no end of cuts
	case f := <-b.turns:
		f(ctx)
		return nil, nil
	default:
	}
	if b.held != nil {
		batch, b.held = append(batch, *b.held), nil
	} else {
		select {
		case p := <-b.queue:
			batch = append(batch, p)
		case f := <-b.turns:
			f(ctx)
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	for len(batch) < mergeLimit {
		select {
		case p := <-b.queue:
			if !p.cut.Ready() {
				b.held = &p
				return batch, nil
			}
			batch = append(batch, p)
		default:
			return batch, nil
		}
	}
	return batch, nil
}

// checkpoint makes one checkpoint of neighbouring cuts.
func (c *Committer) checkpoint(ctx context.Context, batch []pending) error {
	begun := time.Now()
	last := batch[len(batch)-1].cut
	cp := &formats.Checkpoint{From: c.status.Position, To: max(last.End, c.status.Position), Number: c.status.Checkpoint + 1,
		CommitTime: later(last.CommitTime, c.status.CommitTime), Known: later(last.Known, c.status.Known)}
	var all []*message.Part
	var changed int64
	merged := newMerge()
	for _, p := range batch {
		parts, err := p.cut.Parts(ctx)
		if err != nil {
			return err
		}
		changed += p.cut.Rows
		for _, part := range parts {
			if err := c.collect(ctx, part, merged, &all); err != nil {
				return err
			}
		}
	}
	cp.Changes, cp.States, cp.Forget = merged.result()
	waited := time.Now()
	if cp.To > cp.From || cp.Known.After(c.status.Known) || len(cp.Changes)+len(cp.States)+len(cp.Forget) > 0 {
		if err := c.commit(ctx, cp, all); err != nil {
			return fmt.Errorf("checkpoint %d at %s: %w", cp.Number, cp.To, err)
		}
		if err := c.committed(ctx, cp, all, changed, waited.Sub(begun), time.Since(waited)); err != nil {
			return err
		}
	}
	for _, p := range batch {
		p.done()
	}
	c.cfg.Acknowledge(c.tracker.Safe())
	if c.cfg.Failpoint != nil {
		c.cfg.Failpoint("acknowledged")
	}
	return nil
}

// commit hands the checkpoint to the lake. A table whose change the lake cannot make is set aside, and the rest goes on
// without it (promise 7).
func (c *Committer) commit(ctx context.Context, cp *formats.Checkpoint, all []*message.Part) error {
	for {
		err := c.cfg.Lake.Commit(ctx, cp)
		var own *formats.TableError
		if !errors.As(err, &own) {
			return err
		}
		i := slices.IndexFunc(all, func(p *message.Part) bool { return p.Change.Table.ID == own.Table.ID && p.Failed != nil })
		if i < 0 {
			return err
		}
		state := all[i].Failed(err)
		c.aside[own.Table.ID] = true
		c.cfg.Log.Error("table set aside", zap.Stringer("table", nameOf(all[i])), zap.String("reason", state.SetAside))
		cp.Changes = slices.DeleteFunc(cp.Changes, func(change formats.TableChange) bool { return change.Table.ID == own.Table.ID })
		cp.States = slices.DeleteFunc(cp.States, func(s formats.TableState) bool { return s.Table.ID == own.Table.ID })
		cp.States = append(cp.States, *state)
	}
}

// collect waits for a part's segments and merges its change. A part that cannot be written because of its own values
// sets its table aside; the checkpoint goes on without it (promise 7).
func (c *Committer) collect(ctx context.Context, part *message.Part, merged *merge, all *[]*message.Part) error {
	id := part.Change.Table.ID
	if c.aside[id] {
		return nil
	}
	for i, segment := range slices.Concat(part.Segments, part.Keys) {
		file, err := segment.Wait(ctx)
		if err != nil {
			if part.Failed == nil || !errors.Is(err, rows.ErrValue) {
				return err
			}
			c.aside[id] = true
			state := part.Failed(err)
			c.cfg.Log.Error("table set aside", zap.Stringer("table", nameOf(part)), zap.String("reason", state.SetAside))
			merged.abandon(id)
			merged.state(state)
			return nil
		}
		if i < len(part.Segments) {
			part.Change.Add = append(part.Change.Add, file)
		} else {
			part.Change.Keys = append(part.Change.Keys, formats.KeyFile{DataFile: file, Fields: part.KeyFields})
		}
	}
	merged.add(part)
	for _, gone := range part.Forget {
		c.aside[gone] = true // parts of it that are still under way have nothing to change any more
	}
	*all = append(*all, part)
	return nil
}

// committed moves the key indexes on and notes the new position.
func (c *Committer) committed(ctx context.Context, cp *formats.Checkpoint, all []*message.Part, changed int64, wait, swap time.Duration) error {
	final := map[string]*message.Part{}
	for _, part := range all {
		final[part.Change.Table.ID] = part
	}
	rewrites := map[string][]formats.Rewrite{}
	for _, r := range cp.Rewrites {
		rewrites[r.Table.ID] = append(rewrites[r.Table.ID], r)
	}
	for _, part := range all {
		if part.Committed == nil || c.aside[part.Change.Table.ID] {
			continue
		}
		id := part.Change.Table.ID
		last := final[id] == part
		var replaced []formats.Rewrite
		if last {
			replaced = rewrites[id]
		}
		if err := part.Committed(ctx, last, replaced); err != nil {
			return err
		}
	}
	c.mu.Lock()
	s := &c.status
	s.Position, s.Checkpoint, s.CommitTime, s.Known = cp.To, cp.Number, cp.CommitTime, cp.Known
	s.Commits++
	s.Rows += changed
	s.WaitTime, s.SwapTime = wait, swap
	c.mu.Unlock()
	if changed > 0 || len(cp.Changes) > 0 {
		c.cfg.Log.Info("checkpoint", zap.Int64("number", cp.Number), zap.Stringer("lsn", cp.To), zap.Int64("rows", changed),
			zap.Int("tables", len(cp.Changes)), zap.Duration("waited", wait), zap.Duration("commit", swap))
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

type name formats.TableName

func (n name) String() string { return n.Schema + "." + n.Table }

func nameOf(p *message.Part) name { return name(p.Change.Table.Name) }
