package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Teardown removes the slot and our publications from the source, never a user's own publication, and gives a sentence
// for each thing that it did or left. What was done before an error is told too. A slot that is being read is an error
// (ErrSlotBusy): the pipeline must be stopped first. The tables and the lake are not touched.
func Teardown(ctx context.Context, cfg *Config) (done []string, err error) {
	conn, err := Connect(ctx, cfg.URL, "teardown")
	if err != nil {
		return nil, err
	}
	defer CloseConn(conn)
	// The slot goes first: without its publications it would decode nothing, silently.
	did, err := dropSlot(ctx, conn, cfg)
	if err != nil {
		return nil, err
	}
	done = append(done, did)
	primary := conn
	if cfg.primary() != cfg.URL {
		if primary, err = Connect(ctx, cfg.primary(), "teardown"); err != nil {
			return done, err
		}
		defer CloseConn(primary)
	}
	c := &catalog{version: ServerVersion(primary.PgConn())}
	if err := inSnapshot(ctx, primary, func(tx pgx.Tx) error { return c.readPublications(ctx, tx, cfg) }); err != nil {
		return done, fmt.Errorf("publications of the source cannot be listed: %w", err)
	}
	for _, name := range []string{cfg.Publication, cfg.AppendPublication()} {
		switch p := c.publications[name]; {
		case p == nil:
			done = append(done, fmt.Sprintf("publication %s does not exist", Quote(name)))
		case !p.managed:
			done = append(done, fmt.Sprintf("publication %s is not ours and stays", Quote(name)))
		default:
			if _, err := primary.Exec(ctx, "DROP PUBLICATION "+Quote(name)); err != nil {
				return done, fmt.Errorf("publication %s cannot be dropped: %w", Quote(name), err)
			}
			done = append(done, fmt.Sprintf("publication %s dropped", Quote(name)))
		}
	}
	return done, nil
}

func dropSlot(ctx context.Context, conn *pgx.Conn, cfg *Config) (string, error) {
	s, err := ReadSlot(ctx, conn, cfg.Slot)
	if err != nil {
		return "", err
	}
	if !s.Exists {
		return fmt.Sprintf("replication slot %s does not exist", cfg.Slot), nil
	}
	if err := s.Err(); errors.Is(err, ErrSlotBusy) {
		return "", fmt.Errorf("replication slot %s cannot be dropped: %w", cfg.Slot, err)
	} else if errors.Is(err, ErrSlotForeign) {
		return fmt.Sprintf("replication slot %s is not ours (plugin %q, database %q) and stays", cfg.Slot, s.Plugin, s.Database), nil
	}
	_, err = conn.Exec(ctx, "SELECT pg_drop_replication_slot($1)", cfg.Slot)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55006" { // somebody began to read it meanwhile
		err = fmt.Errorf("%w: %w", ErrSlotBusy, err)
	}
	if err != nil {
		return "", fmt.Errorf("replication slot %s cannot be dropped: %w", cfg.Slot, err)
	}
	return fmt.Sprintf("replication slot %s dropped", cfg.Slot), nil
}
