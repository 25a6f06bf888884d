package reader

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/streambed/streambed/test/postgres"
)

// expect checks an error's kind, and that its sentence names the slot.
func expect(t testing.TB, err, kind error, retryable bool, slot string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("got %q, wanted the kind %q", err, kind)
	}
	if Retryable(err) != retryable {
		t.Errorf("%q: retryable is %v", err, Retryable(err))
	}
	if slot != "" && !strings.Contains(err.Error(), slot) {
		t.Errorf("%q does not name the slot %s", err, slot)
	}
}

func TestAKilledBackendIsRetryable(t *testing.T) {
	s := newSource(t, postgres.ForTest(t))
	r := start(t, s.config(), 100)
	postgres.Eventually(t, "the slot to be active", func() bool {
		return s.Query(t, fmt.Sprintf("SELECT count(pg_terminate_backend(active_pid)) FROM pg_replication_slots WHERE slot_name = '%s' AND active", s.slot))[0][0] == "1"
	})
	expect(t, r.end(t), ErrConnectionLost, true, s.slot)
}

func TestAServerThatStopsOrIsAwayIsRetryable(t *testing.T) {
	server := postgres.StartForTest(t)
	s := newSource(t, server)
	for _, mode := range []postgres.Mode{postgres.Fast, postgres.Immediate} {
		r := start(t, s.config(), 100)
		postgres.Eventually(t, "the stream to start", r.Streaming)
		// A fast shutdown waits for the walsender, which waits for our acknowledgement of everything.
		stopped := make(chan error, 1)
		go func() { stopped <- server.Stop(mode) }()
		var err error
		postgres.Eventually(t, "the reader to end", func() bool {
			r.Acknowledge(r.Received())
			select {
			case err = <-r.done:
				return true
			case raw := <-r.out:
				raw.Release()
			default:
			}
			return false
		})
		expect(t, err, ErrConnectionLost, true, s.slot)
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		expect(t, New(s.config()).Run(t.Context(), nil), ErrConnectionLost, true, "")
		if err := server.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.at = s.slotLSN(t)
	}
}

func TestFailuresOfTheSlotAreToldApart(t *testing.T) {
	s := newSource(t, postgres.ForTest(t))
	attempt := func(change func(c *Config)) error {
		config := s.config()
		change(&config)
		return New(config).Run(t.Context(), nil)
	}
	expect(t, attempt(func(c *Config) { c.Slot = "no_such_slot" }), ErrSlotMissing, false, "no_such_slot")
	expect(t, attempt(func(c *Config) { c.Start-- }), ErrSlotAhead, false, s.slot)

	s.Exec(t, "SELECT pg_create_physical_replication_slot('physical_one')")
	t.Cleanup(func() { _ = s.Server.Exec(context.Background(), "SELECT pg_drop_replication_slot('physical_one')") })
	expect(t, attempt(func(c *Config) { c.Slot = "physical_one" }), ErrSlotForeign, false, "physical_one")
	elsewhere := newSource(t, s.Server)
	expect(t, attempt(func(c *Config) { c.Slot = elsewhere.slot }), ErrSlotForeign, false, elsewhere.slot)

	first := start(t, s.config(), 100)
	postgres.Eventually(t, "the first reader to stream", first.Streaming)
	expect(t, attempt(func(*Config) {}), ErrSlotBusy, true, s.slot)
	first.stop()
	if err := first.end(t); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestFailuresToConnectAreToldApart(t *testing.T) {
	s := newSource(t, postgres.ForTest(t))
	attempt := func(url string) error {
		config := s.config()
		config.ConnString = url
		return New(config).Run(t.Context(), nil)
	}
	s.Exec(t, "CREATE ROLE without_privilege_"+s.Name+" LOGIN")
	t.Cleanup(func() { _ = s.Server.Exec(context.Background(), "DROP ROLE without_privilege_"+s.Name) })
	expect(t, attempt(s.Server.DatabaseURL("no_such_database")), ErrRefused, false, "")
	expect(t, attempt(strings.Replace(s.URL(), "postgres@", "without_privilege_"+s.Name+"@", 1)), ErrRefused, false, "")
	expect(t, attempt("postgres://%zz"), ErrRefused, false, "")
	expect(t, attempt("postgres://postgres@127.0.0.1:1/x"), ErrConnectionLost, true, "")

	ctx, cancel := context.WithCancelCause(context.Background())
	because := errors.New("the test says so")
	cancel(because)
	if err := New(s.config()).Run(ctx, nil); !errors.Is(err, because) {
		t.Errorf("a cancelled context gave %v", err)
	}
}

func TestAMissingPublicationIsSaid(t *testing.T) {
	s := newSource(t, postgres.ForTest(t))
	if version, _ := strconv.Atoi(s.Query(t, "SHOW server_version_num")[0][0]); version >= 180000 {
		t.Skip("from Postgres 18 on the server warns in its own log and sends nothing of such a publication")
	}
	s.Exec(t, `INSERT INTO "odd ""name" VALUES (1, 'x')`)
	config := s.config()
	config.Publications = []string{"never_made"}
	r := start(t, config, 100)
	expect(t, r.end(t), ErrPublicationMissing, false, s.slot)
}

func TestAnInvalidatedSlotIsLost(t *testing.T) {
	s := newSource(t, postgres.StartForTest(t, "max_slot_wal_keep_size=1MB", "min_wal_size=32MB", "max_wal_size=32MB"))
	for range 4 {
		s.Exec(t, "SELECT pg_logical_emit_message(false, 'x', 'x'); SELECT pg_switch_wal(); CHECKPOINT")
	}
	postgres.Eventually(t, "the slot to be lost", func() bool {
		s.Exec(t, "SELECT pg_switch_wal(); CHECKPOINT")
		return s.Query(t, fmt.Sprintf("SELECT wal_status FROM pg_replication_slots WHERE slot_name = '%s'", s.slot))[0][0] == "lost"
	})
	expect(t, New(s.config()).Run(t.Context(), nil), ErrSlotLost, false, s.slot)
}
