package queryd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/streambed/streambed/test/postgres"
)

// TestSQLUserCannotLeave tries every way out that is known, as a simple query, behind a harmless statement, and through
// Parse (promise 12).
func TestSQLUserCannotLeave(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	l.source(db, "t", "CREATE TABLE t(id int PRIMARY KEY); INSERT INTO t VALUES (1)")
	dir := t.TempDir()
	probe := filepath.Join(dir, "evil.csv")
	warehouse := l.store.Local(l.store.Warehouse() + "/x")
	refused := []string{
		"select * from read_csv('/etc/passwd')", "select * from read_text('/etc/hostname')", "select * from '/etc/passwd'", `select * from "/etc/passwd"`,
		"copy (select 1) to '" + probe + "'", "copy t to '" + probe + "'", "copy t from '/etc/passwd'", "copy (select 1) to program 'id'", "COPY (select 1) TO STDOUT (format parquet)",
		"install httpfs", "load httpfs", "attach '/var/tmp/x.db'", "detach memory", "use memory", "create table x(i int)", "create temp table x(i int)", "create table x as select 1",
		"create view x as select 1", "create macro m() as 1", "create schema s", "create type x as int", "create secret s (type s3)", "insert into public.t values (2)", "delete from public.t", "update public.t set id = 3",
		"drop table public.t", "drop view public.t", "truncate t", "alter table t add c int", "vacuum", "analyze", "checkpoint", "comment on table t is 'x'", "merge into t using t s on true when matched then delete",
		"set enable_external_access=true", "set allowed_directories=['/']", "set threads=1", "set memory_limit='1TB'", "set global timezone='UTC'", "set variable x = 1", "reset memory_limit", "set temp_directory='/'",
		"pragma database_list", "pragma enable_profiling", "call pragma_version()", "call force_checkpoint()", "export database '" + dir + "'", "import database '" + dir + "'",
		"prepare p as copy (select 1) to '" + probe + "'", "prepare p as insert into t values (1)", "explain analyze copy (select 1) to '" + probe + "'", "explain insert into t values (1)", "explain analyze insert into t values (1)",
		"select * from query('select 1')", "select * from query_table('t')", "select * from read_blob('/etc/hostname')", "select * from read_json('/etc/hostname')", "select * from glob('/*')",
		"select * from read_parquet('" + warehouse + "/**/*.parquet')", "select * from parquet_scan('s3://lake/x.parquet')", "select * from parquet_metadata('/x')", "select * from sniff_csv('/etc/passwd')",
		"select * from duckdb_settings()", "select * from duckdb_secrets()", "select * from duckdb_views()", "select * from duckdb_tables()", "select * from duckdb_extensions()", "select * from duckdb_functions()", "select * from duckdb_logs()",
		"select * from pragma_table_info('t')", "select * from pragma_show('t')", "select * from test_all_types()", "select * from summary((select 1))", "select * from seq_scan('t')", "select * from sql_auto_complete('s')", "select * from json_execute_serialized_sql('{}')",
		"select * from which_secret('x','s3')", "select * from enable_logging()", "select * from checkpoint()", "select getenv('HOME')", "select getvariable('x')", "select nextval('s')", "select write_log('x')", "select current_setting('temp_directory')",
		"select json_serialize_plan('select * from read_text(''/etc/hostname'')')", "select json_serialize_sql('select 1')", "select streambed_live(0::uinteger, 0::ubigint, 0::bigint)", "select streambed_live_in_one(0::uinteger, 0::bigint)", "select in_search_path('a','b')",
		"select * from streambed_lake.v1", "select * from main.v1", "select * from memory.streambed_lake.v1", "select * from information_schema.nope", "select * from duckdb_columns", "select * from sqlite_master",
		"from '/etc/passwd'", "table '/etc/passwd'", "describe '/etc/passwd'", "summarize t", "describe t", "show tables", "show databases", "pivot t on id using count(*)",
		"with x as (select * from read_text('/etc/hostname')) select * from x", "select (select content from read_text('/etc/hostname'))", "select * from t where id in (select size from read_blob('/etc/hostname'))",
		"select * from t join read_text('/etc/hostname') on true", "select exists (from glob('*'))", "with recursive r as (select 1 x union all select x+1 from r, glob('*') where x < 2) select * from r",
		"select * from (values (1)) v(x) where x > (select count(*) from glob('/*'))", "select * from t order by (select count(*) from glob('/*'))", "select sum(id) filter (where exists (from glob('/*'))) from t",
		"select sum(id) over (partition by (select count(*) from glob('/*'))) from t", "select * from range((select count(*) from glob('/*')))", "select * from t limit (select count(*) from glob('/*'))",
		"select list_transform([1], lambda x: (select count(*) from glob('/*')))", "select case when (select count(*) from glob('/*')) > 0 then 1 end", "select * from t at (version => (select count(*) from glob('/*')))",
		"select * from t at (timestamp => getenv('HOME')::timestamptz)", "select columns(x -> x = getenv('HOME')) from t", "select * replace (getenv('x') as id) from t", "values (getenv('HOME'))", "select * from t using sample (select 1)",
		"with x as (select 1) insert into t select * from x", "with x as (delete from t returning *) select * from x", "select * into x from t", "select 1; copy (select 1) to '" + probe + "'", "select 1; select * from read_text('/etc/hostname')",
		"begin; create table x(i int)", "select * from t for update", "lock table t", "listen x", "notify x", "do $$ begin end $$", "call x()", "grant all on t to public", "declare c cursor with hold for select * from read_text('/etc/hostname')",
		"/* select */ install httpfs", "-- select\ninstall httpfs", "execute p", "(copy t to '/tmp/x')", "with x as materialized (from glob('*')) from x",
	}
	conn := l.connect()
	for _, sql := range refused {
		if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err == nil {
			t.Errorf("%s was run", sql)
		} else if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Code == "XX000" || pg.Code == "58030" || strings.Contains(pg.Message, "fault") {
			t.Errorf("%s: %v", sql, err)
		}
		_, _ = conn.PgConn().Exec(t.Context(), "rollback").ReadAll()
		if r := conn.PgConn().ExecParams(t.Context(), sql, nil, nil, nil, nil).Read(); r.Err == nil {
			t.Errorf("%s was run by the extended protocol", sql)
		}
	}
	if _, err := os.Stat(probe); err == nil {
		t.Error("a file was written")
	}
	var n int
	if err := conn.QueryRow(t.Context(), "select count(*)::int from t").Scan(&n); err != nil || n != 1 {
		t.Fatal(n, err)
	}
}

func TestOrdinaryQueriesAreNotRefused(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	l.source(db, "t", "CREATE TABLE t(id int PRIMARY KEY, v text, n numeric(10,2), at timestamptz, d date, j jsonb, a int[]); INSERT INTO t SELECT g, 'v' || g, g * 1.5, '2026-01-01'::timestamptz + g * interval '1 hour', '2026-01-01'::date + g, jsonb_build_object('k', g), array[g, g + 1] FROM generate_series(1, 20) g")
	pg, err := pgx.Connect(t.Context(), db.URL())
	ok(t, err)
	defer pg.Close(t.Context())
	for _, sql := range []string{
		"SELECT 1", "SELECT 1 AS \"X\", 'a' AS y", "SELECT count(*), sum(id), min(v), max(n) FROM t", "SELECT id FROM t WHERE v LIKE 'v1%' ORDER BY id DESC LIMIT 3 OFFSET 1", "VALUES (1, 'a'), (2, 'b')", "TABLE t ORDER BY id",
		"SELECT public.t.id FROM public.t ORDER BY public.t.id LIMIT 2", "SELECT t.* FROM t ORDER BY 1 LIMIT 2", "SELECT public.t.* FROM public.t ORDER BY 1 LIMIT 1", "SELECT a.id, b.v FROM t a JOIN t b USING (id) ORDER BY a.id LIMIT 2", "SELECT * FROM t a JOIN t b USING (id) ORDER BY id LIMIT 2",
		"WITH x AS (SELECT id, v FROM t), y(z) AS (SELECT id FROM x) SELECT z FROM y ORDER BY z LIMIT 2", "WITH t AS (SELECT 7 AS id) SELECT id FROM t", "WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r ORDER BY n",
		"SELECT s.count FROM (SELECT count(*) FROM t) s", "SELECT v FROM t WHERE id IN (SELECT id + 1 FROM t WHERE id < 3) ORDER BY v", "SELECT id FROM t WHERE id = ANY (ARRAY[1, 2]) ORDER BY id", "SELECT id, CASE WHEN id > 2 THEN 'big' ELSE 'small' END FROM t ORDER BY id LIMIT 3",
		"SELECT coalesce(NULL, 5), nullif(1, 1), greatest(1, 2), array[1, 2], 'x'::text, 5::int8, true AND false, NOT true", "SELECT id, row_number() OVER (ORDER BY id DESC) FROM t ORDER BY id LIMIT 2", "SELECT date_trunc('day', at) FROM t ORDER BY id LIMIT 1",
		"SELECT extract(year FROM at)::int, extract(epoch FROM at)::bigint FROM t ORDER BY id LIMIT 1", "SELECT d + 1, d - '2026-01-01'::date, at + interval '1 day' FROM t ORDER BY id LIMIT 1", "SELECT j ->> 'k' FROM t ORDER BY id LIMIT 2", "SELECT a[1] FROM t ORDER BY id LIMIT 1",
		"SELECT id FROM t WHERE EXISTS (SELECT 1 FROM t x WHERE x.id = t.id + 19) ORDER BY id", "SELECT v FROM t UNION SELECT 'z' ORDER BY 1 LIMIT 2", "SELECT DISTINCT ON (id % 2) id % 2, id FROM t ORDER BY id % 2, id", "SELECT id % 3 AS m, count(*) FROM t GROUP BY m HAVING count(*) > 6 ORDER BY m", "SELECT n * 2, id / 2, id % 2, -id FROM t ORDER BY id LIMIT 1",
		"SELECT string_agg(v, ',' ORDER BY id) FROM t WHERE id < 4", "SELECT length(v), upper(v), substring(v FROM 1 FOR 1), v || 'x', position('1' IN v), trim('  a '), replace(v, 'v', 'w') FROM t WHERE id = 1", "SELECT g FROM generate_series(1, 3) g", "SELECT * FROM generate_series(1, 3) AS g(n)", "SELECT unnest(ARRAY[1, 2])", "SELECT * FROM unnest(ARRAY['a', 'b']) AS u",
		"SELECT NULL", "SELECT 'it''s', E'a\\nb', $$dollar$$", "SELECT 1.5, 1e3::float8, -2", "SELECT 2^3, 7 % 3, @ -5", "SELECT id FROM t WHERE v ~ '^v1' AND v NOT ILIKE 'V2%' AND id BETWEEN 1 AND 12 ORDER BY id", "SELECT id FROM t ORDER BY nullif(id, 1) NULLS FIRST LIMIT 1", "SELECT max(v) v FROM t", "SELECT avg(id) > 1 FROM t",
		"SELECT to_char(at, 'YYYY-MM-DD HH24:MI:SS'), to_char(d, 'FMMonth DD, YYYY'), to_char(at, 'Dy IW') FROM t ORDER BY id LIMIT 1", "SELECT id FROM t WHERE v SIMILAR TO 'v(1|2)_?' ORDER BY id", "SELECT date_trunc('day', at, 'Asia/Tokyo') FROM t ORDER BY id LIMIT 1", "SELECT v FROM t WHERE v ~* '^V1$' OR v !~* 'v'", "SELECT id FROM t WHERE id = ANY ('{1,2}') AND id <> ALL ('{2}'::int[])", "SELECT 5::numeric, '12345678901234567890.5'::numeric FROM t WHERE id = 1", "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM t", "SELECT initcap('hello wORLD')", "SELECT round(1.005, 2), ceil(1.2), floor(-1.2), abs(-3), mod(7, 3), power(2, 10)", "SELECT current_schema(), current_schema", "SELECT now() > '2020-01-01', current_date > '2020-01-01'", "SELECT pg_catalog.length('abc')", "SELECT 1 WHERE 'a' OPERATOR(pg_catalog.=) 'a'", "SELECT lower(v) AS \"Lower\" FROM t WHERE id = 1", "SELECT x.\"Id\" FROM (SELECT id AS \"Id\" FROM t) x ORDER BY 1 LIMIT 1",
	} {
		want, err := pg.PgConn().Exec(t.Context(), sql).ReadAll()
		ok(t, err)
		conn := l.connect()
		got, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		if w, g := render(want[0]), render(got[0]); w != g {
			t.Errorf("%s\ngives   %s\nPostgres %s", sql, g, w)
		}
		_ = conn.Close(t.Context())
	}
}

func render(r *pgconn.Result) string {
	var b strings.Builder
	for _, f := range r.FieldDescriptions {
		b.WriteString(f.Name + " ")
	}
	for _, row := range r.Rows {
		b.WriteString("/ ")
		for _, v := range row {
			if v == nil {
				b.WriteString("NULL ")
				continue
			}
			b.WriteString(string(v) + " ")
		}
	}
	return b.String()
}
