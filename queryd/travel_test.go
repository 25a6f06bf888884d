package queryd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/test/postgres"
)

// history is a table of three states: one row, two rows, the first row gone.
func history(t *testing.T) (*testLake, *testTable, *postgres.Database) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	table := l.source(db, "t", "CREATE TABLE t(id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'one')") // checkpoint 1
	db.Exec(t, "INSERT INTO t VALUES (2, 'two')")
	l.add(db, table, "WHERE id = 2")                                      // checkpoint 2
	l.remove(table, 0, 0)                                                 // checkpoint 3
	l.source(db, "u", "CREATE TABLE u(id int); INSERT INTO u VALUES (7)") // checkpoint 4
	return l, table, db
}

func TestAtShowsTheTableAsItWas(t *testing.T) {
	l, _, _ := history(t)
	at := func(n int64) string {
		return l.now.Add(time.Duration(n-l.number) * time.Second).Format("2006-01-02 15:04:05.999999Z07:00")
	}
	l.want("2", "SELECT string_agg(id::text, ',' ORDER BY id) FROM t")
	l.want("1", "SELECT string_agg(id::text, ',' ORDER BY id) FROM t AT (VERSION => 1)")
	l.want("1,2", "SELECT string_agg(id::text, ',' ORDER BY id) FROM public.t AT (VERSION => 2)")
	l.want("1,2", "SELECT string_agg(id::text, ',' ORDER BY id) FROM t x AT (VERSION => '0/C8')")
	l.want("1,2", "SELECT string_agg(id::text, ',' ORDER BY id) FROM t AT (VERSION => 1 + 1)")
	l.want("1", fmt.Sprintf("SELECT string_agg(id::text, ',' ORDER BY id) FROM t AT (TIMESTAMP => '%s'::timestamptz)", at(1)))
	l.want("1,2", fmt.Sprintf("SELECT string_agg(id::text, ',' ORDER BY id) FROM t AT (TIMESTAMP => timestamptz '%s' + interval '900 milliseconds')", at(2)))
	l.want("1,2|1", "SELECT (SELECT string_agg(id::text, ',' ORDER BY id) FROM t AT (VERSION => 2)), (SELECT count(*) FROM t)")
	l.want("1|<NULL>\n2|2", "SELECT o.id, n.id FROM t o AT (VERSION => 2) LEFT JOIN t n USING (id) ORDER BY o.id")
	l.want("3", "WITH x AS (SELECT * FROM t AT (VERSION => 2)) SELECT (SELECT count(*) FROM x) + (SELECT count(*) FROM t)")
	l.want("1,2", "SET streambed.as_of = '2'", "SELECT string_agg(id::text, ',' ORDER BY id) FROM t")
	l.want("1", "SET streambed.as_of = '0/64'", "SELECT string_agg(id::text, ',' ORDER BY id) FROM t")
	l.want("1", "SET streambed.as_of = '"+at(1)+"'", "SELECT string_agg(id::text, ',' ORDER BY id) FROM t")
	l.want("2", "SET streambed.as_of = '1'", "RESET streambed.as_of", "SELECT string_agg(id::text, ',' ORDER BY id) FROM t")
	for sql, state := range map[string]string{
		"SELECT * FROM t AT (VERSION => 99)":                         "55000",
		"SELECT * FROM t AT (VERSION => '1/0')":                      "55000",
		"SELECT * FROM t AT (TIMESTAMP => now() + interval '1 day')": "55000",
		"SELECT * FROM t AT (VERSION => 0)":                          "22023",
		"SELECT * FROM t AT (VERSION => 'yesterday')":                "22023",
		"SELECT * FROM t AT (TIMESTAMP => 'yesterday')":              "22007",
		"SELECT * FROM t AT (TIMESTAMP => NULL)":                     "22004",
		"SELECT * FROM t AT (VERSION => id)":                         "42P10",
		"SELECT * FROM u AT (VERSION => 2)":                          "42P01",
		"WITH x AS (SELECT 1) SELECT * FROM x AT (VERSION => 2)":     "42809",
		"SET streambed.as_of = 'tomorrow'":                           "22023",
		"SELECT * FROM nope":                                         "42P01",
		"SELECT * FROM other.t":                                      "42P01",
		`SELECT * FROM "T"`:                                          "42P01",
		"SELECT nope FROM t":                                         "42703",
		"SELECT nope(1)":                                             "42883",
		"SELECT 1 FROM":                                              "42601",
		"SELECT 'x'::int":                                            "22P02",
		"SELECT id, count(*) FROM t":                                 "42803",
		"SELECT t.id FROM t a, t b":                                  "42P01",
		"SELECT 1 + ":                                                "42601",
	} {
		if got := stateOf(t, l, sql); got != state {
			t.Errorf("%s: SQLSTATE %s, not %s", sql, got, state)
		}
	}
}

func stateOf(t *testing.T, l *testLake, sql string) string {
	t.Helper()
	out, errors := l.psql(`\set VERBOSITY sqlstate`, `\set ON_ERROR_STOP 0`, sql)
	_, state, ok := strings.Cut(errors, "ERROR:  ")
	if !ok {
		return "none: " + out + errors
	}
	return strings.TrimSpace(strings.SplitN(state, "\n", 2)[0])
}

func TestBeginHoldsOneCheckpoint(t *testing.T) {
	l, table, _ := history(t)
	conn := l.connect()
	count := func() (n int) {
		t.Helper()
		ok(t, conn.QueryRow(t.Context(), "SELECT count(*)::int FROM t").Scan(&n))
		return n
	}
	_, err := conn.Exec(t.Context(), "BEGIN")
	ok(t, err)
	before := count()
	l.commit(formats.TableChange{Table: table.ref, Deletes: map[string]*roaring.Bitmap{table.files[1].Path: roaring.BitmapOf(0)}})
	if n := count(); n != before {
		t.Fatalf("%d rows, and %d a moment before in the same transaction", n, before)
	}
	_, err = conn.Exec(t.Context(), "COMMIT")
	ok(t, err)
	if n := count(); n != before-1 {
		t.Fatalf("%d rows after the transaction", n)
	}
}

func TestWaitForLSNWaitsUntilTheLakeHasIt(t *testing.T) {
	l, table, db := history(t)
	conn := l.connect()
	want := (l.at + 100).String()
	_, err := conn.Exec(t.Context(), "SET streambed.wait_for_lsn = '"+want+"'")
	ok(t, err)
	done := make(chan int, 1)
	go func() {
		var n int
		if err := conn.QueryRow(t.Context(), "SELECT count(*)::int FROM t").Scan(&n); err != nil {
			n = -1
		}
		done <- n
	}()
	select {
	case n := <-done:
		t.Fatalf("%d rows came before the lake had %s", n, want)
	case <-time.After(100 * time.Millisecond):
	}
	db.Exec(t, "INSERT INTO t VALUES (3, 'three')")
	l.add(db, table, "WHERE id = 3")
	if n := <-done; n != 2 {
		t.Fatalf("%d rows", n)
	}
	if got := stateOf(t, l, "SET streambed.wait_timeout = '50ms'; SET streambed.wait_for_lsn = 'FFFF/0'; SELECT count(*) FROM t"); got != "55000" {
		t.Fatal(got)
	}
}

func TestNamesThatDifferOnlyByCaseAreDifferent(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	for i, name := range []string{`"MixedCase"`, `"mixedcase"`, `"MIXEDCASE"`, `"with space"`, `"a.b"`, `"sla/sh"`, `"qu""ote"`, `"select"`, `"ünïcode"`, `"ÜNÏCODE"`, `"pct%20"`, `"at"`} {
		db.Exec(t, fmt.Sprintf(`CREATE TABLE %s(id int PRIMARY KEY, "Col umn" text, "order" int, "Order" int, "ORDER" int, "a""b" int, "file_row_number" int); INSERT INTO %s VALUES (1, 'one', 1, -1, %d, 5, 9)`, name, name, i))
		l.copyTable(db, "public", strings.ReplaceAll(strings.Trim(name, `"`), `""`, `"`))
		l.want(fmt.Sprintf("one|1|-1|%d|5|9", i), `SELECT "Col umn", "order", "Order", "ORDER", "a""b", file_row_number FROM public.`+name)
	}
	l.want("0|1|2", `SELECT a."ORDER", b."ORDER", "MIXEDCASE"."ORDER" FROM "MixedCase" a JOIN mixedcase AS b USING (id), "MIXEDCASE"`)
	l.want("-1|1", `SELECT x."A", x.a FROM (SELECT "Order" AS "A", "order" AS a FROM MixedCase) x`)
	l.want("3", `WITH "X" AS (SELECT 1 AS n), x AS (SELECT 2 AS n) SELECT "X".n + x.n FROM "X", x`)
	l.want("-1", `SELECT "Order" FROM mixedcase GROUP BY "Order" HAVING max("order") = 1 ORDER BY "Order"`)
	l.want("1", `SELECT public.mixedcase.id FROM public.mixedcase`)
	names, _ := textRows(t, l.url(), "", `SELECT *, "Order" AS "New Name" FROM "MixedCase"`)
	if got := strings.Join(names, "|"); got != `id|Col umn|order|Order|ORDER|a"b|file_row_number|New Name` {
		t.Errorf("columns are shown as %s", got)
	}
	if got := stateOf(t, l, `SELECT "oRDER" FROM mixedcase`); got != "42703" {
		t.Errorf("a column in the wrong case: %s", got)
	}
	if _, errors := l.psql(`SELECT "oRDER" FROM mixedcase`); !strings.Contains(errors, `"oRDER"`) {
		t.Errorf("the message does not have the name as it was written: %s", errors)
	}
}

func TestErrorsPointAtTheirPlace(t *testing.T) {
	l, _, _ := history(t)
	for sql, at := range map[string]int{
		"SELECT nope FROM t":                    8,
		"SELECT 1; SELECT  x.y FROM nope":       28,
		"SELECT 1 +":                            11,
		"SELECT id, é FROM t WHERE nix(id) = 1": 27,
	} {
		_, err := l.connect().PgConn().Exec(t.Context(), sql).ReadAll()
		if pg := pgError(err); pg == nil || int(pg.Position) != at && !(strings.HasSuffix(sql, "+") && pg.Position > 0) {
			t.Errorf("%s: %+v, not at %d", sql, pg, at)
		}
	}
}
