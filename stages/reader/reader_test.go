package reader

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/test/postgres"
)

// source is a database with a table, a publication and a slot.
type source struct {
	*postgres.Database
	slot string
	at   lsn.LSN
}

func newSource(t testing.TB, server *postgres.Server) *source {
	t.Helper()
	s := &source{Database: server.Database(t)}
	s.slot = "slot_" + s.Name
	s.Exec(t, `CREATE TABLE "odd ""name" (id bigint PRIMARY KEY, v text); CREATE PUBLICATION "pub, with 'quotes'" FOR ALL TABLES`)
	row := s.Query(t, fmt.Sprintf("SELECT lsn FROM pg_create_logical_replication_slot('%s', 'pgoutput')", s.slot))
	s.at = parseLSN(t, row[0][0])
	return s
}

func parseLSN(t testing.TB, text string) lsn.LSN {
	t.Helper()
	l, err := lsn.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (s *source) config() Config {
	return Config{ConnString: s.URL(), Slot: s.slot, Publications: []string{"pub, with 'quotes'"}, Start: s.at, Budget: message.NewBudget(1<<30, nil)}
}

func (s *source) slotLSN(t testing.TB) lsn.LSN {
	t.Helper()
	return parseLSN(t, s.Query(t, fmt.Sprintf("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '%s'", s.slot))[0][0])
}

// run is a reader at work.
type run struct {
	*Reader
	out  chan *message.Raw
	done chan error
	stop context.CancelFunc
}

func start(t testing.TB, config Config, capacity int) *run {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{Reader: New(config), out: make(chan *message.Raw, capacity), done: make(chan error, 1), stop: cancel}
	go func() { r.done <- r.Run(ctx, r.out) }()
	t.Cleanup(cancel)
	return r
}

// next gives the next slab; the reader must not end instead.
func (r *run) next(t testing.TB) *message.Raw {
	t.Helper()
	var raw *message.Raw
	postgres.Eventually(t, "a slab from the reader", func() bool {
		select {
		case raw = <-r.out:
			return true
		case err := <-r.done:
			t.Fatalf("the reader ended: %v", err)
		default:
		}
		return false
	})
	return raw
}

// until takes slabs until one holds a message that matches, and gives copies of all messages up to it.
func (r *run) until(t testing.TB, what string, budget *message.Budget, match func(m message.RawMessage) bool) []message.RawMessage {
	t.Helper()
	var all []message.RawMessage
	for found := false; !found; {
		raw := r.next(t)
		for _, m := range raw.Messages {
			m.Data = append([]byte(nil), m.Data...)
			all = append(all, m)
			found = found || match(m)
		}
		budget.Release(raw.Cost)
		raw.Release()
		if len(all) > 1_000_000 {
			t.Fatalf("a million messages without %s", what)
		}
	}
	return all
}

func isKind(kind byte) func(message.RawMessage) bool {
	return func(m message.RawMessage) bool { return len(m.Data) > 0 && m.Data[0] == kind }
}

func (r *run) end(t testing.TB) error {
	t.Helper()
	var err error
	postgres.Eventually(t, "the reader to end", func() bool {
		select {
		case err = <-r.done:
			return true
		default:
			return false
		}
	})
	return err
}

func kinds(messages []message.RawMessage) string {
	var b strings.Builder
	for _, m := range messages {
		if !m.Keepalive {
			b.WriteByte(m.Data[0])
		}
	}
	return b.String()
}

func TestMessagesComeInOrderWithPinnedSettings(t *testing.T) {
	s := newSource(t, postgres.ForTest(t))
	s.Exec(t, fmt.Sprintf("ALTER DATABASE %s SET timezone = 'Asia/Kolkata'; ALTER DATABASE %[1]s SET datestyle = 'German'; ALTER DATABASE %[1]s SET extra_float_digits = -3", s.Name))
	s.Exec(t, `CREATE TABLE v (id int PRIMARY KEY, at timestamptz, f float8, i interval, b bytea);
INSERT INTO v VALUES (1, '2024-02-03 04:05:06.789+00', 0.1::float8 + 0.2::float8, '1 day 02:03:04', '\x00ff')`)
	config := s.config()
	r := start(t, config, 4)
	got := r.until(t, "a commit", config.Budget, isKind('C'))
	if k := kinds(got); k != "BRIC" {
		t.Fatalf("messages %s, wanted BRIC", k)
	}
	for _, m := range got {
		if m.Keepalive || m.Data[0] != 'I' {
			continue
		}
		values, err := message.Columns(m.Data[6:], nil)
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, v := range values {
			text = append(text, string(v.Data))
		}
		if got, want := strings.Join(text, "|"), `1|2024-02-03 04:05:06.789+00|0.30000000000000004|P1DT2H3M4S|\x00ff`; got != want {
			t.Errorf("the row reads %s, wanted %s", got, want)
		}
	}
	if r.Received() <= s.at || r.Bytes() == 0 || !r.Streaming() {
		t.Errorf("received %v, %d bytes, streaming %v", r.Received(), r.Bytes(), r.Streaming())
	}
	if used := config.Budget.Used(); used != 0 {
		t.Errorf("%d bytes of the budget are still held", used)
	}
}

func TestBinaryValuesOnRequest(t *testing.T) {
	s := newSource(t, postgres.ForTest(t))
	s.Exec(t, `INSERT INTO "odd ""name" VALUES (258, 'x')`)
	config := s.config()
	config.Binary = true
	r := start(t, config, 4)
	for _, m := range r.until(t, "an insert", config.Budget, isKind('I')) {
		if m.Keepalive || m.Data[0] != 'I' {
			continue
		}
		values, err := message.Columns(m.Data[6:], nil)
		if err != nil {
			t.Fatal(err)
		}
		if values[0].Kind != 'b' || binary.BigEndian.Uint64(values[0].Data) != 258 {
			t.Errorf("the bigint came as %q %x", values[0].Kind, values[0].Data)
		}
	}
}

// TestAMessageLongerThanASlabComesWhole also lets it be longer than the budget.
func TestAMessageLongerThanASlabComesWhole(t *testing.T) {
	s := newSource(t, postgres.ForTest(t))
	const length = 3*SlabSize + 17
	s.Exec(t, fmt.Sprintf(`INSERT INTO "odd ""name" VALUES (1, 'small'), (2, repeat('y', %d)), (3, 'small'), (4, repeat('z', %d))`, length, SlabSize))
	config := s.config()
	config.Budget = message.NewBudget(1000, nil)
	r := start(t, config, 0)
	got := r.until(t, "a commit", config.Budget, isKind('C'))
	if k := kinds(got); k != "BRIIIIC" {
		t.Fatalf("messages %s, wanted BRIIIIC", k)
	}
	for _, m := range got {
		if m.Keepalive || m.Data[0] != 'I' {
			continue
		}
		values, err := message.Columns(m.Data[6:], nil)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"1": "small", "2": strings.Repeat("y", length), "3": "small", "4": strings.Repeat("z", SlabSize)}[string(values[0].Data)]
		if string(values[1].Data) != want {
			t.Errorf("row %s has %d bytes, wanted %d", values[0].Data, len(values[1].Data), len(want))
		}
	}
	r.stop()
	if err := r.end(t); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for len(r.out) > 0 {
		config.Budget.Release((<-r.out).Cost)
	}
	if used := config.Budget.Used(); used != 0 {
		t.Errorf("%d bytes of the budget are still held", used)
	}
}

// TestAStalledConsumerDoesNotTimeOut stalls first the channel, then the budget, for several times the server's patience.
func TestAStalledConsumerDoesNotTimeOut(t *testing.T) {
	for _, stall := range []string{"channel", "budget"} {
		t.Run(stall, func(t *testing.T) {
			s := newSource(t, postgres.ForTest(t, "wal_sender_timeout=1s"))
			s.Exec(t, `INSERT INTO "odd ""name" SELECT g, repeat('x', 1000) FROM generate_series(1, 20000) g`)
			config := s.config()
			capacity := 0
			if stall == "budget" {
				config.Budget, capacity = message.NewBudget(SlabSize, nil), 100
				if err := config.Budget.Acquire(t.Context(), SlabSize); err != nil {
					t.Fatal(err)
				}
			}
			r := start(t, config, capacity)
			answers := func(age string) func() bool {
				return func() bool {
					select {
					case err := <-r.done:
						t.Fatalf("the reader ended: %v", err)
					default:
					}
					return s.Query(t, fmt.Sprintf(`SELECT count(*) FROM pg_stat_replication JOIN pg_replication_slots ON active_pid = pid
WHERE slot_name = '%s' AND reply_time > backend_start + interval '%s'`, s.slot, age))[0][0] == "1"
				}
			}
			postgres.Eventually(t, "answers four seconds into the stall", answers("4 s"))
			if stall == "budget" {
				config.Budget.Release(SlabSize)
			}
			got := r.until(t, "a commit", config.Budget, isKind('C'))
			if n := strings.Count(kinds(got), "I"); n != 20000 {
				t.Fatalf("%d rows came after the stall, wanted 20000", n)
			}
		})
	}
}

func TestAcknowledgeMovesTheSlotAtOnceAndNeverBack(t *testing.T) {
	s := newSource(t, postgres.ForTest(t))
	config := s.config()
	config.StatusInterval = 1 << 40 // only what is asked for
	r := start(t, config, 100)
	for i := range 3 {
		s.Exec(t, fmt.Sprintf(`INSERT INTO "odd ""name" VALUES (%d, 'x')`, i))
		got := r.until(t, "a commit", config.Budget, isKind('C'))
		commit := got[len(got)-1]
		for _, m := range got {
			if isKind('C')(m) {
				commit = m
			}
		}
		end := lsn.LSN(binary.BigEndian.Uint64(commit.Data[10:]))
		if at := s.slotLSN(t); at >= end {
			t.Fatalf("the slot stands at %v before %v was acknowledged", at, end)
		}
		r.Acknowledge(end)
		r.Acknowledge(end - 1)
		postgres.Eventually(t, "the slot to reach the acknowledged position", func() bool { return s.slotLSN(t) == end })
		if r.Acknowledged() != end {
			t.Fatalf("the reader says %v", r.Acknowledged())
		}
	}
}

func TestTheLastAcknowledgementIsSentBeforeLeaving(t *testing.T) {
	s := newSource(t, postgres.ForTest(t))
	s.Exec(t, `INSERT INTO "odd ""name" VALUES (1, 'x')`)
	config := s.config()
	r := start(t, config, 100)
	got := r.until(t, "a commit", config.Budget, isKind('C'))
	end := r.Received()
	for _, m := range got {
		if isKind('C')(m) {
			end = lsn.LSN(binary.BigEndian.Uint64(m.Data[10:]))
		}
	}
	// In this order: after the stop the reader may have left before it hears.
	r.Acknowledge(end)
	r.stop()
	if err := r.end(t); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	postgres.Eventually(t, "the slot to be free at the acknowledged position", func() bool {
		row := s.Query(t, fmt.Sprintf("SELECT active, confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '%s'", s.slot))[0]
		return row[0] == "f" && parseLSN(t, row[1]) == end
	})
}

func TestRequestKeepaliveBringsTheServersPosition(t *testing.T) {
	s := newSource(t, postgres.ForTest(t))
	config := s.config()
	r := start(t, config, 100)
	for range 3 {
		s.Exec(t, "SELECT pg_logical_emit_message(true, 'unpublished', 'x')")
		want := parseLSN(t, s.Query(t, "SELECT pg_current_wal_lsn()")[0][0])
		postgres.Eventually(t, "a keepalive at the source's position", func() bool {
			r.RequestKeepalive()
			raw := r.next(t)
			defer raw.Release()
			if raw.Cost != 0 {
				t.Fatalf("keepalives cost %d bytes of the budget", raw.Cost)
			}
			m := raw.Messages[len(raw.Messages)-1]
			return m.Keepalive && m.End >= want && m.ServerTime.Year() > 2020
		})
	}
}

func TestCostIsWeightedByExpansion(t *testing.T) {
	s := newSource(t, postgres.ForTest(t))
	s.Exec(t, `INSERT INTO "odd ""name" VALUES (1, 'x')`)
	config := s.config()
	config.Expansion = func() float64 { return 2.5 }
	r := start(t, config, 100)
	for committed := false; !committed; {
		raw := r.next(t)
		bytes := 0
		for _, m := range raw.Messages {
			bytes += len(m.Data)
			committed = committed || isKind('C')(m)
		}
		if want := int64(float64(bytes)*2.5 + 0.5); raw.Cost != want {
			t.Errorf("%d bytes cost %d, wanted %d", bytes, raw.Cost, want)
		}
		config.Budget.Release(raw.Cost)
		raw.Release()
	}
}
