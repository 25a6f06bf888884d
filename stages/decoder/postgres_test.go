package decoder_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/decoder"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/reader"
	"github.com/streambed/streambed/test/postgres"
)

// pipe is reader and decoder on a real Postgres, with every table's messages kept as text.
type pipe struct {
	*postgres.Database
	reader  *reader.Reader
	decoder *decoder.Decoder
	budget  *message.Budget
	slot    string
	// spill is where transactions in progress are kept; "" reads none of them before their commit.
	spill string
	stop  context.CancelFunc
	done  sync.WaitGroup

	mu     sync.Mutex
	names  map[uint32]string
	routes map[uint32]*message.Route
	seen   map[string][]string
	end    lsn.LSN
	faults []error
}

func (p *pipe) Copying() []*message.Route { return nil }

// Route takes every table of the schema public; its batcher only writes down.
func (p *pipe) Route(oid uint32) *message.Route {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.routes[oid]; ok || p.names[oid] == "" {
		return r
	}
	c := make(chan message.TableMessage, 4)
	p.routes[oid] = &message.Route{OID: oid, Name: p.names[oid], C: c}
	go func() {
		for m := range c {
			p.take(p.names[oid], m)
		}
	}()
	return p.routes[oid]
}

func (p *pipe) take(name string, m message.TableMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m := m.(type) {
	case *message.Rows:
		for _, c := range m.Changes {
			p.seen[name] = append(p.seen[name], change(m, c))
		}
		p.budget.Release(m.Cost)
	case *message.Truncate:
		p.seen[name] = append(p.seen[name], "truncate")
		if m.Cascade {
			p.seen[name][len(p.seen[name])-1] += " cascade"
		}
	case *message.Cut:
		m.Answer(nil)
	}
}

func change(m *message.Rows, c message.Change) string {
	text := string(c.Operation)
	if c.OldKind != 0 {
		text += " " + string(c.OldKind) + tuple(m.Bytes[c.Old.From:c.Old.To])
	}
	if c.New.To > c.New.From {
		text += " " + tuple(m.Bytes[c.New.From:c.New.To])
	}
	return text
}

func tuple(b []byte) string {
	columns, err := message.Columns(b, nil)
	if err != nil {
		return err.Error()
	}
	var words []string
	for _, v := range columns {
		switch {
		case v.Kind == 'n':
			words = append(words, "null")
		case v.Kind == 'u':
			words = append(words, "unchanged")
		case len(v.Data) > 100:
			words = append(words, fmt.Sprintf("%d bytes", len(v.Data)))
		default:
			words = append(words, string(v.Data))
		}
	}
	return "(" + strings.Join(words, ",") + ")"
}

// newPipe runs schema, makes publication and slot, and prepares to read all tables of the schema public.
func newPipe(t *testing.T, schema, options string, settings ...string) *pipe {
	t.Helper()
	p := &pipe{Database: postgres.ForTest(t, settings...).Database(t), routes: map[uint32]*message.Route{}, names: map[uint32]string{}, seen: map[string][]string{}, budget: message.NewBudget(1<<20, nil)}
	p.slot = "decoder_" + p.Name
	p.Exec(t, schema)
	p.Exec(t, "CREATE PUBLICATION p FOR ALL TABLES "+options)
	p.makeSlot(t)
	return p
}

// beside is a second pipe with a slot of its own.
func (p *pipe) beside(t *testing.T) *pipe {
	t.Helper()
	other := &pipe{Database: p.Database, routes: map[uint32]*message.Route{}, names: map[uint32]string{}, seen: map[string][]string{}, budget: message.NewBudget(1<<20, nil)}
	other.slot = p.slot + "_beside"
	other.makeSlot(t)
	return other
}

func (p *pipe) makeSlot(t *testing.T) {
	t.Helper()
	p.end = position(t, p.Query(t, fmt.Sprintf("SELECT lsn FROM pg_create_logical_replication_slot('%s', 'pgoutput')", p.slot))[0][0])
	for _, row := range p.Query(t, "SELECT oid, relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname NOT LIKE 'hidden%'") {
		var oid uint32
		if _, err := fmt.Sscan(row[0], &oid); err != nil {
			t.Fatal(err)
		}
		p.names[oid] = row[1]
	}
}

func position(t testing.TB, text string) lsn.LSN {
	t.Helper()
	l, err := lsn.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// run starts reader and decoder at the end of the last cut. Cuts are acknowledged as soon as every table has answered.
func (p *pipe) run(t *testing.T) {
	t.Helper()
	postgres.Eventually(t, "the slot to be free of an earlier reader", func() bool {
		return p.Query(t, fmt.Sprintf("SELECT active FROM pg_replication_slots WHERE slot_name = '%s'", p.slot))[0][0] == "f"
	})
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	t.Cleanup(p.halt)
	start := p.end
	p.reader = reader.New(reader.Config{ConnString: p.URL(), Slot: p.slot, Publications: []string{"p"}, Start: start, Budget: p.budget, Streaming: p.spill != ""})
	p.decoder = decoder.New(decoder.Config{
		Position: start, Flush: decoder.Flush{Interval: 10 * time.Millisecond}, Router: p, Budget: p.budget,
		IdleEvery: 20 * time.Millisecond, RequestKeepalive: p.reader.RequestKeepalive, SpillDir: p.spill, SpillMemory: 100_000,
	})
	raws, cuts := make(chan *message.Raw, 4), make(chan *message.Cut, 4)
	p.done.Go(func() { p.fault(p.reader.Run(ctx, raws)); cancel() })
	p.done.Go(func() { p.fault(p.decoder.Run(ctx, raws, cuts)); cancel() })
	p.done.Go(func() {
		for {
			select {
			case c := <-cuts:
				if _, err := c.Parts(ctx); err != nil {
					return
				}
				p.mu.Lock()
				p.end = c.End
				p.mu.Unlock()
				p.reader.Acknowledge(c.End)
			case <-ctx.Done():
				return
			}
		}
	})
}

func (p *pipe) fault(err error) {
	if !errors.Is(err, context.Canceled) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.faults = append(p.faults, err)
	}
}

func (p *pipe) halt() {
	p.stop()
	p.done.Wait()
}

// reached waits until a cut holds everything that the source has written so far.
func (p *pipe) reached(t *testing.T) {
	t.Helper()
	want := position(t, p.Query(t, "SELECT pg_current_wal_insert_lsn()")[0][0])
	postgres.Eventually(t, fmt.Sprintf("a cut at %v", want), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.faults) > 0 {
			t.Fatal(p.faults)
		}
		return p.end >= want
	})
}

func (p *pipe) expect(t *testing.T, table string, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if got := strings.Join(p.seen[table], "\n"); got != strings.Join(want, "\n") {
		t.Errorf("%s received\n%s\nwanted\n%s", table, got, strings.Join(want, "\n"))
	}
	delete(p.seen, table)
}

func TestChangesOfARealPostgres(t *testing.T) {
	p := newPipe(t, `
CREATE TABLE plain (id int PRIMARY KEY, v text);
ALTER TABLE plain ALTER v SET STORAGE EXTERNAL;
CREATE TABLE whole (id int, v text); ALTER TABLE whole REPLICA IDENTITY FULL;
ALTER TABLE whole ALTER v SET STORAGE EXTERNAL;
CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent);
CREATE TABLE hidden (id int PRIMARY KEY)`, "")
	p.run(t)

	p.Exec(t, "INSERT INTO plain VALUES (1, 'a'), (2, NULL); UPDATE plain SET v = 'b' WHERE id = 1; UPDATE plain SET id = 3 WHERE id = 1; DELETE FROM plain WHERE id = 2")
	p.reached(t)
	p.expect(t, "plain", "I (1,a)", "I (2,null)", "U (1,b)", "U K(1,null) (3,b)", "D K(2,null)")

	// Unchanged TOAST: not sent under a key, also when the key moves; sent in the old row under FULL.
	p.Exec(t, "INSERT INTO plain VALUES (9, repeat('x', 10000)); UPDATE plain SET id = 10 WHERE id = 9")
	p.Exec(t, "INSERT INTO whole VALUES (1, repeat('x', 10000)); UPDATE whole SET id = 2; DELETE FROM whole")
	p.reached(t)
	p.expect(t, "plain", "I (9,10000 bytes)", "U K(9,null) (10,unchanged)")
	p.expect(t, "whole", "I (1,10000 bytes)", "U O(1,10000 bytes) (2,unchanged)", "D O(2,10000 bytes)")

	p.Exec(t, "INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1, 1); TRUNCATE parent CASCADE; INSERT INTO parent VALUES (2)")
	p.Exec(t, "TRUNCATE child")
	p.reached(t)
	p.expect(t, "parent", "I (1)", "truncate cascade", "I (2)")
	p.expect(t, "child", "I (1,1)", "truncate cascade", "truncate")

	// What was rolled back never comes, whole or in part, and subtransactions keep their order.
	p.Exec(t, "BEGIN; INSERT INTO plain VALUES (20, 'gone'); ROLLBACK")
	p.Exec(t, `BEGIN; INSERT INTO plain VALUES (21, 'a'); SAVEPOINT s; INSERT INTO plain VALUES (22, 'gone'); ROLLBACK TO s;
SAVEPOINT s2; UPDATE plain SET v = 'b' WHERE id = 21; RELEASE s2; INSERT INTO plain VALUES (23, 'c'); COMMIT`)
	p.reached(t)
	p.expect(t, "plain", "I (21,a)", "U (21,b)", "I (23,c)")

	// Transactions without rows of ours still move the position, and the slot.
	p.Exec(t, "INSERT INTO hidden VALUES (1)")
	p.Exec(t, "CREATE TABLE later (); SELECT pg_logical_emit_message(true, 'other', 'x')")
	p.reached(t)
	p.expect(t, "hidden")
	want := p.reader.Acknowledged()
	postgres.Eventually(t, "the slot to follow", func() bool {
		return position(t, p.Query(t, fmt.Sprintf("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '%s'", p.slot))[0][0]) >= want
	})

	// A column added and dropped is a new relation at its place.
	p.Exec(t, "INSERT INTO plain VALUES (30, 'a'); ALTER TABLE plain ADD w int DEFAULT 7; INSERT INTO plain VALUES (31, 'b'); ALTER TABLE plain DROP v; INSERT INTO plain VALUES (32, 8)")
	p.reached(t)
	p.expect(t, "plain", "I (30,a)", "I (31,b,7)", "I (32,8)")

	p.halt()
	if len(p.faults) > 0 {
		t.Error(p.faults)
	}
}

func TestPartitionsComeAsTheirRoot(t *testing.T) {
	p := newPipe(t, `
CREATE TABLE root (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE hidden_low PARTITION OF root FOR VALUES FROM (0) TO (100);
CREATE TABLE hidden_high (v text, id int NOT NULL);
ALTER TABLE root ATTACH PARTITION hidden_high FOR VALUES FROM (100) TO (200)`, "WITH (publish_via_partition_root)")
	p.run(t)
	p.Exec(t, "INSERT INTO root VALUES (1, 'a'), (101, 'b'); UPDATE root SET id = 102 WHERE id = 1; DELETE FROM root WHERE id = 101; TRUNCATE root")
	p.reached(t)
	// A row that moves to another partition is deleted and inserted. The partition with another column order lands right.
	p.expect(t, "root", "I (1,a)", "I (101,b)", "D K(1,null)", "I (102,a)", "D K(101,null)", "truncate")
}

// TestATransactionOpenAcrossARestartIsNotLost keeps a transaction open while others commit and the pipe is restarted: its
// changes' LSNs are below the position, its commit is not.
func TestATransactionOpenAcrossARestartIsNotLost(t *testing.T) {
	p := newPipe(t, "CREATE TABLE plain (id int PRIMARY KEY)", "")
	p.run(t)
	long := p.Connect(t)
	if err := long.Exec(t.Context(), "BEGIN; INSERT INTO plain VALUES (1)").Close(); err != nil {
		t.Fatal(err)
	}
	p.Exec(t, "INSERT INTO plain VALUES (2)")
	p.reached(t)
	p.halt()
	p.run(t)
	p.Exec(t, "INSERT INTO plain VALUES (3)")
	p.reached(t)
	if err := long.Exec(t.Context(), "INSERT INTO plain VALUES (4); COMMIT").Close(); err != nil {
		t.Fatal(err)
	}
	p.reached(t)
	p.halt()
	p.run(t)
	p.Exec(t, "INSERT INTO plain VALUES (5)")
	p.reached(t)
	p.expect(t, "plain", "I (2)", "I (3)", "I (1)", "I (4)", "I (5)")
}

// TestAReplayOfWhatTheLakeHoldsIsSkipped restarts from the lake's position with a slot that was acknowledged less.
func TestAReplayOfWhatTheLakeHoldsIsSkipped(t *testing.T) {
	p := newPipe(t, "CREATE TABLE plain (id int PRIMARY KEY)", "")
	p.Exec(t, "INSERT INTO plain VALUES (1)")
	p.Exec(t, "INSERT INTO plain VALUES (2)")
	p.end = position(t, p.Query(t, "SELECT pg_current_wal_insert_lsn()")[0][0])
	p.Exec(t, "INSERT INTO plain VALUES (3)")
	p.run(t)
	p.reached(t)
	p.expect(t, "plain", "I (3)")
}

// TestMoreThanTheBudgetFlowsThrough sends one transaction that is far longer than the budget.
func TestMoreThanTheBudgetFlowsThrough(t *testing.T) {
	p := newPipe(t, "CREATE TABLE plain (id int PRIMARY KEY, v text)", "")
	p.budget = message.NewBudget(300_000, nil)
	p.Exec(t, "INSERT INTO plain SELECT g, repeat('x', 200) FROM generate_series(1, 20000) g")
	p.run(t)
	p.reached(t)
	p.mu.Lock()
	n := len(p.seen["plain"])
	p.mu.Unlock()
	if n != 20000 {
		t.Errorf("%d rows came, wanted 20000", n)
	}
	postgres.Eventually(t, "the budget to be free", func() bool { return p.budget.Used() == 0 })
	if s := p.decoder.Statistics(); s.Inserts != 20000 || s.Rows != 20000 || s.Transactions != 1 {
		t.Errorf("%+v", s)
	}
}

// TestACleanShutdownDoesNotWaitForTheIdleInterval: Postgres waits for our acknowledgement of its whole WAL.
func TestACleanShutdownDoesNotWaitForTheIdleInterval(t *testing.T) {
	server := postgres.StartForTest(t)
	p := &pipe{Database: server.Database(t), routes: map[uint32]*message.Route{}, names: map[uint32]string{}, seen: map[string][]string{}, budget: message.NewBudget(1<<20, nil)}
	p.slot = "decoder_shutdown"
	p.Exec(t, "CREATE TABLE plain (id int PRIMARY KEY); CREATE PUBLICATION p FOR ALL TABLES")
	p.end = position(t, p.Query(t, "SELECT lsn FROM pg_create_logical_replication_slot('decoder_shutdown', 'pgoutput')")[0][0])
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := reader.New(reader.Config{ConnString: p.URL(), Slot: p.slot, Publications: []string{"p"}, Start: p.end, Budget: p.budget})
	d := decoder.New(decoder.Config{Position: p.end, Flush: decoder.Flush{Interval: time.Hour}, IdleEvery: time.Hour, Router: p, Budget: p.budget})
	raws, cuts, ended := make(chan *message.Raw), make(chan *message.Cut), make(chan error, 1)
	go func() { ended <- r.Run(ctx, raws) }()
	go func() { _ = d.Run(ctx, raws, cuts) }()
	go func() {
		for c := range cuts {
			r.Acknowledge(c.End)
		}
	}()
	postgres.Eventually(t, "the stream to start", r.Streaming)
	p.Exec(t, "CREATE TABLE other (); SELECT pg_logical_emit_message(true, 'other', 'x')")
	stopped := make(chan error, 1)
	go func() { stopped <- server.Stop(postgres.Fast) }()
	for _, wait := range []struct {
		what string
		c    chan error
	}{{"the server to stop", stopped}, {"the reader to end", ended}} {
		postgres.Eventually(t, wait.what, func() bool {
			select {
			case <-wait.c:
				return true
			default:
				return false
			}
		})
	}
}
