package lsn

import (
	"context"
	"fmt"
	"sync"
)

// Tracker follows the cuts in flight between the decoder and the lake, and says up to where everything is durable
// (promise 1). Cuts are tracked in order and may become durable in any order. It is safe for concurrent use.
type Tracker struct {
	// room holds a token for each cut in flight; it is full when no further cut is admitted.
	room chan struct{}

	mu sync.Mutex
	// ring holds the cuts first..next-1, cut i at i modulo its length. Invariant: next-first <= len(ring), and the cut
	// first, if there is one, is not durable.
	ring        []tracked
	first, next uint64
	// last is the end of the newest cut, safe that of the newest cut with every one before it durable.
	last, safe LSN
	advanced   chan struct{}
}

type tracked struct {
	end     LSN
	durable bool
}

// NewTracker makes a tracker that admits at most capacity (>= 1) cuts in flight and starts with everything up to start
// durable.
func NewTracker(capacity int, start LSN) *Tracker {
	if capacity < 1 {
		panic(fmt.Sprintf("a tracker needs room for at least one cut, not %d", capacity))
	}
	return &Tracker{
		room:     make(chan struct{}, capacity),
		ring:     make([]tracked, capacity),
		last:     start,
		safe:     start,
		advanced: make(chan struct{}),
	}
}

// Track admits the next cut, which ends at end. It blocks while capacity cuts are in flight; then ctx's end gives its
// cause as the error and nothing is tracked. A cut that ends before the one tracked last is refused with an error; one
// that ends at the same place is admitted, since a cut need not hold a transaction. The order of calls is the order of
// cuts.
//
// done says that the cut is durable. It does not block, may be called from any goroutine, and does nothing when called
// again. A cut whose done is never called holds Safe where it is.
func (t *Tracker) Track(ctx context.Context, end LSN) (done func(), err error) {
	select {
	case t.room <- struct{}{}:
	default:
		select {
		case t.room <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if end < t.last {
		<-t.room
		return nil, fmt.Errorf("a cut that ends at %v was tracked after one that ends at %v: cuts must be tracked in order", end, t.last)
	}
	n := t.next
	t.ring[t.at(n)] = tracked{end: end}
	t.next++
	t.last = end
	return func() { t.done(n) }, nil
}

func (t *Tracker) at(n uint64) uint64 { return n % uint64(len(t.ring)) }

func (t *Tracker) done(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n < t.first || t.ring[t.at(n)].durable {
		return
	}
	t.ring[t.at(n)].durable = true
	before := t.safe
	for t.first < t.next && t.ring[t.at(t.first)].durable {
		t.safe = t.ring[t.at(t.first)].end
		t.first++
		<-t.room
	}
	if t.safe != before {
		close(t.advanced)
		t.advanced = make(chan struct{})
	}
}

// Safe is the end of the last cut with every one before it durable: the slot may be acknowledged at it. It never goes
// back.
func (t *Tracker) Safe() LSN {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.safe
}

// Advanced gives Safe and a channel that is closed when it has moved past that value, so that no advance is missed
// between the two.
func (t *Tracker) Advanced() (LSN, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.safe, t.advanced
}

// InFlight counts the cuts that were tracked and are not covered by Safe.
func (t *Tracker) InFlight() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.next - t.first)
}
