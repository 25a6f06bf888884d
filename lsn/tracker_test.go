package lsn

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
)

// model is the tracker's specification in the plainest form.
type model struct {
	start LSN
	ends  []LSN
	done  []bool
}

func (m *model) covered() int {
	n := 0
	for n < len(m.done) && m.done[n] {
		n++
	}
	return n
}

func (m *model) safe() LSN {
	if n := m.covered(); n > 0 {
		return m.ends[n-1]
	}
	return m.start
}

func (m *model) inFlight() int { return len(m.ends) - m.covered() }

// pair drives a tracker beside its model and compares them after each step.
type pair struct {
	t        testing.TB
	model    model
	tracker  *Tracker
	capacity int
	dones    []func()
}

var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func newPair(t testing.TB, capacity int) *pair {
	return &pair{t: t, capacity: capacity, model: model{start: 7}, tracker: NewTracker(capacity, 7)}
}

// track reports whether the cut was admitted; its context has ended, so a tracker without room refuses at once.
func (p *pair) track(end LSN) bool {
	full := p.model.inFlight() == p.capacity
	done, err := p.tracker.Track(ended, end)
	if full != (err != nil) {
		p.t.Fatalf("with %d of %d cuts in flight, Track gave %v", p.model.inFlight(), p.capacity, err)
	}
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			p.t.Fatalf("a full tracker gave %v, wanted the context's cause", err)
		}
		return false
	}
	p.model.ends = append(p.model.ends, end)
	p.model.done = append(p.model.done, false)
	p.dones = append(p.dones, done)
	p.compare()
	return true
}

func (p *pair) finish(i int) {
	before, advanced := p.tracker.Advanced()
	p.model.done[i] = true
	p.dones[i]()
	p.compare()
	told := false
	select {
	case <-advanced:
		told = true
	default:
	}
	if moved := p.tracker.Safe() != before; moved != told {
		p.t.Fatalf("Safe moved: %v, but told: %v", moved, told)
	}
}

func (p *pair) compare() {
	p.t.Helper()
	if got, want := p.tracker.Safe(), p.model.safe(); got != want {
		p.t.Fatalf("Safe is %v, wanted %v: ends %v, durable %v", got, want, p.model.ends, p.model.done)
	}
	if got, want := p.tracker.InFlight(), p.model.inFlight(); got != want {
		p.t.Fatalf("InFlight is %d, wanted %d", got, want)
	}
}

// TestSafeIsNeverPastAnUnfinishedCut goes through every interleaving of tracking and finishing up to six cuts, for each
// capacity.
func TestSafeIsNeverPastAnUnfinishedCut(t *testing.T) {
	const cuts = 6
	for capacity := 1; capacity <= cuts; capacity++ {
		var paths int
		// script is the path so far: -1 tracks the next cut, i >= 0 finishes cut i.
		var explore func(script []int)
		explore = func(script []int) {
			p := newPair(t, capacity)
			for _, step := range script {
				if step >= 0 {
					p.finish(step)
				} else if !p.track(7 + LSN(len(p.dones)/2)) { // ends come in equal pairs
					return // refused, as it should be: the path ends here
				}
			}
			tracked := len(p.dones)
			finished := true
			for i := range tracked {
				if !p.model.done[i] {
					finished = false
					explore(append(script[:len(script):len(script)], i))
				}
			}
			if tracked < cuts {
				explore(append(script[:len(script):len(script)], -1))
			} else if finished {
				paths++
			}
		}
		explore(nil)
		if capacity == cuts && paths != 1*3*5*7*9*11 {
			t.Errorf("%d complete paths were seen, wanted all 10395", paths)
		}
	}
}

func TestTrackRefusesAnEndThatGoesBackAndKeepsItsRoom(t *testing.T) {
	p := newPair(t, 1)
	if _, err := p.tracker.Track(t.Context(), 6); err == nil {
		t.Fatal("a cut that ends before the start was admitted")
	}
	if !p.track(9) {
		t.Fatal("the refused cut kept the only room")
	}
	p.finish(0)
	if _, err := p.tracker.Track(t.Context(), 8); err == nil {
		t.Fatal("a cut that ends before the last one was admitted")
	}
}

func TestDoneTwiceDoesNotFinishALaterCut(t *testing.T) {
	p := newPair(t, 1)
	p.track(10)
	p.finish(0)
	p.track(20) // takes the same place in the ring
	p.dones[0]()
	p.compare()
	p.finish(1)
}

func TestTrackWaitsForRoom(t *testing.T) {
	p := newPair(t, 2)
	p.track(10)
	p.track(20)
	admitted := make(chan error)
	go func() {
		_, err := p.tracker.Track(t.Context(), 30)
		admitted <- err
	}()
	p.dones[1]() // not the oldest: makes no room
	select {
	case <-admitted:
		t.Fatal("a third cut was admitted beside two in flight")
	default:
	}
	p.dones[0]()
	if err := <-admitted; err != nil {
		t.Fatal(err)
	}
	if got := p.tracker.Safe(); got != 20 {
		t.Fatalf("Safe is %v, wanted 0/14", got)
	}
}

// TestConcurrentFinishersAdvanceToTheEnd lets many goroutines finish cuts out of order while one tracks and one watches.
func TestConcurrentFinishersAdvanceToTheEnd(t *testing.T) {
	const cuts = 2000
	tracker := NewTracker(8, 0)
	work := make(chan func(), 8)
	var finishers sync.WaitGroup
	for range 4 {
		finishers.Go(func() {
			for done := range work {
				done()
			}
		})
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		last := LSN(0)
		for last < cuts {
			safe, advanced := tracker.Advanced()
			if safe < last {
				t.Errorf("Safe went back from %v to %v", last, safe)
			}
			if last = safe; last < cuts {
				<-advanced
			}
		}
	}()
	for i := range cuts {
		done, err := tracker.Track(t.Context(), LSN(i+1))
		if err != nil {
			t.Fatal(err)
		}
		work <- done
	}
	close(work)
	finishers.Wait()
	<-watched
	if tracker.InFlight() != 0 {
		t.Fatalf("%d cuts are still in flight", tracker.InFlight())
	}
}

func TestRandomRunsAgreeWithTheModel(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		script := make([]byte, 300)
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		play(t, script)
	}
}

// play reads a script: the first byte is the capacity, each following one a step.
func play(t testing.TB, script []byte) {
	if len(script) == 0 {
		return
	}
	p := newPair(t, 1+int(script[0]%16))
	end := LSN(7)
	for _, b := range script[1:] {
		if b%2 == 0 || len(p.dones) == 0 {
			if p.track(end + LSN(b>>5)) {
				end += LSN(b >> 5)
			}
			continue
		}
		// Finish one of the newest cuts, possibly again.
		back := int(b>>1) % min(len(p.dones), 20)
		p.finish(len(p.dones) - 1 - back)
	}
}

func FuzzTracker(f *testing.F) {
	f.Add([]byte{3, 0, 0, 0, 5, 3, 1})
	f.Add([]byte{0, 0, 1, 0, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 1000 {
			return // the model is quadratic
		}
		play(t, script)
	})
}
