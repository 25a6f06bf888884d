package source

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Digest sums up all that Discover reads of user tables and our publications, in one query that is computed at the
// server: equal digests mean that Discover would find the same but for estimates. It takes no lock.
func Digest(ctx context.Context, conn *pgx.Conn, cfg *Config) (string, error) {
	schemas := ""
	if ServerVersion(conn.PgConn()) >= 15 {
		schemas = `UNION ALL SELECT 5, s.oid, s.xmin FROM pg_publication_namespace s, p WHERE s.pnpubid = p.oid`
	}
	// Every change of a catalog row leaves an xmin that no row had before, or takes a row away. Rows are grouped by xmin
	// before they are hashed, since most share theirs with the rest of their table, and xids only convert through text.
	query := `
WITH c AS MATERIALIZED (
	SELECT c.oid, c.xmin, c.relkind, n.oid AS schema, n.xmin AS schema_xmin FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relkind IN ('r', 'p', 'f', 'c') AND c.relpersistence <> 't' AND ` + userSchemas + `),
p AS (SELECT oid, xmin FROM pg_publication WHERE pubname IN ($1, $2)),
parts(kind, oid, xmin) AS (
	SELECT 1, oid, xmin FROM c
	UNION ALL SELECT DISTINCT 2, schema, schema_xmin FROM c
	UNION ALL SELECT 100 + a.attnum, a.attrelid, a.xmin FROM pg_attribute a JOIN c ON c.oid = a.attrelid WHERE a.attnum > 0
	UNION ALL SELECT 3, i.indexrelid, i.xmin FROM pg_index i JOIN c ON c.oid = i.indrelid WHERE i.indisprimary OR i.indisreplident
	UNION ALL SELECT 4, i.inhrelid, i.xmin FROM pg_inherits i JOIN c ON c.oid = i.inhrelid
	` + schemas + `
	UNION ALL SELECT 6, r.oid, r.xmin FROM pg_publication_rel r, p WHERE r.prpubid = p.oid
	UNION ALL SELECT 7, oid, xmin FROM p)
SELECT COALESCE(sum(n), 0) || '/' || COALESCE(sum(hashtextextended(xmin::text, members)), 0)
FROM (SELECT xmin, count(*) AS n, (sum(oid::bigint * 4096 + kind) % 9223372036854775783)::bigint AS members FROM parts GROUP BY xmin) groups`
	var digest string
	err := conn.QueryRow(ctx, query, cfg.Publication, cfg.AppendPublication()).Scan(&digest)
	if err != nil {
		return "", fmt.Errorf("catalog of the source cannot be read: %w", err)
	}
	return digest, nil
}
