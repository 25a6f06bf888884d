package decoder_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/streambed/streambed/stages/decoder"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/test/postgres"
)

// streamingServer sends any transaction of more than 64 kB before its commit.
var streamingServer = []string{"logical_decoding_work_mem=64kB", "max_prepared_transactions=10"}

// fill makes the open transaction long enough to be sent.
const fill = "INSERT INTO hidden SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, 100) g;"

// newStreamingPipe is a pipe that reads transactions in progress.
func newStreamingPipe(t *testing.T, schema, options string) *pipe {
	t.Helper()
	p := newPipe(t, schema+"; CREATE TABLE hidden (id int, v text); ALTER TABLE hidden ALTER v SET STORAGE EXTERNAL", options, streamingServer...)
	p.spill = t.TempDir()
	return p
}

// begun waits until a transaction's first block has come.
func (p *pipe) begun(t *testing.T) {
	t.Helper()
	postgres.Eventually(t, "a transaction in progress", func() bool { return p.decoder.Statistics().InProgress > 0 })
}

func TestATransactionInProgressWaitsForItsCommit(t *testing.T) {
	p := newStreamingPipe(t, "CREATE TABLE plain (id int PRIMARY KEY, v text); CREATE TABLE other (id int PRIMARY KEY)", "")
	p.run(t)
	long, second := p.Connect(t), p.Connect(t)
	do := func(c *pgconn.PgConn, sql string) {
		t.Helper()
		if err := c.Exec(t.Context(), sql).Close(); err != nil {
			t.Fatal(err)
		}
	}
	do(long, "BEGIN; INSERT INTO plain VALUES (1, 'a');"+fill)
	p.begun(t)
	do(second, "BEGIN; INSERT INTO other VALUES (1);"+fill)
	do(long, "SAVEPOINT s; INSERT INTO plain VALUES (2, 'gone');"+fill+"ROLLBACK TO s; ALTER TABLE plain ADD w int DEFAULT 7; INSERT INTO plain VALUES (3, 'b');"+fill)
	p.Exec(t, "INSERT INTO other VALUES (2)")
	p.reached(t)
	p.expect(t, "plain")
	p.expect(t, "other", "I (2)")
	do(second, "INSERT INTO other VALUES (3); COMMIT")
	p.reached(t)
	p.expect(t, "other", "I (1)", "I (3)")
	do(long, "TRUNCATE plain; INSERT INTO plain VALUES (4, 'c'); ALTER TABLE plain DROP v; UPDATE plain SET w = 8; COMMIT")
	p.Exec(t, "DELETE FROM plain")
	p.reached(t)
	p.expect(t, "plain", "I (1,a)", "I (3,b,7)", "truncate", "I (4,c,7)", "U (4,8)", "D K(4,null)")

	// Prepared transactions come whole when they are committed, and never when they are not.
	do(long, "BEGIN; INSERT INTO plain VALUES (5);"+fill+"PREPARE TRANSACTION 'kept'")
	do(long, "BEGIN; INSERT INTO plain VALUES (6);"+fill+"PREPARE TRANSACTION 'gone'")
	p.reached(t)
	p.expect(t, "plain")
	do(long, "ROLLBACK PREPARED 'gone'")
	do(long, "COMMIT PREPARED 'kept'")
	do(long, "BEGIN; INSERT INTO plain VALUES (7);"+fill+"ROLLBACK")
	p.reached(t)
	p.expect(t, "plain", "I (5,7)")
	if s := p.decoder.Statistics(); s.Streamed != 3 || s.InProgress != 0 {
		t.Errorf("%+v", s)
	}
	p.nothingLeft(t)
}

// nothingLeft looks for files of transactions that have ended.
func (p *pipe) nothingLeft(t *testing.T) {
	t.Helper()
	p.halt()
	if left, err := os.ReadDir(p.spill); err != nil || len(left) > 0 {
		t.Errorf("%v is left in the spill folder, %v", left, err)
	}
}

// TestATransactionInProgressAcrossARestartIsNotLost stops the pipe after blocks of a transaction have come and the slot
// has been acknowledged beyond them: the source sends them again.
func TestATransactionInProgressAcrossARestartIsNotLost(t *testing.T) {
	p := newStreamingPipe(t, "CREATE TABLE plain (id int PRIMARY KEY)", "")
	p.run(t)
	long := p.Connect(t)
	if err := long.Exec(t.Context(), "BEGIN; INSERT INTO plain VALUES (1);"+fill).Close(); err != nil {
		t.Fatal(err)
	}
	p.begun(t)
	p.Exec(t, "INSERT INTO plain VALUES (2)")
	p.reached(t)
	want := p.end
	postgres.Eventually(t, "the slot to follow", func() bool {
		return position(t, p.Query(t, fmt.Sprintf("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '%s'", p.slot))[0][0]) >= want
	})
	p.nothingLeft(t)
	p.run(t)
	if err := long.Exec(t.Context(), "INSERT INTO plain VALUES (3);"+fill+"COMMIT").Close(); err != nil {
		t.Fatal(err)
	}
	p.reached(t)
	p.expect(t, "plain", "I (2)", "I (1)", "I (3)")
	if s := p.decoder.Statistics(); s.Streamed != 1 {
		t.Errorf("%+v", s)
	}
}

// TestAReplayLargerThanTheBudgetFlowsThrough replays a transaction into many tables through a small budget, of which the
// reader holds what it can.
func TestAReplayLargerThanTheBudgetFlowsThrough(t *testing.T) {
	var schema, rows strings.Builder
	for i := range 50 {
		fmt.Fprintf(&schema, "CREATE TABLE t%d (id int PRIMARY KEY, v text);", i)
		fmt.Fprintf(&rows, "INSERT INTO t%d VALUES (i, repeat('x', 100));", i)
	}
	p := newStreamingPipe(t, schema.String(), "")
	p.budget = message.NewBudget(20_000, nil)
	p.run(t)
	p.Exec(t, "DO $$ BEGIN FOR i IN 1..100 LOOP "+rows.String()+" END LOOP; END $$")
	p.Exec(t, "DO $$ BEGIN FOR i IN 101..110 LOOP "+rows.String()+" COMMIT; END LOOP; END $$")
	p.reached(t)
	if s := p.decoder.Statistics(); s.Inserts != 5500 || s.Streamed < 1 || s.Spilled == 0 {
		t.Errorf("%+v", s)
	}
	postgres.Eventually(t, "the budget to be free", func() bool { return p.budget.Used() == 0 })
}

// TestADiskThatIsFullIsSaidAndNothingIsLost: the stream ends with the reason, and the next one brings all of it.
func TestADiskThatIsFullIsSaidAndNothingIsLost(t *testing.T) {
	p := newStreamingPipe(t, "CREATE TABLE plain (id int PRIMARY KEY)", "")
	spill := p.spill
	p.spill = spill + "/missing" // what cannot be written to, also by root
	p.run(t)
	p.Exec(t, "BEGIN; INSERT INTO plain VALUES (1);"+fill+fill+"COMMIT")
	p.done.Wait()
	var fault *decoder.SpillError
	if len(p.faults) == 0 || !errors.As(errors.Join(p.faults...), &fault) || !errors.Is(fault, os.ErrNotExist) {
		t.Fatalf("the pipe ended with %v", p.faults)
	}
	p.faults, p.spill = nil, spill
	p.run(t)
	p.reached(t)
	p.expect(t, "plain", "I (1)")
}

// TestBlocksGiveWhatComesAtCommit runs random histories from several sessions and compares what a pipe that reads
// transactions in progress gives with one that does not.
func TestBlocksGiveWhatComesAtCommit(t *testing.T) {
	p := newStreamingPipe(t, `CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (id int PRIMARY KEY, v text);
CREATE TABLE c (id int, v text); ALTER TABLE c REPLICA IDENTITY FULL`, "")
	plain := p.beside(t)
	p.run(t)
	plain.run(t)
	streamed, began := int64(0), rand.Uint64()
	for seed := began; seed < began+6; seed++ {
		randomSessions(t, p.Database, seed)
		p.reached(t)
		plain.reached(t)
		for _, table := range []string{"a", "b", "c"} {
			plain.mu.Lock()
			want := plain.seen[table]
			delete(plain.seen, table)
			plain.mu.Unlock()
			p.expect(t, table, want...)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if streamed = p.decoder.Statistics().Streamed; streamed < 3 {
		t.Errorf("only %d transactions came before their commit", streamed)
	}
	if n := plain.decoder.Statistics().Streamed; n != 0 {
		t.Errorf("%d transactions came before their commit although that was not asked for", n)
	}
}

// session is one of randomSessions', with the savepoints that it has open.
type session struct {
	conn   *pgconn.PgConn
	number int
	saved  []string
	open   bool
}

func randomSessions(t *testing.T, d *postgres.Database, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 4))
	var sessions []*session
	for i := range 3 {
		s := &session{conn: d.Connect(t), number: i}
		if err := s.exec(t.Context(), "SET lock_timeout = '30ms'"); err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, s)
	}
	names := 0
	for range 80 {
		s := sessions[r.IntN(len(sessions))]
		err := s.step(t.Context(), r, fmt.Sprintf("s%d_%d", seed, names))
		names++
		var refused *pgconn.PgError
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		if err != nil && s.open {
			s.back(t, r)
		}
	}
	for _, s := range sessions {
		if s.open {
			s.end(t, "COMMIT")
		}
	}
	for _, row := range d.Query(t, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()") {
		verb := "COMMIT"
		if r.IntN(2) == 0 {
			verb = "ROLLBACK"
		}
		d.Exec(t, fmt.Sprintf("%s PREPARED '%s'", verb, row[0]))
	}
}

func (s *session) exec(ctx context.Context, sql string) error { return s.conn.Exec(ctx, sql).Close() }

func (s *session) end(t *testing.T, sql string) {
	t.Helper()
	if err := s.exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	s.open, s.saved = false, nil
}

// back rolls a failed transaction back, to one of its savepoints or whole.
func (s *session) back(t *testing.T, r *rand.Rand) {
	t.Helper()
	if len(s.saved) == 0 {
		s.end(t, "ROLLBACK")
		return
	}
	i := r.IntN(len(s.saved))
	if err := s.exec(t.Context(), "ROLLBACK TO "+s.saved[i]); err != nil {
		t.Fatal(err)
	}
	s.saved = s.saved[:i+1]
}

func (s *session) step(ctx context.Context, r *rand.Rand, name string) error {
	if !s.open {
		s.open = true
		return s.exec(ctx, "BEGIN")
	}
	table := string("abc"[r.IntN(3)])
	own := fmt.Sprintf("id %% 3 = %d", s.number)
	switch n := r.IntN(30); {
	case n < 8:
		return s.exec(ctx, fmt.Sprintf("INSERT INTO %s SELECT g * 3 + %d, repeat(md5(g::text), 30) FROM generate_series(%[3]d, %[3]d + %d) g ON CONFLICT DO NOTHING",
			table, s.number, r.IntN(500), 1+r.IntN(100)))
	case n < 12:
		return s.exec(ctx, fmt.Sprintf("UPDATE %s SET v = '%s' WHERE %s AND id %% 7 = %d", table, name, own, r.IntN(7)))
	case n < 14:
		return s.exec(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s AND id %% 5 = %d", table, own, r.IntN(5)))
	case n < 15:
		return s.exec(ctx, "TRUNCATE "+table)
	case n < 16:
		return s.exec(ctx, fmt.Sprintf("ALTER TABLE %s ADD %s int DEFAULT 7", table, name))
	case n < 18:
		return s.exec(ctx, fill)
	case n < 19:
		return s.exec(ctx, fmt.Sprintf("SELECT pg_logical_emit_message(%v, 'p', 'x')", r.IntN(2) == 0))
	case n < 23:
		s.saved = append(s.saved, name)
		return s.exec(ctx, "SAVEPOINT "+name)
	case n < 25 && len(s.saved) > 0:
		i := r.IntN(len(s.saved))
		sql := "RELEASE " + s.saved[i]
		s.saved = s.saved[:i]
		return s.exec(ctx, sql)
	case n < 27 && len(s.saved) > 0:
		i := r.IntN(len(s.saved))
		s.saved = s.saved[:i+1]
		return s.exec(ctx, "ROLLBACK TO "+s.saved[i])
	}
	s.open, s.saved = false, nil
	switch r.IntN(5) {
	case 0:
		return s.exec(ctx, "ROLLBACK")
	case 1:
		return s.exec(ctx, fmt.Sprintf("PREPARE TRANSACTION '%s'", name))
	}
	return s.exec(ctx, "COMMIT")
}
