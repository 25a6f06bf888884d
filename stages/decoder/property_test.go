package decoder

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/message"
)

type fixedRouter map[uint32]*message.Route

func (f fixedRouter) Route(oid uint32) *message.Route { return f[oid] }
func (f fixedRouter) Copying() []*message.Route {
	if f[1].EveryCut != nil && f[1].EveryCut() {
		return []*message.Route{f[1]}
	}
	return nil
}

// received is what one table's batcher saw, up to each cut.
type received struct {
	commits map[uint32]lsn.LSN
	events  []string
	cuts    map[*message.Cut]int
	cost    int64
	fault   error
}

func (v *received) take(m message.TableMessage) {
	switch m := m.(type) {
	case *message.Rows:
		v.cost += m.Cost
		next := 0
		xid := uint32(0)
		for i, c := range m.Changes {
			if next < len(m.Transactions) && m.Transactions[next].First == i {
				xid = m.Transactions[next].XID
				if at := m.Transactions[next].Commit; at != v.commits[xid] {
					v.fault = fmt.Errorf("transaction %d stands at %v, but committed at %v", xid, at, v.commits[xid])
				}
				next++
			}
			columns, err := message.Columns(m.Bytes[c.New.From:c.New.To], nil)
			if err != nil {
				v.fault = err
				return
			}
			event := string(columns[0].Data)
			if !strings.HasPrefix(event, fmt.Sprintf("%d:", xid)) {
				v.fault = fmt.Errorf("row %s stands under transaction %d", event, xid)
			}
			v.events = append(v.events, event)
		}
		if next != len(m.Transactions) {
			v.fault = fmt.Errorf("transactions %v of %d changes", m.Transactions, len(m.Changes))
		}
	case *message.Truncate:
		v.events = append(v.events, fmt.Sprintf("%d:truncate", m.XID))
	case *message.Cut:
		if _, twice := v.cuts[m]; twice {
			v.fault = fmt.Errorf("cut %d came twice", m.Sequence)
		}
		v.cuts[m] = len(v.events)
		m.Answer(nil)
	}
}

// TestEveryCutIsWhole runs random histories and compares what each table received with the history, at every cut: all of
// the transactions up to the cut's commit and nothing of later ones (promise 3), each change once (promise 2), and every
// byte of the budget either with a table or given back (promise 6).
func TestEveryCutIsWhole(t *testing.T) {
	dir := t.TempDir()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		position := lsn.LSN(0x100 + r.IntN(0x1000))
		s := randomStream(r, position)
		cuts, tables := runStream(t, s, Config{
			Position: position, ChunkBytes: 1 + r.IntN(200), Budget: s.budget, SpillDir: dir, SpillMemory: 1 + r.Int64N(20000),
			Flush: Flush{Interval: time.Duration(r.IntN(3)) * time.Hour, Rows: int64(r.IntN(20)), Bytes: int64(r.IntN(300))},
		}, r.IntN(3) == 0)
		check(t, seed, s, cuts, tables)
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("seed %d: %v is left of %d files, %v", seed, left, len(left), err)
		}
		if t.Failed() {
			return
		}
	}
}

func runStream(t *testing.T, s *stream, config Config, copying bool) ([]*message.Cut, map[uint32]*received) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	router, seen := fixedRouter{}, map[uint32]*received{}
	ended := make(chan struct{})
	finished := make(chan struct{}, tables)
	for oid := uint32(1); oid < unrouted; oid++ {
		c := make(chan message.TableMessage, 3)
		router[oid] = &message.Route{OID: oid, C: c, EveryCut: func() bool { return copying }}
		v := &received{commits: s.commits, cuts: map[*message.Cut]int{}}
		seen[oid] = v
		go func() {
			defer func() { finished <- struct{}{} }()
			for {
				select {
				case m := <-c:
					v.take(m)
				case <-ended:
					for len(c) > 0 {
						v.take(<-c)
					}
					return
				}
			}
		}()
	}
	config.Router = router
	in, cuts := make(chan *message.Raw), make(chan *message.Cut, 1000)
	result := make(chan error, 1)
	go func() { result <- New(config).Run(ctx, in, cuts) }()
	for _, raw := range s.raws {
		if err := s.budget.Acquire(ctx, raw.Cost); err != nil {
			t.Fatal(err)
		}
		select {
		case in <- raw:
		case err := <-result:
			t.Fatal(err)
		}
	}
	close(in)
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	close(ended)
	for range seen {
		<-finished
	}
	close(cuts)
	var all []*message.Cut
	for c := range cuts {
		all = append(all, c)
	}
	return all, seen
}

func check(t *testing.T, seed uint64, s *stream, cuts []*message.Cut, tables map[uint32]*received) {
	held := int64(0)
	for oid, v := range tables {
		if v.fault != nil {
			t.Errorf("seed %d: table %d: %v", seed, oid, v.fault)
		}
		if fmt.Sprint(v.events) != fmt.Sprint(s.rows[oid]) {
			t.Errorf("seed %d: table %d received\n%v, wanted\n%v", seed, oid, v.events, s.rows[oid])
		}
		held += v.cost
	}
	if used := s.budget.Used(); used != held {
		t.Errorf("seed %d: the tables hold %d bytes of the budget, but %d are admitted", seed, held, used)
	}
	last, rows := lsn.LSN(0), int64(0)
	for i, c := range cuts {
		if c.Sequence != int64(i+1) || c.End < last || !c.Ready() {
			t.Errorf("seed %d: cut %d has sequence %d, end %v after %v, ready %v", seed, i+1, c.Sequence, c.End, last, c.Ready())
		}
		last = c.End
		rows += c.Rows
		for oid, v := range tables {
			want := 0
			for _, event := range s.rows[oid] {
				var xid uint32
				if _, err := fmt.Sscan(event[:strings.IndexByte(event, ':')], &xid); err != nil {
					t.Fatal(err)
				}
				if s.commits[xid] < c.End {
					want++
				}
			}
			// A table that got no cut here must have nothing new since the one it got before.
			got, ok := 0, false
			for j := i; j >= 0 && !ok; j-- {
				got, ok = v.cuts[cuts[j]]
			}
			if got != want {
				t.Errorf("seed %d: at cut %d, end %v, table %d had %d changes, wanted %d", seed, c.Sequence, c.End, oid, got, want)
			}
		}
	}
	if n := len(s.commit); n > 0 && last <= s.commit[n-1] {
		t.Errorf("seed %d: the last cut ends at %v, before the last commit at %v", seed, last, s.commit[n-1])
	}
}

// TestCancellingGivesBackWhatIsHeld stops the decoder where it blocks, after any number of sends.
func TestCancellingGivesBackWhatIsHeld(t *testing.T) {
	dir := t.TempDir()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		s := randomStream(r, 0)
		ctx, cancel := context.WithCancel(t.Context())
		router := fixedRouter{}
		shared := make(chan message.TableMessage)
		for oid := uint32(1); oid < unrouted; oid++ {
			router[oid] = &message.Route{OID: oid, C: shared}
		}
		in, cuts := make(chan *message.Raw), make(chan *message.Cut, 1000)
		result := make(chan error, 1)
		d := New(Config{Router: router, Budget: s.budget, ChunkBytes: 1 + r.IntN(100), Linger: time.Hour, Flush: Flush{Interval: time.Hour, Rows: 10}, SpillDir: dir, SpillMemory: 1})
		total := int64(0)
		for _, raw := range s.raws {
			total += raw.Cost
		}
		if err := s.budget.Acquire(ctx, total); err != nil {
			t.Fatal(err)
		}
		go func() { result <- d.Run(ctx, in, cuts) }()
		left := r.IntN(30)
		fed, err := 0, error(nil)
		for err == nil {
			next := in
			var raw *message.Raw
			if fed < len(s.raws) {
				raw = s.raws[fed]
			} else {
				next = nil
				cancel()
			}
			select {
			case next <- raw:
				fed++
				total -= raw.Cost
			case m := <-shared:
				if rows, ok := m.(*message.Rows); ok {
					s.budget.Release(rows.Cost)
				}
				if left--; left <= 0 {
					cancel()
				}
			case err = <-result:
			}
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		// What was never fed is still admitted.
		if used := s.budget.Used(); used != total {
			t.Fatalf("seed %d: %d bytes are held, wanted %d", seed, used, total)
		}
		cancel()
	}
}
