package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrLockTimeout means that a lock was not to be had within 2 s; nothing has changed. Try again later.
	ErrLockTimeout = errors.New("the source's lock was not to be had in time")
	// ErrTableGone means that the table was dropped or renamed since it was discovered: discover again.
	ErrTableGone = errors.New("the table is not there any more")
	// ErrNotOurs means that the publication is a user's own and is not changed by us.
	ErrNotOurs = errors.New("the publication is not managed by Streambed")
	// ErrReadOnly means that the server changes nothing: it is a standby.
	ErrReadOnly = errors.New("the server is a standby")
	// ErrNoPrimary means that publications cannot be made, since only a standby is known.
	ErrNoPrimary = errors.New("no primary is known")
	// ErrPublicationMissing means that a user's own publication is not there: it is waited for, not made.
	ErrPublicationMissing = errors.New("the publication does not exist")
)

// publicationGone says that a user's own publication is gone, and what to do.
func (c *catalog) publicationGone(cfg *Config) error {
	if !cfg.UserPublication || c.publications[cfg.Publication] != nil {
		return nil
	}
	name := Quote(cfg.Publication)
	return fmt.Errorf("%w: %s, which somebody else made and this pipeline follows, was dropped or renamed; make it again with CREATE PUBLICATION %s FOR TABLE ... (its tables are then copied anew), or name another in source.publication",
		ErrPublicationMissing, name, name)
}

// managedComment is the comment on our publications, by which we know them.
const managedComment = "managed by streambed"

// EnsurePublications makes our two publications, empty, where they are missing: cfg.Publication for tables with a usable
// identity, and the second one, inserts and truncates only, for the others. A publication of the first name without our
// comment is a user's own: it is honoured as it is, nothing is made, and cfg.UserPublication is set. conn is a connection
// to the primary. It must be called before the slot is made: a slot that decodes changes from before its publication loses
// them silently.
func EnsurePublications(ctx context.Context, conn *pgx.Conn, cfg *Config) error {
	c := &catalog{version: ServerVersion(conn.PgConn())}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, setLockTimeout); err != nil {
			return err
		}
		if err := c.readPublications(ctx, tx, cfg); err != nil {
			return err
		}
		if err := c.publicationGone(cfg); err != nil {
			return err
		}
		if cfg.UserPublication = c.own(cfg) != nil; cfg.UserPublication {
			return nil
		}
		for _, name := range []string{cfg.Publication, cfg.AppendPublication()} {
			if p := c.publications[name]; p != nil && !p.managed {
				return fmt.Errorf("%w: %s stands where the publication for tables without a key would be made; rename it or set source.publication", ErrNotOurs, Quote(name))
			} else if p != nil {
				continue
			}
			for _, statement := range createPublication(cfg, name, c.version) {
				if _, err := tx.Exec(ctx, statement); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("publication %s cannot be made: %w", Quote(cfg.Publication), typed(err))
	}
	return nil
}

// createPublication gives the statements that make one of our publications.
func createPublication(cfg *Config, name string, version int) []string {
	return []string{
		"CREATE PUBLICATION " + Quote(name) + " WITH (" + publicationOptions(cfg, name, version) + ")",
		"COMMENT ON PUBLICATION " + Quote(name) + " IS " + QuoteLiteral(managedComment),
	}
}

func publicationOptions(cfg *Config, name string, version int) string {
	publish := "insert, update, delete, truncate"
	if name == cfg.AppendPublication() {
		publish = "insert, truncate"
	}
	options := "publish = " + QuoteLiteral(publish) + ", publish_via_partition_root = true"
	if version >= 18 {
		options += ", publish_generated_columns = stored"
	}
	return options
}

// AddTable puts a table into the publication that it belongs in (Target), and takes it out of the other of ours, in one
// short transaction that waits at most 2 s for its SHARE UPDATE EXCLUSIVE lock; the source's own reads and writes go on
// meanwhile. A table that is where it belongs is left alone. Errors: ErrLockTimeout, ErrTableGone, ErrNotOurs (a user's
// own publication does not hold the table), or the server's, for want of privileges. conn is a connection to the primary.
// The change becomes visible in the Fingerprint of the next Discover.
func AddTable(ctx context.Context, conn *pgx.Conn, cfg *Config, t *Table) error {
	err := movePublication(ctx, conn, cfg, t.Name, t.OID, t.Target)
	if err != nil {
		return fmt.Errorf("table %s was not put into publication %s: %w", Show(t.Name), Quote(t.Target), err)
	}
	return nil
}

// batchTables is the most tables that one transaction adds, batchLockTimeout how long it waits for each of their locks: so
// short that it gives way before any deadlock with a statement of the source's own could be looked for.
const batchTables, batchLockTimeout = 250, "10ms"

// AddNewTables puts tables that are in none of our publications yet where they belong, many in one statement: for a
// thousand tables that is faster by far than AddTable. It gives how many of them, from the first on, have been added; for
// the next one, which was locked or is gone, there is AddTable. Sources with a publication of the user's own are refused
// (ErrNotOurs).
func AddNewTables(ctx context.Context, conn *pgx.Conn, cfg *Config, tables []*Table) (added int, err error) {
	for batch := range slices.Chunk(tables, batchTables) {
		if err := addBatch(ctx, conn, cfg, batch); err != nil {
			return added, fmt.Errorf("%d tables were not put into their publications: %w", len(batch), err)
		}
		added += len(batch)
	}
	return added, nil
}

func addBatch(ctx context.Context, conn *pgx.Conn, cfg *Config, tables []*Table) error {
	c := &catalog{version: ServerVersion(conn.PgConn())}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := c.readPublications(ctx, tx, cfg); err != nil {
			return err
		}
		if own := c.own(cfg); own != nil {
			return fmt.Errorf("%w: %s", ErrNotOurs, Quote(own.name))
		}
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '"+batchLockTimeout+"'"); err != nil {
			return err
		}
		for _, target := range []string{cfg.Publication, cfg.AppendPublication()} {
			var names []string
			var oids []uint32
			for _, t := range tables {
				if t.Target == target {
					names, oids = append(names, "ONLY "+QuoteTable(t.Name)), append(oids, t.OID)
				}
			}
			if len(names) == 0 {
				continue
			}
			if _, err := tx.Exec(ctx, "ALTER PUBLICATION "+Quote(target)+" ADD TABLE "+strings.Join(names, ", ")); err != nil {
				return err
			}
			if err := verifyMembership(ctx, tx, oids, target); err != nil {
				return err
			}
		}
		return nil
	})
	return typed(err)
}

// DropTable takes a table out of our publications, in the same way as AddTable; one that is in neither is left alone, and
// so is a user's own publication.
func DropTable(ctx context.Context, conn *pgx.Conn, cfg *Config, t *Table) error {
	err := movePublication(ctx, conn, cfg, t.Name, t.OID, "")
	if err != nil && !errors.Is(err, ErrNotOurs) {
		return fmt.Errorf("table %s was not taken out of its publication: %w", Show(t.Name), err)
	}
	return nil
}

// typed gives server errors that callers act on their types.
func typed(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case "55P03":
		return fmt.Errorf("%w: %w", ErrLockTimeout, err)
	case "25006":
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case "42P01", "3F000":
		return fmt.Errorf("%w: %w", ErrTableGone, err)
	}
	return err
}
