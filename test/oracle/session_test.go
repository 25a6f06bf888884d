package oracle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// session is one client of the source. Its transactions follow from the seed; how they meet those of others does not.
type session struct {
	number  int
	url     string
	random  *rand.Rand
	model   *model
	schemas bool // makes schema changes, too
	// ballast decides when a transaction is made too long for the server to keep; nil for never.
	ballast *rand.Rand
	next    int64
	conn    *pgx.Conn
	// prepared are transactions of its own that wait to be ended.
	prepared []string
	// committed counts transactions; refused is the newest error of the server's, for the log.
	committed int
	refused   map[string]int
}

// pace is the least time between the beginnings of a session's transactions.
const pace = 4 * time.Millisecond

// work runs transactions until ctx ends. Errors of the server are part of the game: deadlocks, constraints, tables that
// others have altered, and its own end.
func (s *session) work(ctx context.Context) error {
	ticks := time.NewTicker(pace)
	defer ticks.Stop()
	for ctx.Err() == nil {
		if err := s.transaction(ctx); err != nil {
			if err := s.reconnect(ctx); err != nil {
				return err
			}
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
		}
	}
	return s.rest()
}

// reconnect opens the session's connection; a server that is being restarted is waited for.
func (s *session) reconnect(ctx context.Context) error {
	s.close()
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		conn, err := connect(deadline, s.url)
		if err == nil {
			s.conn = conn
			return nil
		}
		select {
		case <-again.C:
		case <-deadline.Done():
			return fmt.Errorf("session %d waited in vain for the source: %w", s.number, err)
		}
	}
}

func (s *session) close() {
	if s.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.conn.Close(ctx)
		s.conn = nil
	}
}

// exec runs statements. The error is not nil only when the connection is gone; refused tells that the server said no.
func (s *session) exec(ctx context.Context, sql string) (refused bool, err error) {
	_, err = s.conn.PgConn().Exec(context.WithoutCancel(ctx), sql).ReadAll()
	var no *pgconn.PgError
	if errors.As(err, &no) && !s.conn.IsClosed() {
		if s.refused[no.Code]++; no.Code == "42601" || strings.HasPrefix(no.Code, "22") {
			return true, fmt.Errorf("the test's own statement is wrong: %w: %s", err, sql)
		}
		return true, nil
	}
	return false, err
}

// transaction runs one, to its end: commit, rollback, or prepared for later.
func (s *session) transaction(ctx context.Context) error {
	if s.conn == nil {
		return errors.New("not connected")
	}
	if len(s.prepared) > 0 && s.random.IntN(2) == 0 {
		return s.endPrepared(ctx)
	}
	if s.schemas && s.random.IntN(8) == 0 {
		return s.alter(ctx)
	}
	if _, err := s.exec(ctx, "BEGIN"); err != nil {
		return err
	}
	for range 1 + s.random.IntN(6) {
		if err := s.step(ctx, s.statement()); err != nil {
			return err
		}
		if s.ballast != nil && s.ballast.IntN(12) == 0 {
			refused, err := s.exec(ctx, "INSERT INTO ballast.filling SELECT repeat(md5(g::text), 30) FROM generate_series(1, 100) g")
			if err == nil && refused {
				err = errors.New("the transaction is lost")
			}
			if err != nil {
				return err
			}
		}
		if s.random.IntN(150) == 0 {
			s.linger(ctx)
		}
	}
	return s.end(ctx)
}

// linger keeps the transaction open for a while.
func (s *session) linger(ctx context.Context) {
	wait := time.NewTimer(time.Duration(100+s.random.IntN(500)) * time.Millisecond)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}

// step runs statements in a subtransaction, which is rolled back when the server refuses them, and now and then anyway.
func (s *session) step(ctx context.Context, sql string) error {
	refused, err := s.exec(ctx, "SAVEPOINT s; "+sql)
	if err != nil {
		return err
	}
	if refused || s.random.IntN(10) == 0 {
		refused, err = s.exec(ctx, "ROLLBACK TO s")
	} else if s.random.IntN(2) == 0 {
		refused, err = s.exec(ctx, "RELEASE s")
	}
	if err == nil && refused {
		return errors.New("the transaction is lost")
	}
	return err
}

func (s *session) statement() string {
	switch n := s.random.IntN(20); {
	case n < 7:
		s.next++
		return transfer(s.random, int64(s.number)*1_000_000+s.next)
	case n < 9:
		return family(s.random)
	case n == 9 && s.random.IntN(8) == 0:
		return s.truncate()
	}
	t, ok := s.model.pick(s.random, func(t *table) bool { return !t.fixed })
	if !ok {
		return family(s.random)
	}
	return change(s.random, &t)
}

func (s *session) truncate() string {
	if s.random.IntN(3) == 0 {
		return "TRUNCATE parent CASCADE"
	}
	a, _ := s.model.pick(s.random, func(t *table) bool { return !t.fixed })
	b, _ := s.model.pick(s.random, func(t *table) bool { return !t.fixed })
	if a.name == b.name || s.random.IntN(2) == 0 {
		return "TRUNCATE " + a.name
	}
	return "TRUNCATE " + a.name + ", " + b.name
}

// end commits mostly.
func (s *session) end(ctx context.Context) error {
	switch n := s.random.IntN(12); {
	case n == 0:
		_, err := s.exec(ctx, "ROLLBACK")
		return err
	case n == 1:
		s.next++
		id := fmt.Sprintf("oracle %d %d", s.number, s.next)
		s.prepared = append(s.prepared, id)
		refused, err := s.exec(ctx, "PREPARE TRANSACTION '"+id+"'")
		if refused {
			s.prepared = s.prepared[:len(s.prepared)-1]
		}
		return err
	}
	if refused, err := s.exec(ctx, "COMMIT"); err != nil || refused {
		return err
	}
	s.committed++
	return nil
}

// endPrepared ends the oldest transaction that waits. It may be gone: the server's answer to PREPARE was lost.
func (s *session) endPrepared(ctx context.Context) error {
	verb := "COMMIT PREPARED '"
	if s.random.IntN(4) == 0 {
		verb = "ROLLBACK PREPARED '"
	}
	_, err := s.exec(ctx, verb+s.prepared[0]+"'")
	if err == nil {
		s.prepared = s.prepared[1:]
	}
	return err
}

// rest ends what is open.
func (s *session) rest() error {
	for len(s.prepared) > 0 {
		if err := s.endPrepared(context.Background()); err != nil {
			if err := s.reconnect(context.Background()); err != nil {
				return err
			}
		}
	}
	return nil
}
