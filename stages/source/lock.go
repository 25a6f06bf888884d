package source

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrLocked means that another process holds the pipeline's lock at the source. It is wrapped by a *LockedError.
var ErrLocked = errors.New("another Streambed runs this pipeline")

// LockedError says who holds a pipeline's lock.
type LockedError struct {
	Slot string
	// PID is the holder's backend at the source; 0 when it ended while we looked.
	PID                 int32
	Application, Client string
}

// Error names the holder and the remedy.
func (e *LockedError) Error() string {
	return fmt.Sprintf("another Streambed runs the pipeline of slot %s (backend %d, %s from %s): stop it first, or give this one another pipeline name",
		e.Slot, e.PID, e.Application, e.Client)
}

// Unwrap gives ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// Lock is a pipeline's advisory lock at the source, held as long as its connection lives. It keeps a second daemon from
// starting; what protects the lake, should the lock be lost unnoticed, is the epoch (promise 8).
type Lock struct {
	conn *pgx.Conn
	lost chan struct{}
	stop context.CancelFunc
	done sync.WaitGroup
}

// lockPing is how often the lock's connection is tried, lockAnswer how long the answer may take.
const lockPing, lockAnswer = 5 * time.Second, 15 * time.Second

// AcquireLock takes the lock of the pipeline that uses cfg.Slot, without waiting; *LockedError (errors.Is ErrLocked)
// when another session holds it. The lock belongs to the database of cfg.URL, as the slot does.
func AcquireLock(ctx context.Context, cfg *Config) (*Lock, error) {
	conn, err := Connect(ctx, cfg.URL, "lock "+cfg.Slot)
	if err != nil {
		return nil, err
	}
	if err := lockOn(ctx, conn, cfg.Slot); err != nil {
		CloseConn(conn)
		return nil, err
	}
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	l := &Lock{conn: conn, lost: make(chan struct{}), stop: stop}
	l.done.Go(func() { l.watch(watch) })
	return l, nil
}

// AwaitLock takes the lock as soon as its holder has ended, for a standby daemon. waiting, which may be nil, is told each
// time the holder changes. A source that cannot be reached is tried again for as long as it has answered before.
func AwaitLock(ctx context.Context, cfg *Config, waiting func(*LockedError)) (*Lock, error) {
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	var held *LockedError
	for {
		l, err := AcquireLock(ctx, cfg)
		var now *LockedError
		switch {
		case err == nil:
			return l, nil
		case errors.As(err, &now):
			if waiting != nil && (held == nil || held.PID != now.PID) {
				waiting(now)
			}
			held = now
		case held == nil || ctx.Err() != nil:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-poll.C:
		}
	}
}

func lockOn(ctx context.Context, conn *pgx.Conn, slot string) error {
	// The server must notice our death within a minute, or the pipeline could not be started elsewhere.
	settings := `SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3`
	if ServerVersion(conn.PgConn()) >= 14 {
		settings += `; SET idle_session_timeout = 0`
	}
	if _, err := conn.PgConn().Exec(ctx, settings).ReadAll(); err != nil {
		return fmt.Errorf("source refused the lock connection's settings: %w", err)
	}
	key := lockKey(slot)
	var ok bool
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", key).Scan(&ok); err != nil {
		return fmt.Errorf("source refused the advisory lock of slot %s: %w", slot, err)
	}
	if ok {
		return nil
	}
	held := &LockedError{Slot: slot, Application: "unknown", Client: "unknown"}
	const holder = `SELECT l.pid, COALESCE(NULLIF(a.application_name, ''), 'unknown'), COALESCE(host(a.client_addr), 'a local socket')
		FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
		LEFT JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.classid::bigint = $1 AND l.objid::bigint = $2`
	err := conn.QueryRow(ctx, holder, int64(uint64(key)>>32), int64(uint32(key))).Scan(&held.PID, &held.Application, &held.Client)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("source refused to say who holds the lock of slot %s: %w", slot, err)
	}
	return held
}

// lockKey derives an advisory lock's number from a slot's name.
func lockKey(slot string) int64 {
	sum := sha256.Sum256([]byte("streambed pipeline lock\x00" + slot))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// watch owns the connection until stopped.
func (l *Lock) watch(ctx context.Context) {
	for {
		// Waiting for a message that never comes notices at once when the server ends the connection.
		wait, cancel := context.WithTimeout(ctx, lockPing)
		_, err := l.conn.WaitForNotification(wait)
		ended := err != nil && wait.Err() == nil
		cancel()
		if ctx.Err() != nil {
			return
		}
		if !ended {
			answer, cancel := context.WithTimeout(ctx, lockAnswer)
			ended = l.conn.Ping(answer) != nil
			cancel()
		}
		if ctx.Err() != nil {
			return
		}
		if ended {
			close(l.lost)
			return
		}
	}
}

// Lost is closed when the lock's connection has broken: another process may have the lock by now, so the holder must
// stop writing.
func (l *Lock) Lost() <-chan struct{} { return l.lost }

// Release gives the lock up. It may be called more than once.
func (l *Lock) Release() {
	l.stop()
	l.done.Wait()
	CloseConn(l.conn)
}
