package queryd

import (
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/test/postgres"
)

// habits are expressions in Postgres' ways, that DuckDB lacks or does otherwise and that are translated (README.md,
// "Postgres' SQL").
var habits = []string{
	"1 / 2, -7 / 2, 7 % 3, -7 % 3, 7.0 / 2 = 3.5, mod(7, 3)", "'a' ~ 'A', 'a' ~* 'A', 'abc' !~ 'b', 'abc' !~* 'B', 'abc' SIMILAR TO 'a%'",
	"'{\"a\": {\"b\": [1, 2]}}'::jsonb -> 'a' -> 'b' ->> 0, '{\"a\": 1}'::jsonb ->> 'a'",
	"to_char(timestamp '2024-02-29 13:04:05.678', 'YYYY-MM-DD HH24:MI:SS.MS'), to_char(date '2024-02-29', 'Mon DD, YYYY'), to_char(timestamp '2024-03-01 01:02:03', 'IYYY-IW HH12:MI AM')",
	"to_timestamp('2024-02-29 13:04:05.5', 'YYYY-MM-DD HH24:MI:SS.US'), to_date('29.02.2024', 'DD.MM.YYYY'), to_timestamp(0)",
	"date_trunc('day', timestamptz '2024-02-29 23:30:00+00', 'Asia/Kolkata'), date_trunc('week', timestamp '2024-02-29 01:00:00')",
	"extract(epoch FROM timestamptz '2024-01-01 00:00:00Z')::bigint, extract(isodow FROM date '2024-02-29'), date_part('year', date '2024-02-29')",
	"date '2024-02-29' + 1, date '2024-03-01' - date '2024-02-28', timestamp '2024-01-31 00:00:00' + interval '1 month', age(timestamp '2024-03-01', timestamp '2024-01-15')::text <> ''",
	"(SELECT string_agg(note, ', ' ORDER BY id DESC) FROM lines WHERE note <> ''), (SELECT array_agg(id ORDER BY id) FROM lines), (SELECT bool_or(id > 20) FROM lines), (SELECT every(id > 20) FROM lines)",
	"(SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM lines), (SELECT percentile_disc(0.25) WITHIN GROUP (ORDER BY id) FROM lines), (SELECT mode() WITHIN GROUP (ORDER BY order_id) FROM lines)",
	"(SELECT count(*) FILTER (WHERE price > 1) FROM lines), (SELECT sum(g) FROM generate_series(1, 10) g), (SELECT count(*) FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-31', interval '1 day'))",
	"'lines'::regclass::text, 'lines'::regclass = (SELECT oid FROM pg_class WHERE relname = 'lines'), to_regclass('nope') IS NULL",
	"3 = ANY ('{1,2,3}'::int[]), 3 <> ALL (ARRAY[1,2]), ARRAY[1,2] || ARRAY[3], array_length(ARRAY[1,2,3], 1), ARRAY[1,2] @> ARRAY[1], (ARRAY['a','b'])[2]",
	"coalesce(NULL, 'x'), nullif(1, 1), greatest(1, NULL, 3), 'a' || NULL IS NULL, concat('a', NULL, 1), concat_ws('-', 'a', NULL, 'b'), 'A' ILIKE 'a'",
	"substring('abcdef' FROM 2 FOR 3), position('c' IN 'abc'), overlay('abcdef' PLACING 'X' FROM 2 FOR 1), trim(BOTH 'x' FROM 'xax'), left('abc', -1), split_part('a,b', ',', 2), initcap('ab cd'), lpad('7', 3, '0'), md5('a'), repeat('ab', 2), reverse('abc'), translate('abc', 'ab', 'xy'), ascii('a'), chr(97), strpos('abc', 'c'), quote_ident('A b')",
	"round(2.5), round(-2.5), round(2.345, 2), trunc(2.7), ceil(1.2), floor(-1.2), sign(-3), abs(-2), power(2, 10), sqrt(16::float8), 5 & 3, 5 | 3, 1 << 4, 2 ^ 10",
	"'2024-02-29'::date::text, '1'::int + 1, 't'::boolean, '1.50'::numeric(5,2), 1.5::int, 2.5::int, (-0.5)::int, true::int, '12 days'::interval::text",
	"row_number() OVER (ORDER BY x), lag(x) OVER (ORDER BY x), sum(x) OVER (PARTITION BY x % 2 ORDER BY x) FROM (VALUES (1), (2), (3)) v(x) ORDER BY 1",
	"x, y FROM (VALUES (1, NULL), (2, 'b'), (3, 'a')) v(x, y) ORDER BY y DESC, x LIMIT 2", "DISTINCT ON (order_id) order_id, id FROM lines ORDER BY order_id, id DESC",
	"order_id, line, count(*), grouping(order_id) FROM lines GROUP BY ROLLUP (order_id, line) ORDER BY 1, 2", "l.id, s.note FROM lines l CROSS JOIN LATERAL (SELECT note FROM lines m WHERE m.id = l.id) s ORDER BY 1",
	`'abc' LIKE 'a\%', 'a%' LIKE 'a\%', 'a_c' NOT LIKE 'a\_c', 'A%' ILIKE 'a\%', 'a\' LIKE 'a\\', v LIKE p FROM (VALUES ('a%', 'a\%'), ('ab', 'a\%'), ('ab', 'a%')) t(v, p)`,
	"v ILIKE ANY (ARRAY['A%', '%z']), v LIKE ANY ('{b%,%c}'), v NOT LIKE ANY (ARRAY['a%', 'b%']), v LIKE ALL (ARRAY['a%', '%c']), v NOT ILIKE ALL ('{A%,x}'::text[]), v ILIKE SOME (ARRAY['ABC']) FROM (VALUES ('abc'), ('xyz'), ('bcd'), (''), (NULL)) t(v)",
	"v LIKE ANY (ARRAY['a%', NULL]), v LIKE ALL (ARRAY['a%', NULL]), v NOT LIKE ANY (ARRAY['a%', NULL]), v NOT LIKE ALL (ARRAY['a%', NULL]), v LIKE ANY (NULL::text[]), v LIKE ANY ('{}'::text[]), v LIKE ALL ('{}'), v NOT LIKE ANY ('{}'), v NOT LIKE ALL ('{}'::text[]) FROM (VALUES ('abc'), ('xyz'), (NULL)) t(v)",
	"v LIKE ANY (p), v ILIKE ALL (p), v NOT LIKE ANY (p), NOT v LIKE ALL (p) FROM (VALUES ('abc', ARRAY['a%', 'x']), ('ABC', ARRAY['a%', '%c']), ('x', ARRAY[NULL, 'x']), ('y', ARRAY[NULL, 'x']), (NULL, ARRAY['a']), ('z', NULL), (NULL, ARRAY[]::text[]), ('a', ARRAY[]::text[])) t(v, p)",
	`j #>> '{a,b,0}', j #>> '{a,c}', (j #> '{a,b}') ->> 1, j #> '{a,c}' IS NULL, j #>> ARRAY['a', 'd/e~f'], j #>> '{0}', j #>> '{1,x}', (j #> '{}') ->> '0', j #>> '{a,NULL}' IS NULL, j #>> '{n}' IS NULL, j #> '{n}' IS NULL, j #>> '{"$.a"}' FROM (VALUES ('{"a": {"b": [1, "two"], "d/e~f": "x"}, "n": null, "0": "zero", "$.a": 5}'::jsonb), ('["first", {"x": true}]'), ('7'), (NULL)) t(j)`,
	`j ? 'a', j ? 'b', j ? '1', j ?| ARRAY['x', 'b'], j ?| '{x,NULL}', j ?& ARRAY['a', 'b'], j ?& '{}', j ?| '{}', j ?& ARRAY['a', NULL], j ? NULL, NOT j ? 'a', j -> 'a' ? 'x' FROM (VALUES ('{"a": {"x": 1}, "b": null}'::jsonb), ('["a", 1, null]'), ('["b", "1", "a"]'), ('"a"'), ('1'), ('null'), ('[]'), ('{}'), (NULL)) t(j)`,
	`j ->> 'a' = 'x', j -> 'b' ->> 'c' || '!' = 'd!', j ->> 'a' IN ('x', 'y'), (j -> 'n' ->> -1)::int + 1, j->'n'->>-2 FROM (VALUES ('{"a": "x", "b": {"c": "d"}, "n": [1, 2, 3]}'::jsonb), ('{}')) t(j) WHERE j ->> 'z' IS NULL AND j ->> 'a' IS DISTINCT FROM 'q'`,
	"at.id FROM lines at LEFT JOIN lines l ON l.id = at.id WHERE at.line = 1 ORDER BY 1", "timestamp '2024-02-29 12:00:00' AT TIME ZONE 'Asia/Kolkata'",
}

// TestPostgresHabitsAreTranslated asks the same of Postgres and of the lake.
func TestPostgresHabitsAreTranslated(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	db.Exec(t, clientTables)
	for _, table := range []string{"types", "lines"} {
		l.copyTable(db, "public", table)
	}
	for _, expressions := range habits {
		sql := "SELECT " + expressions
		_, want := textRows(t, db.URL(), "SET timezone = 'UTC'", sql)
		conn, err := pgx.Connect(t.Context(), l.url())
		ok(t, err)
		if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		ok(t, conn.Close(t.Context()))
		if _, got := textRows(t, l.url(), "SET timezone = 'UTC'", sql); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngives    %q\nPostgres %q", sql, got, want)
		}
	}
}

// TestPostgresHabitsTakeParameters asks the same of Postgres and of the lake with parameters, whose types the server tells.
func TestPostgresHabitsTakeParameters(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	l.source(db, "docs", `CREATE TABLE docs(id int PRIMARY KEY, v text, j jsonb);
		INSERT INTO docs VALUES (1, 'a%', '{"a": {"b": [1, 2]}}'), (2, 'abc', '["a", "b"]'), (3, NULL, NULL)`)
	source, err := pgx.Connect(t.Context(), db.URL())
	ok(t, err)
	defer source.Close(t.Context())
	lake := l.connect()
	for _, q := range []struct {
		condition string
		value     any
	}{
		{"v LIKE $1", `a\%`}, {"v NOT ILIKE $1", `A\%`}, {"v LIKE ANY ($1)", []string{"x", "ab%"}}, {"v ILIKE ANY ($1::text[])", []string{}}, {"v NOT LIKE ALL ($1)", []string{"a\\%", "x"}},
		{"j #>> $1 = '2'", []string{"a", "b", "1"}}, {"j #> $1 IS NULL", []string{"a"}}, {"j ? $1", "a"}, {"j ?| $1", []string{"b", "c"}}, {"j ?& $1", []string{"a", "b"}},
		{"j -> $1::text IS NOT NULL", "a"}, {"j -> 'a' ->> $1::text <> 'x'", "b"}, {"j ->> $1::int = 'b'", "1"}, {"j #>> $1 IS NULL", []string(nil)},
	} {
		var answers [2]string
		for i, conn := range []*pgx.Conn{source, lake} {
			if err := conn.QueryRow(t.Context(), "SELECT coalesce(string_agg(id::text, ',' ORDER BY id), '') FROM docs WHERE "+q.condition, q.value).Scan(&answers[i]); err != nil {
				t.Errorf("%s with %v: %v", q.condition, q.value, err)
			}
		}
		if answers[0] != answers[1] {
			t.Errorf("%s with %v gives rows %q, Postgres %q", q.condition, q.value, answers[1], answers[0])
		}
	}
}

// TestOtherHabitsAreRefused lists what is not translated: it fails with Postgres' code for what it is, and never answers
// something else.
func TestOtherHabitsAreRefused(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	l.source(db, "t", "CREATE TABLE t(id int PRIMARY KEY, n int, v text); INSERT INTO t VALUES (1, 0, 'a')")
	for sql, state := range map[string]string{
		"SELECT 1 / n FROM t": "22012", "SELECT 1 / 0": "22012", "SELECT 5 % n FROM t": "22012", "SELECT 1.5 / n FROM t": "22012", "SELECT 1 / $1::int": "42P02",
		"SELECT * FROM t FOR UPDATE": "42601", "SELECT to_char(1234.5, '9,999.99')": "42883", "SELECT to_char(now(), 'Q')": "42883",
		"SELECT to_tsvector('a')": "42883", "INSERT INTO t VALUES (2, 2, 'b')": "25006", "SELECT nextval('s')": "42501",
		"SELECT 5 # 3": "42601", "SELECT '{\"a\": 1}'::json #>> ARRAY[v] FROM t": "0A000", "SELECT '[1]'::json #> '{-1}'": "0A000", "SELECT v LIKE ANY (SELECT v FROM t) FROM t": "42601",
		"SELECT ARRAY[1] || 2": "42P10",
		"LISTEN x":             "0A000", "CREATE TEMP TABLE x(a int)": "25006",
	} {
		if got := stateOf(t, l, sql); got != state {
			t.Errorf("%s: SQLSTATE %s, not %s", sql, got, state)
		}
	}
}
