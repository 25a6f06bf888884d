package decoder

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/message"
)

// stream is a random source history: what each table is to receive, and the raw messages that say so.
type stream struct {
	raws []*message.Raw
	// rows has for each table the events in order, as "xid:value"; commits when each transaction committed.
	rows    map[uint32][]string
	commits map[uint32]lsn.LSN
	commit  []lsn.LSN
	budget  *message.Budget

	random   *rand.Rand
	position lsn.LSN
	pending  []message.RawMessage
	at       lsn.LSN
	xid      uint32
	seen     map[uint32]bool
	open     []*inProgress
}

const (
	tables   = 5
	unrouted = 5 // the highest oid has no route
)

// inProgress is a transaction that is sent in blocks.
type inProgress struct {
	xid    uint32
	begun  bool
	seen   map[uint32]bool
	events []streamed
	// open are its nested subtransactions, outermost first, each with those inside it that have ended: they are rolled
	// back with it. The innermost writes.
	open [][]uint32
}

type streamed struct {
	sub, oid uint32
	event    string
}

func randomStream(r *rand.Rand, position lsn.LSN) *stream {
	s := &stream{rows: map[uint32][]string{}, commits: map[uint32]lsn.LSN{}, budget: message.NewBudget(1<<50, nil),
		random: r, position: position, at: 0x100, seen: map[uint32]bool{}}
	blocks := r.IntN(2) == 0
	for range 1 + r.IntN(40) {
		if blocks && r.IntN(3) > 0 {
			s.streamed()
		} else {
			s.transaction()
		}
		if r.IntN(4) == 0 {
			s.at += lsn.LSN(r.IntN(3))
			s.emit("keepalive %v time=%d", s.at, r.IntN(100))
		}
	}
	for len(s.open) > 0 && r.IntN(4) > 0 {
		s.streamed()
	}
	s.flush()
	return s
}

func (s *stream) flush() {
	raw := &message.Raw{Messages: s.pending, Cost: s.random.Int64N(100000), Release: func() {}}
	if s.random.IntN(10) == 0 {
		raw.Cost = 0
	}
	s.raws = append(s.raws, raw)
	s.pending = nil
}

func (s *stream) emit(format string, args ...any) {
	s.pending = append(s.pending, rawMessage(fmt.Sprintf(format, args...)))
	if s.random.IntN(6) == 0 {
		s.flush()
	}
}

// change emits a change of a random table with what has to come before it; sub is empty or what marks a message in a block.
func (s *stream) change(xid uint32, seen map[uint32]bool, sub string) (oid uint32, event string) {
	oid = 1 + uint32(s.random.IntN(tables))
	if !seen[oid] || s.random.IntN(20) == 0 {
		seen[oid] = true
		s.emit("relation %d public.t%d d id:%d*%s", oid, oid, 20+s.random.IntN(2), sub)
	}
	event = fmt.Sprintf("%d:%d", xid, s.random.IntN(1000))
	switch s.random.IntN(10) {
	case 0:
		s.emit("truncate 0 %d%s", oid, sub)
		event = fmt.Sprintf("%d:truncate", xid)
	case 1:
		s.emit("update %d K=x new=%s%s", oid, event, sub)
	default:
		s.emit("insert %d new=%s%s", oid, event, sub)
	}
	return oid, event
}

// committed notes that a transaction commits now; it gives where, and whether the lake does not hold it.
func (s *stream) committed(xid uint32) (commit lsn.LSN, fresh bool) {
	commit = s.at
	s.at += lsn.LSN(0x10 + s.random.IntN(0x100))
	s.commits[xid] = commit
	if commit >= s.position {
		s.commit = append(s.commit, commit)
	}
	return commit, commit >= s.position
}

func (s *stream) happened(oid uint32, event string) {
	if oid != unrouted {
		s.rows[oid] = append(s.rows[oid], event)
	}
}

// transaction emits one that is sent at its commit.
func (s *stream) transaction() {
	s.xid++
	xid := s.xid
	commit, fresh := s.committed(xid)
	s.emit("begin %v xid=%d time=%d", commit, xid, s.random.IntN(100))
	for range s.random.IntN(8) {
		if oid, event := s.change(xid, s.seen, ""); fresh {
			s.happened(oid, event)
		}
	}
	s.emit("commit %v %v time=%d", commit, s.at, s.random.IntN(100))
}

// streamed emits the next piece of a transaction in progress: a block, a rollback of a part or of all, or its commit.
func (s *stream) streamed() {
	r := s.random
	if len(s.open) == 0 || len(s.open) < 3 && r.IntN(3) == 0 {
		s.xid++
		s.open = append(s.open, &inProgress{xid: s.xid, seen: map[uint32]bool{}, open: [][]uint32{{s.xid}}})
	}
	i := r.IntN(len(s.open))
	p := s.open[i]
	switch n := r.IntN(10); {
	case n < 6 || !p.begun:
		s.piece(p)
	case n < 8 && len(p.open) > 1:
		from := 1 + r.IntN(len(p.open)-1)
		for _, sub := range slices.Concat(p.open[from:]...) {
			s.emit("streamabort %d %d", p.xid, sub)
			var kept []streamed
			for _, e := range p.events {
				if e.sub != sub {
					kept = append(kept, e)
				}
			}
			p.events = kept
		}
		p.open = p.open[:from]
		p.seen = map[uint32]bool{} // the source describes every table anew
	case n < 9:
		commit, fresh := s.committed(p.xid)
		for _, e := range p.events {
			if fresh {
				s.happened(e.oid, e.event)
			}
		}
		s.emit("streamcommit %d %v %v time=%d", p.xid, commit, s.at, r.IntN(100))
		s.open = append(s.open[:i], s.open[i+1:]...)
		for oid := range p.seen {
			s.seen[oid] = true
		}
	default:
		s.emit("streamabort %d %d", p.xid, p.xid)
		s.open = append(s.open[:i], s.open[i+1:]...)
	}
}

// piece emits a block.
func (s *stream) piece(p *inProgress) {
	first := " first"
	if p.begun {
		first = ""
	}
	p.begun = true
	s.emit("stream %d%s", p.xid, first)
	for range s.random.IntN(8) {
		last := len(p.open) - 1
		switch s.random.IntN(6) {
		case 0:
			s.xid++
			p.open = append(p.open, []uint32{s.xid})
		case 1:
			if last > 0 {
				p.open[last-1] = append(p.open[last-1], p.open[last]...)
				p.open = p.open[:last]
			}
		}
		sub := p.open[len(p.open)-1][0]
		oid, event := s.change(p.xid, p.seen, fmt.Sprintf(" sub=%d", sub))
		p.events = append(p.events, streamed{sub, oid, event})
	}
	s.emit("stop")
}
