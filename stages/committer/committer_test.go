package committer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/rows"
	"go.uber.org/zap/zaptest"
)

// lake records checkpoints; fail is asked before each, to inject faults. Only what the committer calls is there.
type lake struct {
	formats.Lake
	mu   sync.Mutex
	seen []formats.Checkpoint
	fail func(cp *formats.Checkpoint) error
}

func (l *lake) Commit(_ context.Context, cp *formats.Checkpoint) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		if err := l.fail(cp); err != nil {
			return err
		}
	}
	l.seen = append(l.seen, *cp)
	return nil
}

// stand is a committer under test; acknowledged receives each position that the source may let go up to.
type stand struct {
	t            *testing.T
	lake         *lake
	cuts         chan *message.Cut
	acknowledged chan lsn.LSN
	ended        chan error
}

func start(t *testing.T, inFlight int) *stand {
	s := &stand{t: t, lake: &lake{}, cuts: make(chan *message.Cut), acknowledged: make(chan lsn.LSN, 100), ended: make(chan error, 1)}
	c := New(Config{Lake: s.lake, State: &formats.State{Position: 10, Checkpoint: 3}, InFlight: inFlight,
		Acknowledge: func(at lsn.LSN) { s.acknowledged <- at }, Log: zaptest.NewLogger(t)})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { s.ended <- c.Run(ctx, s.cuts) }()
	t.Cleanup(cancel)
	return s
}

func cut(end lsn.LSN, parts int) *message.Cut {
	c := message.NewCut(parts)
	c.End, c.Rows = end, 1
	return c
}

func part(id string, segments ...*message.Segment) *message.Part {
	return &message.Part{Change: formats.TableChange{Table: formats.TableRef{ID: id}, Deletes: map[string]*roaring.Bitmap{id + "/old": roaring.BitmapOf(1)}}, Segments: segments}
}

func (s *stand) send(c *message.Cut) {
	s.t.Helper()
	select {
	case s.cuts <- c:
	case err := <-s.ended:
		s.t.Fatal("the committer ended: ", err)
	case <-time.After(20 * time.Second):
		s.t.Fatal("the committer took no cut within 20 s")
	}
}

func (s *stand) await(at lsn.LSN) {
	s.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case got := <-s.acknowledged:
			if got == at {
				return
			}
			if got > at {
				s.t.Fatalf("acknowledged %s, expected %s first", got, at)
			}
		case err := <-s.ended:
			s.t.Fatal("the committer ended: ", err)
		case <-deadline:
			s.t.Fatalf("%s was not acknowledged within 20 s", at)
		}
	}
}

func TestNothingIsAcknowledgedBeforeItsPartsAreStored(t *testing.T) {
	s := start(t, 4)
	slow := message.NewSegment()
	first, second := cut(20, 1), cut(30, 1)
	first.Answer(part("a", slow))
	second.Answer(part("a"))
	s.send(first)
	s.send(second)
	select {
	case at := <-s.acknowledged:
		t.Fatalf("acknowledged %s while a segment of the first cut was under way", at)
	default:
	}
	slow.Finish(formats.DataFile{Path: "a/new", Rows: 5}, nil)
	s.await(30)
	s.lake.mu.Lock()
	defer s.lake.mu.Unlock()
	var files []string
	number, from := int64(4), lsn.LSN(10)
	for _, cp := range s.lake.seen {
		if cp.Number != number || cp.From != from {
			t.Fatalf("checkpoint %d from %s, expected %d from %s", cp.Number, cp.From, number, from)
		}
		number, from = number+1, cp.To
		for _, c := range cp.Changes {
			for _, f := range c.Add {
				files = append(files, f.Path)
			}
		}
	}
	if !slices.Equal(files, []string{"a/new"}) || from != 30 {
		t.Fatalf("the lake has %v at %s", files, from)
	}
}

func TestOneTablesValueErrorSetsItAsideAndTheRestGoesOn(t *testing.T) {
	s := start(t, 4)
	bad := message.NewSegment()
	bad.Finish(formats.DataFile{}, fmt.Errorf("%w: infinity", rows.ErrValue))
	broken := part("bad", bad)
	broken.Failed = func(err error) *formats.TableState {
		return &formats.TableState{Table: formats.TableRef{ID: "bad"}, SetAside: err.Error()}
	}
	c := cut(20, 2)
	c.Answer(broken)
	c.Answer(part("good"))
	s.send(c)
	later := cut(30, 2)
	later.Answer(part("bad"))
	later.Answer(part("good"))
	s.send(later)
	s.await(30)
	s.lake.mu.Lock()
	defer s.lake.mu.Unlock()
	var aside bool
	good := 0
	for _, cp := range s.lake.seen {
		for _, c := range cp.Changes {
			if c.Table.ID == "bad" {
				t.Fatal("a change of the table that was set aside was committed")
			}
			good++
		}
		for _, state := range cp.States {
			aside = aside || state.Table.ID == "bad" && state.SetAside != ""
		}
	}
	if !aside || good == 0 {
		t.Fatalf("set aside %v, %d changes of the other table", aside, good)
	}
}

func TestAChangeTheLakeCannotMakeSetsItsTableAside(t *testing.T) {
	s := start(t, 4)
	s.lake.fail = func(cp *formats.Checkpoint) error {
		for _, c := range cp.Changes {
			if c.Table.ID == "bad" {
				return &formats.TableError{Table: c.Table, Err: errors.New("its file is damaged")}
			}
		}
		return nil
	}
	broken := part("bad")
	broken.Failed = func(err error) *formats.TableState {
		return &formats.TableState{Table: formats.TableRef{ID: "bad"}, SetAside: err.Error()}
	}
	c := cut(20, 2)
	c.Answer(broken)
	c.Answer(part("good"))
	s.send(c)
	s.await(20)
	s.lake.mu.Lock()
	defer s.lake.mu.Unlock()
	cp := s.lake.seen[0]
	if len(cp.Changes) != 1 || cp.Changes[0].Table.ID != "good" || len(cp.States) != 1 || cp.States[0].SetAside == "" {
		t.Fatalf("committed %+v", cp)
	}
}

func TestKeysOfPartsOfOneSwapJoin(t *testing.T) {
	m := newMerge()
	for i, row := range []uint32{3, 5} {
		p := part("a")
		p.Change.Deletes = map[string]*roaring.Bitmap{"a/old": roaring.BitmapOf(row)}
		p.Change.Keyed = map[string]*roaring.Bitmap{"a/old": p.Change.Deletes["a/old"]} // shared
		p.Change.Keys = []formats.KeyFile{{DataFile: formats.DataFile{Path: fmt.Sprint("a/keys", i)}}}
		m.add(p)
	}
	byPosition := part("a")
	byPosition.Change.Deletes = map[string]*roaring.Bitmap{"a/old": roaring.BitmapOf(7)}
	m.add(byPosition)
	changes, _, _ := m.result()
	a := changes[0]
	if len(a.Keys) != 2 || !slices.Equal(a.Deletes["a/old"].ToArray(), []uint32{3, 5, 7}) || !slices.Equal(a.Keyed["a/old"].ToArray(), []uint32{3, 5}) {
		t.Fatalf("joined to %+v", a)
	}
	truncated := part("a")
	truncated.Change.Truncate, truncated.Change.Deletes = true, nil
	m.add(truncated)
	if changes, _, _ := m.result(); len(changes[0].Keys) != 0 || len(changes[0].Keyed) != 0 {
		t.Fatalf("keys are left after TRUNCATE: %+v", changes[0])
	}
}

func TestPartsOfOneSwapJoinInOrder(t *testing.T) {
	m := newMerge()
	add := func(id, file string) *message.Part {
		p := part(id)
		p.Change.Add = []formats.DataFile{{Path: file}}
		return p
	}
	m.add(add("a", "a/1"))
	truncated := add("a", "a/2")
	truncated.Change.Truncate, truncated.Change.Deletes = true, nil
	m.add(truncated)
	last := add("a", "a/3")
	last.Change.Deletes = map[string]*roaring.Bitmap{"a/2": roaring.BitmapOf(7)}
	m.add(last)
	gone := part("b")
	m.add(gone)
	successor := part("c")
	successor.Forget = []string{"b"}
	m.add(successor)
	changes, _, forget := m.result()
	if len(changes) != 2 || changes[0].Table.ID != "a" || changes[1].Table.ID != "c" || !slices.Equal(forget, []string{"b"}) {
		t.Fatalf("joined to %+v, forgetting %v", changes, forget)
	}
	a := changes[0]
	if !a.Truncate || len(a.Add) != 2 || a.Add[0].Path != "a/2" || a.Add[1].Path != "a/3" || len(a.Deletes) != 1 || !a.Deletes["a/2"].Contains(7) {
		t.Fatalf("table a joined to %+v", a)
	}
}
