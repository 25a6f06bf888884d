package source

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/lsn"
)

// Primary gives a connection to where publications are made: conn itself, which is one to cfg.URL, unless that is a
// standby. A standby that was promoted is its own primary, whatever the configuration still says. done gives the
// connection back.
func Primary(ctx context.Context, conn *pgx.Conn, cfg *Config, purpose string) (primary *pgx.Conn, done func(), err error) {
	recovering, err := InRecovery(ctx, conn)
	if err != nil {
		return nil, nil, err
	}
	if !recovering {
		return conn, func() {}, nil
	}
	if cfg.PrimaryURL == "" || cfg.PrimaryURL == cfg.URL {
		return nil, nil, fmt.Errorf("%w: source.url leads to a standby, where no publication can be made; set source.primary_url to its primary", ErrNoPrimary)
	}
	primary, err = Connect(ctx, cfg.PrimaryURL, purpose)
	if err != nil {
		return nil, nil, fmt.Errorf("the primary of the standby that is followed (source.primary_url): %w", err)
	}
	if recovering, err = InRecovery(ctx, primary); err == nil && recovering {
		err = fmt.Errorf("%w: source.primary_url leads to a standby too", ErrNoPrimary)
	}
	if err != nil {
		CloseConn(primary)
		return nil, nil, err
	}
	return primary, func() { CloseConn(primary) }, nil
}

// InRecovery tells whether a server is a standby.
func InRecovery(ctx context.Context, conn *pgx.Conn) (recovering bool, err error) {
	if err = conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&recovering); err != nil {
		err = fmt.Errorf("source does not tell whether it is a standby: %w", err)
	}
	return recovering, err
}

// AwaitReplay waits until conn's server, if it is a standby, has replayed all that its primary has committed by now.
func AwaitReplay(ctx context.Context, conn, primary *pgx.Conn) error {
	if conn == primary {
		return nil
	}
	var text string
	if err := primary.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&text); err != nil {
		return fmt.Errorf("the primary's WAL position cannot be read: %w", err)
	}
	goal, err := lsn.Parse(text)
	if err != nil {
		return err
	}
	forceFlush(ctx, primary)
	poll := time.NewTicker(openPoll)
	defer poll.Stop()
	for {
		var reached bool
		err := conn.QueryRow(ctx, "SELECT NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() >= $1::text::pg_lsn", goal.String()).Scan(&reached)
		if err != nil {
			return fmt.Errorf("the standby's WAL position cannot be read: %w", err)
		}
		if reached {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
