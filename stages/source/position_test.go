package source

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/test/postgres"
)

func TestPageHeadersAreNotCounted(t *testing.T) {
	const block, segment = 8192, 16 << 20
	for position, want := range map[lsn.LSN]lsn.LSN{
		block + 24:               block,               // behind a short header: nothing on the page yet
		segment + 40:             segment,             // behind a long one, which begins a segment
		block + 40:               block + 40,          // the end of a record that ran over from the page before
		segment + 24:             segment + 24,        // inside a long header: never reported
		segment + block + 24:     segment + block,     //
		3*segment + 5*block:      3*segment + 5*block, //
		3*segment + 5*block + 32: 3*segment + 5*block + 32,
	} {
		if got := beforePageHeader(position, block, segment); got != want {
			t.Errorf("%s becomes %s, want %s", position, got, want)
		}
	}
}

// Waiting for the stream to reach a position must end on a source where nothing else happens, wherever in a page it lies.
func TestTheStreamReachesThePositionOfAnIdleSource(t *testing.T) {
	// Nothing flushes by itself within the test's time.
	f := fixtureOn(t, postgres.StartForTest(t, "autovacuum=off", "checkpoint_timeout=1h", "wal_writer_delay=10s", "bgwriter_delay=10s"))
	f.Exec(t, "CREATE TABLE t (id int PRIMARY KEY)")
	f.publish(t)
	stream := f.stream(t)
	reached := lsn.LSN(0)
	open := connect(t, f.URL())
	for i, make := range []string{
		"SELECT 1",
		"SELECT pg_switch_wal()", // the next record goes behind a segment's long header
		"INSERT INTO public.t VALUES (1)",
	} {
		f.Exec(t, "SET search_path = public; "+make)
		if i == 2 { // a record that nobody flushes, since its transaction stays open
			if _, err := open.PgConn().Exec(t.Context(), "BEGIN; INSERT INTO public.t VALUES (2)").ReadAll(); err != nil {
				t.Fatal(err)
			}
		}
		goal, err := InsertLSN(t.Context(), f.conn)
		if err != nil {
			t.Fatal(err)
		}
		if !recordFlushed(t, f, goal) {
			t.Errorf("after %s: the position %s is not flushed, and an idle server may not do it for long", make, goal)
		}
		for ctx := deadline(t); reached < goal; {
			err := pglogrepl.SendStandbyStatusUpdate(ctx, stream, pglogrepl.StandbyStatusUpdate{WALWritePosition: 1, ReplyRequested: true})
			if err != nil {
				t.Fatal(err)
			}
			message, err := stream.ReceiveMessage(ctx)
			if err != nil {
				t.Fatalf("after %s: waiting for %s, the stream is at %s: %v", make, goal, reached, err)
			}
			data, ok := message.(*pgproto3.CopyData)
			if !ok || data.Data[0] != pglogrepl.PrimaryKeepaliveMessageByteID {
				continue
			}
			keepalive, err := pglogrepl.ParsePrimaryKeepaliveMessage(data.Data[1:])
			if err != nil {
				t.Fatal(err)
			}
			reached = lsn.LSN(keepalive.ServerWALEnd)
		}
	}
}

func recordFlushed(t testing.TB, f *fixture, position lsn.LSN) bool {
	return f.Query(t, "SELECT pg_current_wal_flush_lsn() >= '"+position.String()+"'")[0][0] == "t"
}

func TestAPositionIsNotBeforeWhatIsCommitted(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, "CREATE TABLE t (id int PRIMARY KEY)")
	f.publish(t)
	f.Exec(t, "INSERT INTO t VALUES (1)")
	goal, err := InsertLSN(t.Context(), f.conn)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Query(t, "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('"+f.cfg.Slot+"', '"+goal.String()+`', NULL,
		'proto_version', '1', 'publication_names', `+QuoteLiteral(Quote(f.cfg.Publication))+")")[0][0]; got != "4" {
		t.Errorf("up to %s there are %s messages of the transaction's 4", goal, got)
	}
}

func TestOpenTransactionsAreWaitedForAndNamed(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, "CREATE TABLE t (id int)")
	open := connect(t, f.URL())
	begin := func() {
		if _, err := open.PgConn().Exec(t.Context(), "BEGIN; INSERT INTO public.t VALUES (1)").ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	begin()
	since, err := TakeSnapshot(t.Context(), f.conn)
	if err != nil {
		t.Fatal(err)
	}
	// Its id lies above that of the newest transaction that has ended, and it counts all the same.
	var id int64
	if err := open.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text::bigint").Scan(&id); err != nil || since.Xmin != uint64(id) || since.Xmax <= uint64(id) {
		t.Fatalf("transaction %d is open, and the snapshot is %+v, %v", id, since, err)
	}
	told := make(chan []Holder, 100)
	waited := make(chan error, 1)
	go func() {
		waited <- WaitForOpenTransactions(t.Context(), f.conn, since, func(h []Holder) { told <- h })
	}()
	holders := <-told
	if len(holders) != 1 || holders[0].PID != int32(open.PgConn().PID()) || holders[0].Application != "streambed test" {
		t.Errorf("waits for %v", holders)
	}
	select {
	case err := <-waited:
		t.Fatalf("did not wait: %v", err)
	default:
	}
	if _, err := open.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	begin() // a later transaction is nobody's concern
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	since, err = TakeSnapshot(t.Context(), f.conn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	mustBe(t, WaitForOpenTransactions(ctx, connect(t, f.URL()), since, nil), context.Canceled)
}

func TestSnapshotTellsVisibleTransactions(t *testing.T) {
	visible, err := Visible("100:110:103,107")
	if err != nil {
		t.Fatal(err)
	}
	for xid, want := range map[uint32]bool{1: true, 99: true, 100: true, 103: false, 104: true, 107: false, 109: true, 110: false, 500: false} {
		if visible(xid) != want {
			t.Errorf("transaction %d: visible %v", xid, visible(xid))
		}
	}
	// Past four billion transactions the stream's 32 bits wrap around.
	visible, err = Visible("4294967290:4294967300:4294967297")
	if err != nil {
		t.Fatal(err)
	}
	for xid, want := range map[uint32]bool{4294967295: true, 0: true, 1: false, 3: true, 4: false} {
		if visible(xid) != want {
			t.Errorf("transaction %d after the wrap: visible %v", xid, visible(xid))
		}
	}
	for _, bad := range []string{"", "1:2", "a:b:c", "1:x:", "1:2:q"} {
		if _, err := Visible(bad); err == nil {
			t.Errorf("%q was taken for a snapshot", bad)
		}
	}
}

func TestACommitIsWaitedForUntilItIsVisible(t *testing.T) {
	f := newFixture(t)
	open := connect(t, f.URL())
	var xid uint32
	if _, err := open.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if err := open.QueryRow(t.Context(), "SELECT (pg_current_xact_id()::text::bigint % 4294967296)::bigint").Scan(&xid); err != nil {
		t.Fatal(err)
	}
	if visible, err := WaitForCommit(t.Context(), f.conn, xid, 20*time.Millisecond); err != nil || visible {
		t.Fatalf("an open transaction: %v, %v", visible, err)
	}
	waited := make(chan error, 1)
	go func() {
		visible, err := WaitForCommit(t.Context(), f.conn, xid, time.Minute)
		if err == nil && !visible {
			err = errors.New("given up")
		}
		waited <- err
	}()
	if _, err := open.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Fatal("a committed transaction: ", err)
	}
}
