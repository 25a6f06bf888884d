package endtoend

import (
	"fmt"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// lakeTables waits until the lake shows exactly these tables of user schemas.
func (p *pipeline) lakeTables(d *daemon, want ...string) {
	p.t.Helper()
	d.eventually(time.Minute, "the lake to show the tables "+fmt.Sprint(want), func() (bool, string) {
		got, err := rows(p.t.Context(), p.lakeURL(), "select table_schema || '.' || table_name from information_schema.tables where table_schema not in ('pg_catalog', 'information_schema', 'streambed')")
		if err != nil {
			return false, err.Error()
		}
		quoted := []string{}
		for _, name := range want {
			quoted = append(quoted, fmt.Sprintf("%q", name))
		}
		return fmt.Sprint(got) == fmt.Sprint(quoted), fmt.Sprint(got)
	})
}

// TestRenamedTablesAndSchemasComeUnderTheirNewNames: while running, two names swapped, and while the daemon is down.
func TestRenamedTablesAndSchemasComeUnderTheirNewNames(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.ForTest(t), twoTables+"; CREATE SCHEMA far; CREATE TABLE far.away (id int PRIMARY KEY, v text); INSERT INTO far.away VALUES (1, 'a')")
	p.tables(`"*.*"`)
	d := p.start()
	d.ready()
	p.lakeTables(d, "far.away", "public.one", "public.two")
	p.source.Exec(t, "ALTER TABLE one RENAME TO first; INSERT INTO first VALUES (2001, 'renamed'); ALTER SCHEMA far RENAME TO near; UPDATE near.away SET v = 'b'")
	p.lakeTables(d, "near.away", "public.first", "public.two")
	p.same(d, "first", "two", "near.away")
	p.source.Exec(t, "ALTER TABLE first RENAME TO x; ALTER TABLE two RENAME TO first; ALTER TABLE x RENAME TO two; INSERT INTO two VALUES (2002, 'was first'); INSERT INTO first VALUES (2003, 'was two')")
	p.same(d, "first", "two")
	p.source.Exec(t, "DELETE FROM first WHERE id = 1; UPDATE two SET v = 'again' WHERE id = 2")
	p.same(d, "first", "two")
	d.stop(15)
	p.source.Exec(t, "ALTER TABLE two SET SCHEMA near; INSERT INTO near.two VALUES (2004, 'moved')")
	d = p.start()
	p.lakeTables(d, "near.away", "near.two", "public.first")
	p.same(d, "near.two", "first", "near.away")
	p.source.Exec(t, "UPDATE near.two SET v = 'last' WHERE id = 3; DELETE FROM near.two WHERE id = 4")
	p.same(d, "near.two")
}

// TestAnotherTableOfTheSameNameReplacesTheFirst: dropped and created anew, more than once, with other columns.
func TestAnotherTableOfTheSameNameReplacesTheFirst(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.ForTest(t), twoTables)
	d := p.start()
	d.ready()
	p.source.Exec(t, "DROP TABLE one; CREATE TABLE one (id int PRIMARY KEY, v int, w int); INSERT INTO one VALUES (1, 2, 3)")
	p.same(d, "one")
	p.source.Exec(t, "DELETE FROM one; DROP TABLE one")
	p.source.Exec(t, "CREATE TABLE one (name text PRIMARY KEY); INSERT INTO one VALUES ('third')")
	p.same(d, "one", "two")
	p.source.Exec(t, "INSERT INTO one VALUES ('fourth'); DELETE FROM one WHERE name = 'third'")
	p.same(d, "one")
	d.stop(15)
	p.source.Exec(t, "DROP TABLE one; CREATE TABLE one (id int PRIMARY KEY); INSERT INTO one VALUES (5)")
	d = p.start()
	p.same(d, "one", "two")
	p.source.Exec(t, "INSERT INTO one VALUES (6)")
	p.same(d, "one")
}

// TestAnotherKeyOrIdentityIsFollowed: what identifies a row changes under way, with changes to rows before anything was
// seen of it.
func TestAnotherKeyOrIdentityIsFollowed(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.ForTest(t), `
		CREATE TABLE indexed (a int NOT NULL, b int NOT NULL, v text);
		CREATE UNIQUE INDEX by_a ON indexed (a); CREATE UNIQUE INDEX by_b ON indexed (b);
		ALTER TABLE indexed REPLICA IDENTITY USING INDEX by_a;
		INSERT INTO indexed SELECT g, 1000 - g, 'v' FROM generate_series(1, 50) g;
		CREATE TABLE keyed (a int PRIMARY KEY, b int NOT NULL, v text);
		INSERT INTO keyed SELECT g, 1000 - g, 'v' FROM generate_series(1, 50) g;
		CREATE TABLE whole (n int, v text); ALTER TABLE whole REPLICA IDENTITY FULL;
		INSERT INTO whole SELECT g / 2, 'v' FROM generate_series(1, 50) g`)
	d := p.start()
	d.ready()
	p.source.Exec(t, `ALTER TABLE indexed REPLICA IDENTITY USING INDEX by_b; DELETE FROM indexed WHERE a < 5; UPDATE indexed SET b = b + 5000 WHERE a > 40;
		ALTER TABLE keyed DROP CONSTRAINT keyed_pkey, ADD PRIMARY KEY (b); DELETE FROM keyed WHERE a < 5; UPDATE keyed SET b = b + 5000 WHERE a > 40`)
	p.same(d, "indexed", "keyed")
	p.source.Exec(t, `INSERT INTO indexed VALUES (1007, 1, 'x'); DELETE FROM indexed WHERE b = 990; UPDATE keyed SET a = 7; DELETE FROM keyed WHERE b = 990`)
	p.same(d, "indexed", "keyed")
	// The values change without a message, and the same type hides it from the stream.
	p.source.Exec(t, `ALTER TABLE whole ALTER n TYPE int USING n * 10; DELETE FROM whole WHERE n = 20; UPDATE whole SET v = 'w' WHERE n = 30`)
	p.same(d, "whole")
	p.source.Exec(t, `ALTER TABLE whole REPLICA IDENTITY DEFAULT; INSERT INTO whole VALUES (1, 'append'); ALTER TABLE keyed DROP CONSTRAINT keyed_pkey; INSERT INTO keyed VALUES (1, 1, 'append')`)
	p.same(d, "whole", "keyed")
	d.stop(15)
	p.source.Exec(t, `ALTER TABLE keyed ADD PRIMARY KEY (b, a); UPDATE keyed SET v = 'keyed again'; ALTER TABLE whole REPLICA IDENTITY FULL; DELETE FROM whole WHERE n = 30`)
	d = p.start()
	p.same(d, "whole", "keyed", "indexed")
}
