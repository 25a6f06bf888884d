package source

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/streambed/streambed/test/postgres"
)

func TestSlotLivesAndDiesAsItSays(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, "CREATE TABLE t (id int PRIMARY KEY)")
	state, err := ReadSlot(t.Context(), f.conn, f.cfg.Slot)
	if err != nil || state.Exists {
		t.Fatalf("%+v, %v", state, err)
	}
	mustBe(t, state.Err(), ErrSlotMissing)
	f.publish(t)
	created, confirmed, err := EnsureSlot(t.Context(), f.conn, f.cfg)
	if err != nil || created || confirmed == 0 {
		t.Fatalf("second call: created %v at %s, %v", created, confirmed, err)
	}
	state, err = ReadSlot(t.Context(), f.conn, f.cfg.Slot)
	if err != nil || state.Err() != nil || state.ConfirmedFlush != confirmed || state.WALStatus != "reserved" || state.Restart > confirmed {
		t.Fatalf("%+v, %v", state, err)
	}
	stream := f.stream(t)
	postgres.Eventually(t, "the slot to be in use", func() bool {
		state, err = ReadSlot(t.Context(), f.conn, f.cfg.Slot)
		return err == nil && state.Active
	})
	mustBe(t, state.Err(), ErrSlotBusy)
	if _, err := Teardown(t.Context(), f.cfg); err == nil {
		t.Error("teardown took the slot from under its reader")
	} else {
		mustBe(t, err, ErrSlotBusy)
	}
	var told []int32
	go func() { _ = stream.Close(context.WithoutCancel(t.Context())) }()
	state, err = AwaitSlot(deadline(t), f.conn, f.cfg.Slot, func(s *SlotState) { told = append(told, s.ActivePID) })
	if err != nil || state.Active || len(told) > 1 {
		t.Fatalf("%+v after %v, %v", state, told, err)
	}
	done, err := Teardown(t.Context(), f.cfg)
	if err != nil || len(done) != 3 || len(f.Query(t, "SELECT 1 FROM pg_publication")) != 0 {
		t.Errorf("%q, %v", done, err)
	}
	again, err := Teardown(t.Context(), f.cfg)
	if err != nil || len(again) != 3 || !strings.Contains(again[0], "does not exist") {
		t.Errorf("%q, %v", again, err)
	}
}

// stream reads the slot until it is closed.
func (f *fixture) stream(t testing.TB) *pgconn.PgConn {
	t.Helper()
	cfg, err := ReplicationConfig(f.cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgconn.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	err = pglogrepl.StartReplication(t.Context(), conn, f.cfg.Slot, 0, pglogrepl.StartReplicationOptions{
		PluginArgs: []string{"proto_version '1'", "publication_names " + QuoteLiteral(Quote(f.cfg.Publication))}})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestASlotThatIsNotOursIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	for make, want := range map[string]string{
		"SELECT pg_create_logical_replication_slot($1, 'test_decoding')": "test_decoding",
		"SELECT pg_create_physical_replication_slot($1)":                 "",
	} {
		if _, err := f.conn.Exec(t.Context(), make, f.cfg.Slot); err != nil {
			t.Fatal(err)
		}
		_, _, err := EnsureSlot(t.Context(), f.conn, f.cfg)
		mustBe(t, err, ErrSlotForeign)
		done, err := Teardown(t.Context(), f.cfg)
		state, readErr := ReadSlot(t.Context(), f.conn, f.cfg.Slot)
		if err != nil || readErr != nil || !state.Exists || state.Plugin != want {
			t.Errorf("%q, %v, %+v, %v", done, err, state, readErr)
		}
		if _, err := f.conn.Exec(t.Context(), "SELECT pg_drop_replication_slot($1)", f.cfg.Slot); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALostSlotSaysSoWithItsRemedy(t *testing.T) {
	server := postgres.StartForTest(t, "max_slot_wal_keep_size=1MB", "min_wal_size=32MB", "max_wal_size=32MB", "wal_keep_size=0")
	f := fixtureOn(t, server)
	f.Exec(t, "CREATE TABLE t (id int PRIMARY KEY)")
	f.publish(t)
	var state *SlotState
	postgres.Eventually(t, "the slot to be lost", func() bool {
		f.Exec(t, "SELECT pg_switch_wal() FROM (SELECT pg_logical_emit_message(true, 'x', repeat('x', 1000000))) m")
		f.Exec(t, "CHECKPOINT")
		var err error
		state, err = ReadSlot(t.Context(), f.conn, f.cfg.Slot)
		if err != nil {
			t.Fatal(err)
		}
		return state.WALStatus == "lost"
	})
	mustBe(t, state.Err(), ErrSlotLost)
	_, _, err := EnsureSlot(t.Context(), f.conn, f.cfg)
	mustBe(t, err, ErrSlotLost)
	if !strings.Contains(err.Error(), "resync --all") {
		t.Errorf("no remedy in %v", err)
	}
	findings, err := Check(t.Context(), f.cfg)
	if err != nil || find(findings, SubjectSlot) == nil || find(findings, SubjectSlotSize) != nil {
		t.Errorf("%+v, %v", findings, err)
	}
	f.mend(t, find(findings, SubjectSlot))
	if created, _, err := EnsureSlot(t.Context(), f.conn, f.cfg); err != nil || !created {
		t.Errorf("after the remedy: %v, %v", created, err)
	}
}
