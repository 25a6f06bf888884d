package message

import (
	"context"
	"errors"
	"math/rand"
	"sync"
	"testing"
	"testing/synctest"
)

func TestTheBudgetIsNeverExceededButByOneLargeMessage(t *testing.T) {
	const capacity = 100
	b := NewBudget(capacity, nil)
	var mu sync.Mutex
	held, alone := int64(0), false
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			random := rand.New(rand.NewSource(int64(worker)))
			for range 500 {
				n := 1 + random.Int63n(60)
				if random.Intn(50) == 0 {
					n = capacity * 3
				}
				if err := b.Acquire(context.Background(), n); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				held += n
				if n > capacity {
					alone = true
				}
				if held > capacity && !(alone && held == n) {
					t.Errorf("%d bytes are held, %d is the bound", held, capacity)
				}
				held -= n
				alone = alone && n <= capacity
				mu.Unlock()
				b.Release(n)
			}
		})
	}
	all.Wait()
	if b.Used() != 0 || b.Waiting() {
		t.Fatalf("%d bytes are left, waiting %v", b.Used(), b.Waiting())
	}
}

func TestAWaiterThatGivesUpLetsThoseBehindItIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pressed := map[int64]bool{}
		var b *Budget
		b = NewBudget(10, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, w := range b.queue {
				pressed[w.n] = true
			}
		})
		if err := b.Acquire(t.Context(), 8); err != nil {
			t.Fatal(err)
		}
		stop := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		gaveUp, admitted := make(chan error, 1), make(chan error, 1)
		go func() { gaveUp <- b.Acquire(ctx, 9) }()
		synctest.Wait()
		go func() { admitted <- b.Acquire(t.Context(), 2) }()
		synctest.Wait()
		select {
		case <-admitted:
			t.Fatal("a later and smaller request overtook an earlier one")
		default:
		}
		cancel(stop)
		if err := <-gaveUp; !errors.Is(err, stop) {
			t.Fatalf("gave up with %v", err)
		}
		if err := <-admitted; err != nil {
			t.Fatal(err)
		}
		if !pressed[9] || !pressed[2] || b.Used() != 10 {
			t.Fatalf("pressure was asked for by %v, %d bytes are held", pressed, b.Used())
		}
	})
}

// TestPressureIsAskedForAgain: what holds the bytes may not be where it can be sent on yet when an Acquire begins to wait.
func TestPressureIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		var b *Budget
		b = NewBudget(10, func() {
			if asked++; asked == 3 {
				b.Release(10)
			}
		})
		if err := b.Acquire(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		if err := b.Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if asked != 3 || b.Used() != 1 {
			t.Fatalf("pressure was asked for %d times, %d bytes are held", asked, b.Used())
		}
	})
}

// TestTheDecoderNeverWaitsForWhatIsInFrontOfIt: bytes that the reader has admitted are ended by the decoder alone.
func TestTheDecoderNeverWaitsForWhatIsInFrontOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(10, nil)
		if err := b.Acquire(t.Context(), 30); err != nil { // one message larger than the budget, not received yet
			t.Fatal(err)
		}
		admitted := make(chan error, 1)
		go func() { admitted <- b.Acquire(t.Context(), 1) }()
		synctest.Wait()
		if !b.TryAcquireAhead(7) || b.TryAcquireAhead(7) {
			t.Fatal("what is behind the decoder is not bounded by the capacity alone")
		}
		replays := make(chan error, 1)
		go func() { replays <- b.AcquireAhead(t.Context(), 8) }()
		synctest.Wait()
		b.Release(7)
		if err := <-replays; err != nil {
			t.Fatal(err)
		}
		b.Release(8)
		b.Received(30)
		select {
		case <-admitted:
			t.Fatal("a message was admitted although the budget is full")
		default:
		}
		b.Release(30)
		if err := <-admitted; err != nil || b.Used() != 1 {
			t.Fatalf("%v, %d bytes are held", err, b.Used())
		}
	})
}

func TestAReplayThatIsStoppedKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(10, nil)
		if !b.TryAcquireAhead(10) {
			t.Fatal("the budget is not free")
		}
		ctx, stop := context.WithCancel(t.Context())
		replays := make(chan error, 1)
		go func() { replays <- b.AcquireAhead(ctx, 5) }()
		synctest.Wait()
		stop()
		if err := <-replays; !errors.Is(err, context.Canceled) || b.Waiting() || b.Used() != 10 {
			t.Fatalf("%v, waiting %v, %d bytes are held", err, b.Waiting(), b.Used())
		}
	})
}

func TestACutIsReadyWhenEveryTableHasAnswered(t *testing.T) {
	c := NewCut(2)
	c.Answer(nil)
	c.Expect()
	c.Answer(&Part{})
	if c.Ready() {
		t.Fatal("ready with a part missing")
	}
	c.Answer(&Part{})
	parts, err := c.Parts(t.Context())
	if err != nil || len(parts) != 2 || !c.Ready() {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	for what, f := range map[string]func(){"one answer more": func() { c.Answer(nil) }, "a part asked for too late": func() { c.Expect() }} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was taken", what)
				}
			}()
			f()
		}()
	}
	ended, stop := context.WithCancelCause(t.Context())
	stop(errors.New("stopped"))
	if _, err := NewCut(1).Parts(ended); err == nil {
		t.Error("a wait went on after its context had ended")
	}
}
