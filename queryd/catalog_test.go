package queryd

import (
	"strings"
	"testing"

	"github.com/streambed/streambed/test/postgres"
)

// TestPsqlsCommandsDescribeTheLake runs psql's backslash commands against the lake; where a real Postgres with the same
// tables has the same to say, the output must be the same.
func TestPsqlsCommandsDescribeTheLake(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	l.source(db, "t", `CREATE TABLE t(id int, "V" varchar(20), n numeric(10,2), x numeric, a int[], at timestamptz, j jsonb, u uuid, b bytea, c char(3), d date, i interval, f float8, o oid, s int2, bo bool, PRIMARY KEY (id))`)
	l.source(db, "nokey", "CREATE TABLE nokey(x text)")
	db.Exec(t, `CREATE SCHEMA "S.x"; CREATE TABLE "S.x"."Mixed"("B" int, a int, PRIMARY KEY ("B", a)); CREATE SCHEMA streambed`)
	l.copyTable(db, "S.x", "Mixed")
	same := []string{`\d`, `\dt`, `\d t`, `\d nokey`, `\dt t*`, `\d "S.x"."Mixed"`, `\dt "S.x".*`, `\di`, `\dm`, `\ds`, `\dx pg%`, `\dn S*`, `\d nope`, `\dT nope`, `\dp nokey_nope`, `\dy`, `\dRp`, `\dRs`, `\dX`, `\dP`, `\dE`, `\des`, `\deu`, `\ddp`}
	for _, command := range same {
		want, wantErr := psql(t, db.Server.Port, db.Name, command)
		got, gotErr := l.psql(command)
		if got != want || strings.TrimSpace(gotErr) != strings.TrimSpace(wantErr) {
			t.Errorf("%s gives\n%s%s\nPostgres\n%s%s", command, got, gotErr, want, wantErr)
		}
	}
	for _, command := range []string{`\d+ t`, `\dt+`, `\l`, `\l+`, `\dn+`, `\du`, `\dg`, `\dT`, `\dT+ int4`, `\df`, `\dv`, `\dp`, `\z t`, `\db`, `\db+`, `\dx`, `\dS`, `\dt *.*`, `\d pg_class`, `\d streambed.checkpoint`, `\dC`, `\dD`, `\dO`, `\dL`, `\do`, `\dA`, `\da`, `\dc`, `\dconfig`, `\drds`, `\dF`, `\dFd`, `\dFp`, `\dFt`, `\dd`, `\dl`, `\dRp+`, `\dRs+`, `\encoding`, `\conninfo`, `\dAc`, `\dAf`, `\dAo`, `\dAp`, `\sv streambed.checkpoint`} {
		if _, errors := l.psql(command); strings.Contains(errors, "ERROR") {
			t.Errorf("%s: %s", command, errors)
		}
	}
}

func TestStreambedRelationsTellTheLakesState(t *testing.T) {
	l, _, _ := history(t)
	l.want("4|0/190|t", "SELECT checkpoint, lsn, lag > interval '1 minute' FROM streambed.checkpoint")
	l.want("public|t|{id}|f|<NULL>\npublic|u|{}|t|<NULL>", "SELECT schema_name, table_name, key, append_only, set_aside FROM streambed.tables ORDER BY table_name")
	l.want("1|0/64\n2|0/C8\n3|0/12C", "SELECT checkpoint, lsn FROM streambed.snapshots('t') ORDER BY sequence")
	l.want("3", `SELECT count(*) FROM streambed.snapshots('public."t"') s WHERE s.rows > 0`)
	for sql, state := range map[string]string{"SELECT * FROM streambed.snapshots('nope')": "42P01", "SELECT * FROM streambed.nope": "42P01", "SELECT * FROM streambed.nope('t')": "42501", "SELECT * FROM pg_catalog.nope": "42P01", "SELECT * FROM pg_class AT (VERSION => 1)": "42809"} {
		if got := stateOf(t, l, sql); got != state {
			t.Errorf("%s: SQLSTATE %s, not %s", sql, got, state)
		}
	}
}

func TestCatalogQuestionsOfClients(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	l.source(db, "t", `CREATE TABLE t(id int PRIMARY KEY, v varchar(20), n numeric(10,2))`)
	for sql, want := range map[string]string{
		"SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema', 'streambed')":                                                                  "public|t|BASE TABLE",
		"SELECT column_name, data_type, is_nullable, character_maximum_length, numeric_precision, numeric_scale FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position":                                 "id|integer|NO|<NULL>|32|0\nv|character varying|YES|20|<NULL>|<NULL>\nn|numeric|YES|<NULL>|10|2",
		"SELECT kcu.column_name FROM information_schema.table_constraints tc JOIN information_schema.key_column_usage kcu USING (constraint_name, table_schema) WHERE tc.constraint_type = 'PRIMARY KEY' AND tc.table_name = 't'": "id",
		"SELECT 't'::regclass::oid = (SELECT oid FROM pg_class WHERE relname = 't')":                                                                                                                                              "t",
		"SELECT oid::regclass, relnamespace::regnamespace, 't'::regclass::text FROM pg_class WHERE oid = 'public.t'::regclass":                                                                                                    "t|public|t",
		"SELECT attname, format_type(atttypid, atttypmod), atttypid::regtype FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum":                                                                     "id|integer|integer\nv|character varying(20)|character varying\nn|numeric(10,2)|numeric",
		"SELECT current_setting('server_version_num')::int >= 150000, current_setting('nope', true), set_config('application_name', 'x', false), current_setting('timezone')":                                                     "t|<NULL>|x|UTC",
		"SELECT current_schemas(true), current_schemas(false), current_schema()":                                                                                                                                                  "{pg_catalog,public}|{public}|public",
		"SELECT indkey, indisprimary FROM pg_index WHERE indrelid = 't'::regclass":                                                                                                                                                "1|t",
		"SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 't'::regclass":                                                                                                                                      "PRIMARY KEY (id)",
		"SELECT indexdef FROM pg_indexes WHERE tablename = 't'":                                                                                                                                                                   "CREATE UNIQUE INDEX t_pkey ON public.t USING btree (id)",
		"SELECT datname, pg_encoding_to_char(encoding) FROM pg_database":                                                                                                                                                          "lake|UTF8",
		"SELECT nspname FROM pg_namespace ORDER BY 1":                                                                                                                                                                             "information_schema\npg_catalog\npublic\nstreambed",
		"SELECT typname FROM pg_type WHERE oid = 'int4'::regtype":                                                                                                                                                                 "int4",
		"SELECT setting FROM pg_settings WHERE name = 'server_encoding'":                                                                                                                                                          "UTF8",
		"SELECT has_table_privilege('t', 'SELECT'), has_table_privilege('t', 'insert'), has_schema_privilege('public', 'usage')":                                                                                                  "t|f|t",
		"SELECT quote_ident('A b'), quote_literal('it''s'), array_length(ARRAY[1,2], 1), array_upper(ARRAY[1,2], 1), pg_is_in_recovery()":                                                                                         `"A b"|'it''s'|2|2|f`,
		"SELECT count(*) FROM pg_stat_activity":                                                                                                                                                                                   "0",
	} {
		l.want(want, sql)
	}
}
