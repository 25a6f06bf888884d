package oracle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/lsn"
)

// seen is what a reader was shown.
type seen struct {
	checkpoint int64
	position   lsn.LSN
	books      *books
}

// watcher reads the books at random moments during the traffic, and as of random earlier checkpoints.
type watcher struct {
	lake   *lake
	random *rand.Rand
	seen   map[int64]*seen
	past   int // reads of earlier checkpoints
}

// watch goes on until ctx ends.
func (w *watcher) watch(ctx context.Context) error {
	ctx, reading := ctx, context.WithoutCancel(ctx)
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
		if err := w.look(reading); err != nil {
			return err
		}
		again.Reset(time.Duration(5+w.random.IntN(60)) * time.Millisecond)
	}
}

// look reads once. Before the first copies are published there is nothing to see.
func (w *watcher) look(ctx context.Context) error {
	view, err := w.lake.reader.Current(ctx)
	if err != nil {
		return fmt.Errorf("reader cannot see the lake: %w", err)
	}
	if find(view, "acct_a") == nil || find(view, "acct_b") == nil || find(view, "ledger") == nil {
		return nil
	}
	if w.random.IntN(3) == 0 && view.Checkpoint > 1 {
		then, err := w.lake.reader.At(ctx, view, formats.Point{Checkpoint: 1 + w.random.Int64N(view.Checkpoint)})
		if errors.Is(err, formats.ErrExpired) {
			return nil
		}
		if err != nil {
			return err
		}
		w.past++
		view = then
	}
	k, err := w.lake.readBooks(ctx, view)
	if errors.Is(err, formats.ErrNoSuchTable) {
		return nil
	}
	if err != nil {
		return err
	}
	before := w.seen[view.Checkpoint]
	if before == nil {
		w.seen[view.Checkpoint] = &seen{view.Checkpoint, view.Position, k}
		return nil
	}
	if d := before.books.difference(k); d != "" || before.position != view.Position {
		return fmt.Errorf("checkpoint %d at %s shows something else than before, at %s: %s", view.Checkpoint, view.Position, before.position, d)
	}
	return nil
}

// judge holds all that was seen against the source's own log.
func (w *watcher) judge(j *journal) error {
	for _, s := range w.seen {
		if d := j.at(s.position).difference(s.books); d != "" {
			return fmt.Errorf("checkpoint %d is not the source at %s: %s", s.checkpoint, s.position, d)
		}
	}
	return nil
}
