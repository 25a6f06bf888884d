package source

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats"
)

// sorted gives relations by name, so that findings come in one order.
func sorted(relations map[uint32]*relation) []*relation {
	return slices.SortedFunc(maps.Values(relations), func(a, b *relation) int {
		return cmp.Or(cmp.Compare(a.name.Schema, b.name.Schema), cmp.Compare(a.name.Table, b.name.Table))
	})
}

// checkTables looks at what we may read and at what identifies rows.
func (k *checker) checkTables(ctx context.Context) error {
	if err := k.checkPrivileges(ctx); err != nil {
		return err
	}
	for i := range k.tables {
		if err := k.checkIdentity(ctx, &k.tables[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkPrivileges finds tables and partitions that the copy could not read whole.
func (k *checker) checkPrivileges(ctx context.Context) error {
	oids := k.oids()
	for _, t := range k.tables {
		for _, leaf := range t.Leaves {
			oids = append(oids, leaf.OID)
		}
	}
	rows, err := k.conn.Query(ctx, `SELECT c.oid, COALESCE(has_schema_privilege(c.relnamespace, 'USAGE'), true),
			COALESCE(has_table_privilege(c.oid, 'SELECT'), true), row_security_active(c.oid)
		FROM pg_class c WHERE c.oid = ANY($1) ORDER BY c.relnamespace, c.relname`, oids)
	if err != nil {
		return err
	}
	schemas := map[string]bool{}
	secured := false
	var oid uint32
	var usage, read, hidden bool
	_, err = pgx.ForEachRow(rows, []any{&oid, &usage, &read, &hidden}, func() error {
		name := k.catalog.relations[oid].name
		if !usage && !schemas[name.Schema] {
			schemas[name.Schema] = true
			k.add(Error, SubjectRole, fmt.Sprintf("role %s may not use schema %s", Quote(k.role), Quote(name.Schema)),
				"GRANT USAGE ON SCHEMA "+Quote(name.Schema)+" TO "+Quote(k.role))
		}
		if !read {
			k.add(Error, Show(name), fmt.Sprintf("role %s may not read table %s", Quote(k.role), Show(name)),
				"GRANT SELECT ON "+QuoteTable(name)+" TO "+Quote(k.role))
		}
		if hidden && !secured {
			secured = true
			k.add(Error, Show(name), fmt.Sprintf("row-level security hides rows of table %s, and maybe of others, from role %s: a copy would not be whole", Show(name), Quote(k.role)),
				"ALTER ROLE "+Quote(k.role)+" BYPASSRLS")
		}
		return nil
	})
	return err
}

// checkIdentity says of a table what its identity leaves out, and what would change that.
func (k *checker) checkIdentity(ctx context.Context, t *Table) error {
	if t.KeyKind == formats.KeyFullRow && t.Partitioned {
		k.add(Warning, Show(t.Name), fmt.Sprintf("partitioned table %s has no primary key: a partition added later must be given REPLICA IDENTITY FULL at once, or its updates fail until Streambed notices", Show(t.Name)))
	}
	if t.KeyKind != keyNone {
		return nil
	}
	statements, err := k.identityFor(ctx, t)
	if err != nil {
		return err
	}
	if own := k.catalog.own(k.cfg); own != nil && (own.update || own.delete) {
		k.add(Error, Show(t.Name), fmt.Sprintf("table %s has no usable replica identity, but publication %s publishes updates and deletes: the source refuses them on this table", Show(t.Name), Quote(own.name)), statements...)
		return nil
	}
	k.add(Warning, Show(t.Name), fmt.Sprintf("table %s has no usable key and is append-only: its updates and deletes do not reach the lake (a primary key is the best remedy)", Show(t.Name)), statements...)
	return nil
}

// identityFor gives the statements that give a table a usable identity.
func (k *checker) identityFor(ctx context.Context, t *Table) ([]string, error) {
	r := k.catalog.relations[t.OID]
	if t.Partitioned {
		// Each partition logs by its own identity, and the root's is the one that is announced.
		statements := []string{"ALTER TABLE ONLY " + QuoteTable(t.Name) + " REPLICA IDENTITY FULL"}
		for _, leaf := range t.Leaves {
			statements = append(statements, "ALTER TABLE ONLY "+QuoteTable(leaf.Name)+" REPLICA IDENTITY FULL")
		}
		return statements, nil
	}
	alter := "ALTER TABLE ONLY " + QuoteTable(t.Name) + " REPLICA IDENTITY "
	key := k.catalog.primaryKey(r)
	if _, ok := t.places(key); ok && key != nil && r.identity != 'd' {
		return []string{alter + "DEFAULT"}, nil
	}
	index, err := k.candidateIndex(ctx, t)
	if err != nil || index != "" {
		return []string{alter + "USING INDEX " + Quote(index)}, err
	}
	return []string{alter + "FULL"}, nil
}

// candidateIndex names a unique index that could be the table's identity; "" when there is none.
func (k *checker) candidateIndex(ctx context.Context, t *Table) (string, error) {
	sent := make([]int16, len(t.Columns))
	for i, c := range t.Columns {
		sent[i] = c.Attnum
	}
	var name string
	err := k.conn.QueryRow(ctx, `SELECT COALESCE(min(c.relname::text), '') FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
		WHERE x.indrelid = $1 AND x.indisunique AND x.indisvalid AND x.indimmediate AND x.indpred IS NULL AND x.indexprs IS NULL
		AND NOT EXISTS (SELECT FROM unnest(x.indkey::int2[]) WITH ORDINALITY key(attnum, place)
			LEFT JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = key.attnum
			WHERE key.place <= x.indnkeyatts AND (a.attnotnull IS NOT TRUE OR key.attnum <> ALL($2)))`, t.OID, sent).Scan(&name)
	return name, err
}

// checkPatterns finds relations that were asked for and cannot be published, and patterns that select nothing.
func (k *checker) checkPatterns(context.Context) error {
	selection, err := k.cfg.Selection()
	if err != nil {
		return err
	}
	for _, r := range sorted(k.catalog.relations) {
		if !selection.Match(r.name) && !k.catalog.anyAncestor(r, func(a *relation) bool { return selection.Match(a.name) }) {
			continue
		}
		switch {
		case r.kind == 'f':
			k.add(Warning, Show(r.name), fmt.Sprintf("%s is a foreign table: its rows are not in this server's WAL, and it is not followed", Show(r.name)))
		case r.persistence == 'u':
			k.add(Warning, Show(r.name), fmt.Sprintf("table %s is unlogged: its changes are not in the WAL, and it is not followed (making it logged rewrites it under an exclusive lock)", Show(r.name)),
				"ALTER TABLE "+QuoteTable(r.name)+" SET LOGGED")
		}
	}
	for _, p := range selection.Tables {
		if !slices.ContainsFunc(k.tables, func(t Table) bool { return p.Match(t.Name) }) {
			k.add(Warning, SubjectConfig, fmt.Sprintf("source.tables has the pattern %s, which selects no table that can be followed (names are compared exactly, capitals included)", p))
		}
	}
	return nil
}
