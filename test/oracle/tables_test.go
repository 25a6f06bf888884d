package oracle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// shape says how a table's rows are told apart.
type shape int

const (
	// keyed rows have a key; bare ones none and REPLICA IDENTITY FULL; appended ones none at all.
	keyed shape = iota
	bare
	appended
)

type column struct{ name, kind string }

// table is a source table as the traffic knows it; what it knows may be late, for others alter the table.
type table struct {
	name        string
	shape       shape
	partitioned bool
	// fixed tables are never altered, nor emptied.
	fixed   bool
	key     []string
	columns []column
	// altered counts the schema changes that were tried.
	altered int
	dropped bool
}

// kind gives a column's type.
func (t *table) kind(name string) string {
	for _, c := range t.columns {
		if c.name == name {
			return c.kind
		}
	}
	return "text"
}

// others are the columns that are not in the key.
func (t *table) others() []column {
	return slices.DeleteFunc(slices.Clone(t.columns), func(c column) bool { return slices.Contains(t.key, c.name) })
}

// model is what all sessions know of the source. It is safe for concurrent use.
type model struct {
	mu     sync.Mutex
	tables []*table
}

// pick gives a copy of a random table that the test allows.
func (m *model) pick(random *rand.Rand, allowed func(*table) bool) (t table, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*table
	for _, t := range m.tables {
		if !t.dropped && allowed(t) {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return t, false
	}
	t = *all[random.IntN(len(all))]
	t.columns = slices.Clone(t.columns)
	return t, true
}

// alter notes a change that is about to be made, or was.
func (m *model) alter(name string, f func(*table)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.tables {
		if t.name == name {
			f(t)
		}
	}
}

func (m *model) add(t *table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tables = slices.DeleteFunc(m.tables, func(held *table) bool { return held.name == t.name })
	m.tables = append(m.tables, t)
}

// altered gives how many changes a table has seen.
func (m *model) altered(name string) (n int) {
	m.alter(name, func(t *table) { n = t.altered })
	return n
}

// columnsOf reads a table's columns; none when it does not exist.
func columnsOf(ctx context.Context, conn *pgx.Conn, name string) ([]column, error) {
	rows, err := conn.Query(ctx, `SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
		WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, "public."+name)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c column, err error) {
		err = row.Scan(&c.name, &c.kind)
		return c, err
	})
}

// look brings what is known of a table up to date.
func (m *model) look(ctx context.Context, conn *pgx.Conn, name string) error {
	columns, err := columnsOf(ctx, conn, name)
	if err != nil {
		return err
	}
	m.alter(name, func(t *table) { t.columns, t.dropped = columns, len(columns) == 0 })
	return nil
}

// accounts is the number of rows in each of the two tables between which amounts move, opening what each begins with.
const accounts, opening = 30, 1000

// ddl makes the tables that every history begins with.
const ddl = `
CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s');
CREATE TYPE pair AS (a int, b text);
CREATE TABLE acct_a (id int PRIMARY KEY, x bigint NOT NULL);
CREATE TABLE acct_b (id int PRIMARY KEY, x bigint NOT NULL, note text);
CREATE TABLE ledger (id bigint PRIMARY KEY, amount int);
CREATE TABLE beat (id bigint PRIMARY KEY);
CREATE TABLE k_int (id int PRIMARY KEY, a text, b text, n int, m numeric(12,3));
CREATE TABLE k_text (k text PRIMARY KEY, v text, tags text[], at timestamptz);
CREATE TABLE k_uuid (v jsonb, id uuid PRIMARY KEY, f float8);
CREATE TABLE k_two (a int, b text, v text, w bytea, PRIMARY KEY (b, a));
CREATE TABLE k_numeric (k numeric PRIMARY KEY, v text, d date);
CREATE TABLE "K full" (id int PRIMARY KEY, v text, "Näme" text, r real);
ALTER TABLE "K full" REPLICA IDENTITY FULL;
CREATE TABLE k_index (v text, u bigint NOT NULL, w interval);
CREATE UNIQUE INDEX k_index_u ON k_index (u);
ALTER TABLE k_index REPLICA IDENTITY USING INDEX k_index_u;
CREATE TABLE bare (a int, b text, n numeric);
ALTER TABLE bare REPLICA IDENTITY FULL;
CREATE TABLE appended (a int, b text, t timestamp);
CREATE TABLE parts (id int, day date, v text, w numeric, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (MINVALUE) TO ('2024-04-01');
CREATE TABLE parts_2 (w numeric, v text, gone int, day date NOT NULL, id int NOT NULL);
ALTER TABLE parts_2 DROP COLUMN gone;
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM ('2024-04-01') TO ('2024-08-01');
CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM ('2024-08-01') TO (MAXVALUE);
CREATE TABLE parent (id int PRIMARY KEY, v text);
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED, v text);
`

// initial are the tables of ddl in which random rows go.
func initial() []*table {
	return []*table{
		{name: "k_int", key: []string{"id"}}, {name: "k_text", key: []string{"k"}}, {name: "k_uuid", key: []string{"id"}},
		{name: "k_two", key: []string{"b", "a"}}, {name: "k_numeric", key: []string{"k"}}, {name: `"K full"`, key: []string{"id"}},
		{name: "k_index", key: []string{"u"}}, {name: "bare", shape: bare}, {name: "appended", shape: appended},
		{name: "parts", key: []string{"id", "day"}, partitioned: true},
		{name: "parent", key: []string{"id"}, fixed: true},
	}
}

// setUp makes the tables and some rows.
func (m *model) setUp(ctx context.Context, conn *pgx.Conn, random *rand.Rand) error {
	filled := fmt.Sprintf(`INSERT INTO acct_a SELECT i, %[2]d FROM generate_series(1, %[1]d) i;
		INSERT INTO acct_b SELECT i, %[2]d, repeat('n', i * 200) FROM generate_series(1, %[1]d) i`, accounts, opening)
	if _, err := conn.PgConn().Exec(ctx, ddl+filled).ReadAll(); err != nil {
		return err
	}
	var sql []string
	for _, t := range initial() {
		m.add(t)
		if err := m.look(ctx, conn, t.name); err != nil {
			return err
		}
		for _, c := range t.columns {
			if c.kind == "text" && random.IntN(3) > 0 { // out of line and not compressed
				sql = append(sql, fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET STORAGE EXTERNAL", t.name, pgx.Identifier{c.name}.Sanitize()))
			}
		}
		for range random.IntN(60) {
			sql = append(sql, insert(random, t))
		}
	}
	_, err := conn.PgConn().Exec(ctx, strings.Join(sql, ";")).ReadAll()
	return err
}
