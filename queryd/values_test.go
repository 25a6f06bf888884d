package queryd

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/test/postgres"
)

// everyType is a table with a column of each type that has a lake type of its own.
const everyType = `CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE types(id int PRIMARY KEY, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric(20,4), n0 numeric(10), nx numeric, t text, vc varchar(20), ch char(5),
	js json, jb jsonb, u uuid, d date, tm time, ts timestamp, tz timestamptz, ia int[], ta text[], na numeric(8,2)[], by bytea, iv interval, oi oid, nm name, da date[], ua uuid[], tza timestamptz[], fa float8[], ba bytea[], ba2 bool[], en mood, xm xml);
INSERT INTO types VALUES
(1, true, -32768, 2147483647, -9223372036854775808, 1.5, 0.1, 1234567890123456.7891, 42, 12345.678901, E'a\tb\nc\\d é', 'v', 'c', '{"a": [1, null]}', '{"k": "v", "n": 1.50}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
 '2024-02-29', '23:59:59.999999', '2024-02-29 12:00:00.123456', '2024-02-29 12:00:00.123456+05:30', '{1,NULL,3}', '{"a,b",NULL,"q\"","",NULL}', '{1.10,2.20}', '\x00ff10', '1 year 2 mons 3 days 04:05:06.789', 4294967295, 'n', '{2024-01-01,NULL}',
 '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}', '{"2024-02-29 12:00:00+00"}', '{1e20,-0,NaN,Infinity}', '{"\\x00ff",""}', '{t,f,NULL}', 'happy', '<a>b</a>'),
(2, false, 0, 0, 0, 'NaN', '-Infinity', 0, 0, 0, '', '', '', '{}', '[]', '00000000-0000-0000-0000-000000000000', '0001-01-01', '00:00:00', '0001-01-01 00:00:00', '9999-12-31 23:59:59.999999+00', '{}', '{}', '{}', '', '-1 days +02:03:00', 0, '', '{}', '{}', '{}', '{}', '{}', '{}', 'sad', ''),
(3, false, 1, 1, 1, 1e20, 1e-7, -1.5, -7, -0.000001, 'NULL', 'x', 'abcde', '"s"', 'null', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '1969-12-31', '12:00', '1969-12-31 23:59:59.9', '1900-01-01 00:00:00.5+00', '{2147483647}', '{NULL,"NULL"," "}', '{-0.01}', '\xdeadbeef', '-1 mons', 1, 'Name', '{1999-12-31}', '{}', '{NULL}', '{1.5}', '{"\\xff"}', '{}', 'ok', '<x/>'),
(4, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null);`

func textRows(t *testing.T, url, setup, sql string) ([]string, [][]string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	ok(t, err)
	defer conn.Close(t.Context())
	if setup != "" {
		_, err = conn.Exec(t.Context(), setup)
		ok(t, err)
	}
	results, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	ok(t, err)
	r := results[len(results)-1]
	ok(t, r.Err)
	var names []string
	for _, f := range r.FieldDescriptions {
		names = append(names, f.Name)
	}
	var rows [][]string
	for _, raw := range r.Rows {
		row := make([]string, len(raw))
		for i, v := range raw {
			row[i] = string(v)
			if v == nil {
				row[i] = "<NULL>"
			}
		}
		rows = append(rows, row)
	}
	return names, rows
}

func TestEveryTypeReadsAsPostgresHasIt(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	l.source(db, "types", everyType)
	const sql = "SELECT * FROM types ORDER BY id"
	for _, setup := range []string{"SET timezone = 'UTC'", "SET timezone = 'Asia/Kolkata'; SET intervalstyle = 'iso_8601'", "SET timezone = 'America/New_York'"} {
		wantNames, want := textRows(t, db.URL(), setup, sql)
		gotNames, got := textRows(t, l.url(), setup, sql)
		if !reflect.DeepEqual(wantNames, gotNames) {
			t.Fatalf("columns %v, not %v", gotNames, wantNames)
		}
		for i := range want {
			for k := range want[i] {
				if got[i][k] != want[i][k] {
					t.Errorf("%s: row %d column %s: %q, Postgres has %q", setup, i+1, wantNames[k], got[i][k], want[i][k])
				}
			}
		}
	}
}

// TestBinaryValuesAreWhatPostgresSends compares the bytes of every column's binary format and the described types.
func TestBinaryValuesAreWhatPostgresSends(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	l.source(db, "types", everyType)
	read := func(url string) (fields []string, rows [][]string) {
		conn, err := pgx.Connect(t.Context(), url)
		ok(t, err)
		defer conn.Close(t.Context())
		r := conn.PgConn().ExecParams(t.Context(), "SELECT * FROM types WHERE id <> $1::int ORDER BY id", [][]byte{[]byte("99")}, nil, nil, []int16{1}).Read()
		ok(t, r.Err)
		for _, f := range r.FieldDescriptions {
			fields = append(fields, fmt.Sprintf("%s %d size %d", f.Name, f.DataTypeOID, f.DataTypeSize))
		}
		for _, raw := range r.Rows {
			row := make([]string, len(raw))
			for i, v := range raw {
				row[i] = fmt.Sprintf("%x", v)
				if v == nil {
					row[i] = "NULL"
				}
			}
			rows = append(rows, row)
		}
		return fields, rows
	}
	wantFields, want := read(db.URL())
	gotFields, got := read(l.url())
	for k, f := range wantFields {
		if strings.HasPrefix(f, "en ") {
			continue // an enum's oid is the database's own; it is text here
		}
		if gotFields[k] != f {
			t.Errorf("column %s, Postgres describes %s", gotFields[k], f)
		}
		for i := range want {
			// A numeric without scale keeps 18 digits in the lake, which shows in the binary format's scale alone.
			if !strings.HasPrefix(f, "nx ") && got[i][k] != want[i][k] {
				t.Errorf("row %d column %s: %s, Postgres sends %s", i+1, f, got[i][k], want[i][k])
			}
		}
	}
}

// TestBlanksOfCharColumnsDoNotCount compares char(n) as Postgres does, and shows it filled up as Postgres does.
func TestBlanksOfCharColumnsDoNotCount(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	l.source(db, "c", "CREATE TABLE c(id int PRIMARY KEY, a char(5), b char(8)); INSERT INTO c VALUES (1, 'ab', 'ab'), (2, 'é', 'é x'), (3, '', ' '), (4, 'abcde', 'abcde'), (5, NULL, 'ab')")
	for _, sql := range []string{
		"SELECT id, a, b FROM c WHERE a = 'ab' ORDER BY id", "SELECT id FROM c WHERE a = 'ab   '", "SELECT id FROM c WHERE a IN ('é  ', 'x') ORDER BY id", "SELECT id FROM c WHERE a = b ORDER BY id",
		"SELECT id, a || '|', a::text || '|', length(a) FROM c ORDER BY id", "SELECT a, count(*) FROM c GROUP BY a ORDER BY a", "SELECT x.id, y.id FROM c x JOIN c y ON x.a = y.b ORDER BY 1, 2",
		"SELECT s.b FROM (SELECT id, b FROM c) s ORDER BY s.id", "SELECT id FROM c WHERE a LIKE 'ab%' ORDER BY id", "SELECT id FROM c WHERE a <> 'ab' ORDER BY id", "SELECT id FROM c WHERE a = '' ORDER BY id",
		"SELECT substring(a from 1 for 2) || '|' FROM c ORDER BY id",
	} {
		_, want := textRows(t, db.URL(), "", sql)
		_, got := textRows(t, l.url(), "", sql)
		if !reflect.DeepEqual(want, got) {
			t.Errorf("%s gives %q, in Postgres %q", sql, got, want)
		}
	}
}
