package source

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats"
)

// movePublication makes target the only one of our publications that holds the table; "" takes it out of all.
func movePublication(ctx context.Context, conn *pgx.Conn, cfg *Config, name formats.TableName, oid uint32, target string) error {
	c := &catalog{version: ServerVersion(conn.PgConn())}
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := c.readPublications(ctx, tx, cfg); err != nil {
			return err
		}
		if own := c.own(cfg); own != nil {
			if target == own.name {
				return nil
			}
			return fmt.Errorf("%w: %s", ErrNotOurs, Quote(own.name))
		}
		statements, err := c.moves(cfg, name, oid, target)
		if err != nil || len(statements) == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, setLockTimeout); err != nil {
			return err
		}
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		// Names are looked up by the server: another table may have got this one's name meanwhile.
		if target == "" {
			return nil
		}
		return verifyMembership(ctx, tx, []uint32{oid}, target)
	})
	return typed(err)
}

// moves gives the statements that bring a table from where it is to target.
func (c *catalog) moves(cfg *Config, name formats.TableName, oid uint32, target string) ([]string, error) {
	if target != "" && c.publications[target] == nil {
		return nil, fmt.Errorf("publication %s does not exist: somebody dropped it; start again, and the tables concerned are copied anew", Quote(target))
	}
	var statements []string
	for _, in := range []string{cfg.Publication, cfg.AppendPublication()} {
		p := c.publications[in]
		if in != target && p != nil && p.managed && p.tables[oid] != nil {
			statements = append(statements, "ALTER PUBLICATION "+Quote(in)+" DROP TABLE ONLY "+QuoteTable(name))
		}
	}
	if target != "" && c.publications[target].tables[oid] == nil {
		// ONLY: inheritance children are tables of their own.
		statements = append(statements, "ALTER PUBLICATION "+Quote(target)+" ADD TABLE ONLY "+QuoteTable(name))
	}
	return statements, nil
}

// verifyMembership makes sure that it is these tables which have been added.
func verifyMembership(ctx context.Context, tx pgx.Tx, oids []uint32, target string) error {
	var found int
	err := tx.QueryRow(ctx, `SELECT count(*) FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
		WHERE p.pubname = $1 AND r.prrelid = ANY ($2)`, target, oids).Scan(&found)
	if err == nil && found != len(oids) {
		err = fmt.Errorf("%w: another one has its name", ErrTableGone)
	}
	return err
}
