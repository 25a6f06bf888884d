package message

import (
	"context"
	"sync"
	"time"
)

// Budget bounds the bytes that are between the reader and the store (promise 6). The reader admits with Acquire, the
// decoder, when it replays a transaction that it has collected, with AcquireAhead; whoever ends the life of the bytes
// releases. It is safe for concurrent use.
//
// What the reader has admitted and the decoder has not done with is in front of the decoder: while that replays, nobody
// can end the life of those bytes. So AcquireAhead does not count them, or the two would wait for each other for ever.
type Budget struct {
	capacity int64
	pressure func()

	mu   sync.Mutex
	used int64
	// front is the part of used that is in front of the decoder.
	front        int64
	ahead, queue []*waiter
}

type waiter struct {
	n     int64
	admit chan struct{}
}

// pressEvery is how often pressure is called while an Acquire waits: what the later stages held at first may have been on
// its way to where it can be sent on.
const pressEvery = 20 * time.Millisecond

// NewBudget makes a budget of capacity bytes. pressure is called, without a lock held, while an Acquire has to wait: it
// asks the later stages to send on what they hold, and must not block.
func NewBudget(capacity int64, pressure func()) *Budget {
	return &Budget{capacity: capacity, pressure: pressure}
}

// Acquire admits n bytes in front of the decoder, in order of arrival, waiting until they fit. More than the capacity is
// admitted once nothing else is held, so that one large message cannot stop the pipeline.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
	b.mu.Lock()
	if len(b.ahead)+len(b.queue) == 0 && b.fits(n) {
		b.take(n, true)
		b.mu.Unlock()
		return nil
	}
	w := &waiter{n: n, admit: make(chan struct{})}
	b.queue = append(b.queue, w)
	b.mu.Unlock()
	return b.wait(ctx, w, true)
}

// TryAcquireAhead admits n bytes behind the decoder if they fit at once.
func (b *Budget) TryAcquireAhead(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ahead) > 0 || !b.fitsAhead(n) {
		return false
	}
	b.take(n, false)
	return true
}

// AcquireAhead admits n bytes behind the decoder, before all that wait in Acquire.
func (b *Budget) AcquireAhead(ctx context.Context, n int64) error {
	if b.TryAcquireAhead(n) {
		return nil
	}
	w := &waiter{n: n, admit: make(chan struct{})}
	b.mu.Lock()
	b.ahead = append(b.ahead, w)
	b.admit()
	b.mu.Unlock()
	return b.wait(ctx, w, false)
}

// wait waits for w's admission, and takes it out of its queue, or gives back what it got, when ctx ends before.
func (b *Budget) wait(ctx context.Context, w *waiter, front bool) error {
	again := time.NewTicker(pressEvery)
	defer again.Stop()
	for {
		if b.pressure != nil {
			b.pressure()
		}
		select {
		case <-w.admit:
			return nil
		case <-again.C:
		case <-ctx.Done():
			b.giveUp(w, front)
			return context.Cause(ctx)
		}
	}
}

func (b *Budget) giveUp(w *waiter, front bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.admit: // at the same moment
		b.used -= w.n
		if front {
			b.front -= w.n
		}
	default:
		b.ahead, b.queue = without(b.ahead, w), without(b.queue, w)
	}
	b.admit() // those behind may fit where this one did not
}

func without(queue []*waiter, w *waiter) []*waiter {
	for i, q := range queue {
		if q == w {
			return append(queue[:i], queue[i+1:]...)
		}
	}
	return queue
}

// Received tells that the decoder has done with n bytes of those in front of it. It never blocks.
func (b *Budget) Received(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.front = max(0, b.front-n)
	b.admit()
}

// Release gives back n bytes. It never blocks.
func (b *Budget) Release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.used < 0 {
		panic("more bytes released than were admitted")
	}
	b.front = min(b.front, b.used)
	b.admit()
}

// Behind gives the admitted bytes that the decoder has done with: they are in its open runs, with the batchers or on their
// way to the store.
func (b *Budget) Behind() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used - b.front
}

// Used gives the admitted bytes, Capacity the bound.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Capacity gives the bound in bytes.
func (b *Budget) Capacity() int64 { return b.capacity }

// Waiting reports whether an Acquire is waiting.
func (b *Budget) Waiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ahead)+len(b.queue) > 0
}

func (b *Budget) fits(n int64) bool { return b.used+n <= b.capacity || b.used == 0 }

func (b *Budget) fitsAhead(n int64) bool {
	behind := b.used - b.front
	return behind+n <= b.capacity || behind <= 0
}

func (b *Budget) take(n int64, front bool) {
	b.used += n
	if front {
		b.front += n
	}
}

// admit lets in who fits. Nobody passes one that waits ahead: only its progress takes from the front.
func (b *Budget) admit() {
	for len(b.ahead) > 0 && b.fitsAhead(b.ahead[0].n) {
		b.take(b.ahead[0].n, false)
		close(b.ahead[0].admit)
		b.ahead = b.ahead[1:]
	}
	for len(b.ahead) == 0 && len(b.queue) > 0 && b.fits(b.queue[0].n) {
		b.take(b.queue[0].n, true)
		close(b.queue[0].admit)
		b.queue = b.queue[1:]
	}
}
