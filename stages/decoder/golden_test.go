package decoder

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/message"
)

var rewrite = flag.Bool("rewrite", false, "write the output seen into the golden files")

// table is a route of the test, with what the decoder sent to it in the scenario's log.
type table struct {
	route    *message.Route
	c        chan message.TableMessage
	copying  bool
	unrouted bool
}

// scenario is a decoder in a bubble of its own time, with a log of all that it does, in order.
type scenario struct {
	t       *testing.T
	decoder *Decoder
	budget  *message.Budget
	in      chan *message.Raw
	cuts    chan *message.Cut
	// requests carries calls of RequestKeepalive, so that they stand in the log in their order too.
	requests chan struct{}
	cancel   context.CancelFunc

	mu        sync.Mutex
	tables    map[uint32]*table
	order     []uint32
	log       []string
	relations []*message.Relation
	asked     []uint32
}

func (s *scenario) Route(oid uint32) *message.Route {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, oid)
	if t := s.tables[oid]; t != nil && !t.unrouted {
		return t.route
	}
	return nil
}

func (s *scenario) Copying() []*message.Route {
	s.mu.Lock()
	defer s.mu.Unlock()
	var routes []*message.Route
	for _, oid := range s.order {
		if t := s.tables[oid]; t.copying {
			routes = append(routes, t.route)
		}
	}
	return routes
}

func (s *scenario) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

// collect writes down what arrives. The channels hold nothing, so the order seen is the order sent.
func (s *scenario) collect(ctx context.Context) {
	cases := []reflect.SelectCase{
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())},
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(s.cuts)},
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(s.requests)},
	}
	for _, oid := range s.order {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(s.tables[oid].c)})
	}
	for {
		i, v, _ := reflect.Select(cases)
		switch i {
		case 0:
			return
		case 1:
			c := v.Interface().(*message.Cut)
			s.note("cut %d commit=%v end=%v time=%s known=%s rows=%d bytes=%d", c.Sequence, c.Commit, c.End, asSeconds(c.CommitTime), asSeconds(c.Known), c.Rows, c.Bytes)
		case 2:
			s.note("keepalive requested")
		default:
			s.table(s.tables[s.order[i-3]], v.Interface().(message.TableMessage))
		}
	}
}

func (s *scenario) table(t *table, m message.TableMessage) {
	switch m := m.(type) {
	case *message.Rows:
		s.note("rows %s relation=%d cost=%d%s", t.route.Name, s.relation(m.Relation), m.Cost, describe(m))
		s.budget.Release(m.Cost)
	case *message.Truncate:
		s.note("truncate %s relation=%d xid=%d commit=%v cascade=%v", t.route.Name, s.relation(m.Relation), m.XID, m.Commit, m.Cascade)
	case *message.Cut:
		m.Answer(nil)
		s.note("cut %d reaches %s, ready=%v", m.Sequence, t.route.Name, m.Ready())
	}
}

// relation numbers relations by identity of the pointer.
func (s *scenario) relation(r *message.Relation) int {
	if !slices.Contains(s.relations, r) {
		s.relations = append(s.relations, r)
	}
	return slices.Index(s.relations, r) + 1
}

func describe(m *message.Rows) string {
	var b strings.Builder
	for i, c := range m.Changes {
		for _, tx := range m.Transactions {
			if tx.First == i {
				fmt.Fprintf(&b, "\n  transaction %d at %v", tx.XID, tx.Commit)
			}
		}
		fmt.Fprintf(&b, "\n  %c", c.Operation)
		if c.OldKind != 0 {
			fmt.Fprintf(&b, " %c%s", c.OldKind, values(m.Bytes[c.Old.From:c.Old.To]))
		}
		if c.New != (message.Span{}) {
			fmt.Fprintf(&b, " N%s", values(m.Bytes[c.New.From:c.New.To]))
		}
	}
	return b.String()
}

func values(tuple []byte) string {
	columns, err := message.Columns(tuple, nil)
	if err != nil {
		return err.Error()
	}
	var words []string
	for _, v := range columns {
		switch v.Kind {
		case 'n':
			words = append(words, "null")
		case 'u':
			words = append(words, "~")
		case 'b':
			words = append(words, fmt.Sprintf("x:%x", v.Data))
		default:
			words = append(words, string(v.Data))
		}
	}
	return "(" + strings.Join(words, ",") + ")"
}

// begin makes the decoder from the file's first block: config and table lines.
func (s *scenario) begin(lines []string) {
	config := Config{
		Router: s, Flush: Flush{Interval: 2 * time.Second}, Linger: 20 * time.Millisecond,
		RequestKeepalive: func() { s.requests <- struct{}{} },
	}
	s.tables, s.budget = map[uint32]*table{}, message.NewBudget(1<<40, nil)
	for _, line := range lines {
		f := split(line)
		switch f.words[0] {
		case "config":
			for name, value := range f.named {
				switch name {
				case "position":
					config.Position = must(lsn.Parse(value))
				case "time":
					config.InitialCommitTime = f.time("time")
				case "interval":
					config.Flush.Interval = must(time.ParseDuration(value))
				case "idle":
					config.IdleEvery = must(time.ParseDuration(value))
				case "linger":
					config.Linger = must(time.ParseDuration(value))
				case "rows":
					config.Flush.Rows = must(strconv.ParseInt(value, 10, 64))
				case "bytes":
					config.Flush.Bytes = must(strconv.ParseInt(value, 10, 64))
				case "spill":
					config.SpillDir, config.SpillMemory = s.t.TempDir(), must(strconv.ParseInt(value, 10, 64))
				case "chunk":
					config.ChunkBytes = must(strconv.Atoi(value))
				case "quiet":
					config.RequestKeepalive = nil
				default:
					panic("unknown setting " + name)
				}
			}
		case "table": // table OID name [copying]; tables of one name share a channel
			oid := uint32(f.number(1))
			t := &table{c: make(chan message.TableMessage), copying: len(f.words) > 3}
			for _, other := range s.tables {
				if other.route.Name == f.words[2] {
					t.c = other.c
				}
			}
			t.route = &message.Route{OID: oid, Name: f.words[2], C: t.c}
			s.tables[oid] = t
			s.order = append(s.order, oid)
		default:
			panic("unknown line " + line)
		}
	}
	config.Budget = s.budget
	s.decoder = New(config)
	s.in, s.cuts = make(chan *message.Raw), make(chan *message.Cut)
	s.requests = make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	collecting := context.WithoutCancel(ctx)
	collecting, stop := context.WithCancel(collecting)
	go s.collect(collecting)
	go func() {
		defer stop()
		err := s.decoder.Run(ctx, s.in, s.cuts)
		if errors.Is(err, context.Canceled) {
			return
		}
		s.note("ended: %v", err)
	}()
}

// play sends a block's lines. Lines between { and } go as one slab, of cost=n bytes; other messages cost ten a slab.
func (s *scenario) play(lines []string) {
	for i := 0; i < len(lines); i++ {
		f := split(lines[i])
		switch f.words[0] {
		case "{":
			raw := &message.Raw{Cost: must(strconv.ParseInt(f.named["cost"], 10, 64))}
			for i++; lines[i] != "}"; i++ {
				raw.Messages = append(raw.Messages, rawMessage(lines[i]))
			}
			s.push(raw)
		case "wait":
			<-time.After(must(time.ParseDuration(f.words[1])))
		case "nudge":
			s.decoder.Nudge()
		case "observe": // observe END time=
			s.decoder.Observe(lsn.LSN(f.position(1)), f.time("time"))
		case "close":
			close(s.in)
			s.in = nil
		case "statistics":
			synctest.Wait()
			s.note("%+v", s.decoder.Statistics())
		case "asked":
			synctest.Wait()
			s.mu.Lock()
			asked := slices.Clone(s.asked)
			s.mu.Unlock()
			s.note("routes asked for: %v", asked)
		case "set": // set OID copying|unrouted=true|false
			s.mu.Lock()
			t := s.tables[uint32(f.number(1))]
			if v, ok := f.named["copying"]; ok {
				t.copying = v == "true"
			}
			if v, ok := f.named["unrouted"]; ok {
				t.unrouted = v == "true"
			}
			s.mu.Unlock()
		default:
			raw := &message.Raw{Messages: []message.RawMessage{rawMessage(lines[i])}}
			if !raw.Messages[0].Keepalive {
				raw.Cost = 10
			}
			s.push(raw)
		}
		synctest.Wait()
	}
}

func (s *scenario) push(raw *message.Raw) {
	if err := s.budget.Acquire(s.t.Context(), raw.Cost); err != nil {
		s.t.Fatal(err)
	}
	raw.Release = func() {
		for i := range raw.Messages {
			clear(raw.Messages[i].Data) // whoever kept a reference reads zeros
		}
	}
	s.in <- raw
}

// TestGolden runs the scenarios of testdata: blocks of lines, "----", and the events that they lead to.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var seen string
			synctest.Test(t, func(t *testing.T) { seen = runGolden(t, string(text)) })
			if *rewrite {
				if err := os.WriteFile(file, []byte(seen), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if seen != string(text) {
				t.Errorf("%s differs; seen:\n%s", file, seen)
			}
		})
	}
}

func runGolden(t *testing.T, text string) string {
	s := &scenario{t: t}
	var seen strings.Builder
	for i, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		input, _, _ := strings.Cut(block, "\n----")
		seen.WriteString(input + "\n")
		var lines []string
		for line := range strings.Lines(input) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				lines = append(lines, line)
			}
		}
		if i == 0 {
			s.begin(lines)
			seen.WriteString("\n")
			continue
		}
		s.play(lines)
		seen.WriteString("----\n")
		s.mu.Lock()
		for _, line := range s.log {
			seen.WriteString(line + "\n")
		}
		s.log = nil
		s.mu.Unlock()
		seen.WriteString("\n")
	}
	s.cancel()
	synctest.Wait()
	if used := s.budget.Used(); used != 0 {
		t.Errorf("%d bytes of the budget are still held at the end", used)
	}
	return strings.TrimSpace(seen.String()) + "\n"
}
