package source

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

func TestOnlyOneHoldsThePipelinesLock(t *testing.T) {
	f := newFixture(t)
	first, err := AcquireLock(t.Context(), f.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Release()
	_, err = AcquireLock(t.Context(), f.cfg)
	mustBe(t, err, ErrLocked)
	var held *LockedError
	if !errors.As(err, &held) || held.Application != "streambed lock "+f.cfg.Slot || held.PID != int32(first.conn.PgConn().PID()) {
		t.Errorf("the holder is told as %+v", held)
	}
	if !strings.Contains(err.Error(), "pipeline name") {
		t.Errorf("no remedy in %v", err)
	}
	other := *f.cfg
	other.Slot = "other"
	second, err := AcquireLock(t.Context(), &other)
	if err != nil {
		t.Fatalf("another pipeline of the database is locked out: %v", err)
	}
	second.Release()
	second.Release()
	told := make(chan *LockedError, 10)
	taken := make(chan error, 1)
	go func() {
		l, err := AwaitLock(deadline(t), f.cfg, func(e *LockedError) { told <- e })
		if err == nil {
			l.Release()
		}
		taken <- err
	}()
	if e := <-told; e.PID != held.PID {
		t.Errorf("waits for %+v", e)
	}
	first.Release()
	if err := <-taken; err != nil {
		t.Errorf("the lock was not taken over: %v", err)
	}
	select {
	case <-first.Lost():
		t.Error("a lock that was released counts as lost")
	default:
	}
}

func TestALostLockIsNoticed(t *testing.T) {
	f := newFixture(t)
	l, err := AcquireLock(t.Context(), f.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	f.Exec(t, "SELECT pg_terminate_backend("+itoa(l.conn.PgConn().PID())+")")
	select {
	case <-l.Lost():
	case <-time.After(30 * time.Second):
		t.Fatal("waited in vain for the loss to be noticed")
	}
	next, err := AcquireLock(t.Context(), f.cfg)
	if err != nil {
		t.Fatal(err)
	}
	next.Release()
}

func TestALockOutlivesItsPings(t *testing.T) {
	f := newFixture(t)
	l, err := AcquireLock(t.Context(), f.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	start := f.Query(t, "SELECT query_start FROM pg_stat_activity WHERE pid = "+itoa(l.conn.PgConn().PID()))[0][0]
	postgres.Eventually(t, "a ping on the lock's connection", func() bool {
		return f.Query(t, "SELECT query_start FROM pg_stat_activity WHERE pid = "+itoa(l.conn.PgConn().PID()))[0][0] != start
	})
	select {
	case <-l.Lost():
		t.Error("the lock is lost")
	default:
	}
	_, err = AcquireLock(t.Context(), f.cfg)
	mustBe(t, err, ErrLocked)
}
