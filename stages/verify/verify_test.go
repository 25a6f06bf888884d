package verify

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/streambed/streambed/formats/types"
)

func schemaOf(fields []types.Field) *arrow.Schema { return types.ArrowSchema(fields) }

const ddl = `
CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (a int, b text);
CREATE TABLE keyed (id int PRIMARY KEY, t text, n numeric(10,2), free numeric, j jsonb, ts timestamptz, tags text[], m mood, p pair, b bytea, f float8);
INSERT INTO keyed SELECT i, repeat('x', i % 3000), i / 7.0, i * 1.5, jsonb_build_object('i', i), '2024-01-01'::timestamptz + i * interval '1 s',
	ARRAY['a', NULL, i::text], CASE WHEN i % 2 = 0 THEN 'ok' END::mood, ROW(i, NULL)::pair, decode(md5(i::text), 'hex'), i / 3.0 FROM generate_series(1, 2000) i;
CREATE TABLE parts (id int, day date, v text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE parts_a PARTITION OF parts FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
CREATE TABLE parts_b (v text, day date NOT NULL, id int NOT NULL); ALTER TABLE parts ATTACH PARTITION parts_b FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');
INSERT INTO parts SELECT i, '2020-12-01'::date + i % 60, 'v' || i FROM generate_series(1, 500) i;
CREATE TABLE bare (a int, b text); ALTER TABLE bare REPLICA IDENTITY FULL;
INSERT INTO bare SELECT i % 10, NULLIF('b' || i % 5, 'b3') FROM generate_series(1, 200) i;
CREATE TABLE appended (a int, t timestamp); INSERT INTO appended SELECT i, now() FROM generate_series(1, 50) i;
CREATE TABLE empty (id int PRIMARY KEY)`

func TestALakeInStepIsEqualUnderTraffic(t *testing.T) {
	f := newFixture(t, ddl)
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		conn, err := pgconn.Connect(t.Context(), f.URL())
		for i := 0; err == nil; i++ {
			select {
			case <-stop:
				ended <- conn.Close(t.Context())
				return
			default:
			}
			_, err = conn.Exec(t.Context(), fmt.Sprintf(`
				UPDATE keyed SET f = f + 1, t = t || 'y' WHERE id = 1 + %[1]d %% 50; INSERT INTO keyed (id, t) VALUES (10000 + %[1]d, 'new');
				DELETE FROM keyed WHERE id = 9990 + %[1]d; UPDATE parts SET day = day + 1, v = 'w' WHERE id = 1 + %[1]d %% 500 AND day < '2021-12-31';
				UPDATE bare SET b = 'u' WHERE ctid = (SELECT ctid FROM bare LIMIT 1); INSERT INTO appended VALUES (%[1]d, NULL)`, i)).ReadAll()
		}
		ended <- err
	}()
	for _, table := range []string{"keyed", "parts", "empty"} {
		r := f.verify(f.options(table))
		if len(r.Differences) != 0 || r.More || !r.CaughtUp {
			t.Errorf("%s under traffic: %+v\n%s", table, r, told(r))
		}
		t.Logf("%s: %d rows, %d rounds, %d undecided", table, r.SourceRows, r.Rounds, r.Undecided)
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"keyed", "parts", "bare", "appended", "empty"} {
		r := f.verify(f.options(table))
		if !r.Equal() || !r.CaughtUp || r.SourceRows != r.LakeRows || fmt.Sprint(r.SourceRows) != f.Query(t, "SELECT count(*) FROM "+table)[0][0] {
			t.Errorf("%s at rest: %+v\n%s", table, r, told(r))
		}
	}
}

func TestEveryKindOfDamageIsFoundAndNothingElse(t *testing.T) {
	f := newFixture(t, ddl)
	f.damage("keyed", func(v []string) bool { return v[0] == "7" || v[0] == "1999" }, func(s *arrow.Schema) arrow.RecordBatch {
		b := array.NewRecordBuilder(memory.DefaultAllocator, s)
		defer b.Release()
		for _, id := range []int32{7, 8, 5000} { // one changed, one twice, one that is only here
			b.Field(0).(*array.Int32Builder).Append(id)
			b.Field(1).(*array.StringBuilder).Append("damaged")
			for i := 2; i < b.Schema().NumFields(); i++ {
				b.Field(i).AppendNull()
			}
		}
		return b.NewRecordBatch()
	})
	o := f.options("keyed")
	o.Wait = -1
	r := f.verify(o)
	if r.SourceRows != 2000 || r.LakeRows != 2001 {
		t.Errorf("counted %d and %d rows", r.SourceRows, r.LakeRows)
	}
	want := []string{"missing in the lake: id=1999 (1, 0)", "only in the lake: id=5000 (0, 1)",
		"different: id=7 (1, 1) t: xxxxxxx, damaged n: 1.00, NULL free: 10.500000000000000000, NULL", "held in different numbers: id=8 (1, 2)"}
	if lines := strings.Split(told(r), "\n"); len(lines) != len(want) {
		t.Errorf("found\n%s", told(r))
	} else {
		for i, line := range lines {
			if !strings.HasPrefix(line, want[i]) {
				t.Errorf("found %s, want %s", line, want[i])
			}
		}
	}
	o.Limit = 2
	if r := f.verify(o); len(r.Differences) != 2 || !r.More || r.Equal() {
		t.Errorf("with a limit of two: %+v", r)
	}
	// In little memory the same is found, part after part.
	o.Limit, o.Memory = 0, 1
	if again := f.verify(o); told(again) == "" || len(again.Differences) != 4 {
		t.Errorf("in little memory: %s", told(again))
	}
}

func TestTwinsWithoutAKeyAreCounted(t *testing.T) {
	f := newFixture(t, ddl)
	done := false
	f.damage("bare", func(v []string) bool {
		take := !done && v[0] == "2"
		done = done || take
		return take
	}, nil)
	o := f.options("bare")
	o.Wait = -1
	if r := f.verify(o); told(r) != "held in different numbers: a=2, b=b2 (20, 19)" {
		t.Errorf("found %s", told(r))
	}
}

func TestAStoppedDaemonIsToldFromDamage(t *testing.T) {
	f := newFixture(t, ddl)
	f.stop()
	f.Exec(t, "INSERT INTO keyed (id) VALUES (3000); UPDATE keyed SET f = 0 WHERE id = 5")
	o := f.options("keyed")
	o.Wait = -1
	r := f.verify(o)
	if r.CaughtUp || r.Behind <= 0 || told(r) != "missing in the lake: id=3000 (1, 0)\ndifferent: id=5 (1, 1) f: 0, 1.6666666666666667" {
		t.Errorf("%+v\n%s", r, told(r))
	}
	if r := f.verify(func() Options { o.Table.Table = "parts"; return o }()); !r.Equal() || r.CaughtUp {
		t.Errorf("a table that did not change: %+v", r)
	}
}

// Rows are asked for by key in text form: a type whose text did not find its row again would hide that it is missing.
func TestMissingRowsAreFoundByKeysOfAnyType(t *testing.T) {
	keys := map[string]string{
		"boolean": "true", "smallint": "-5", "integer": "7", "bigint": "-9223372036854775808", "numeric": "'12345678901234567890.12345'",
		"numeric(12,3)": "-0.5", "real": "1.5", "double precision": "0.1", "text": `E'a"b\\c,{}\n''名'`, "varchar(5)": "'x y'", "char(5)": "'ab'",
		`"char"`: "'z'", "name": "'n'", "bytea": `'\x00ff'`, "uuid": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "date": "'0001-01-01'",
		"time": "'23:59:59.999999'", "timetz": "'12:00:00+05:30'", "timestamp": "'2024-02-29 01:02:03.000004'", "timestamptz": "'1900-01-01 00:00:00+00'",
		"interval": "'1 mon -3 days 04:05:06.7'", "inet": "'10.0.0.1/8'", "cidr": "'10.0.0.0/8'", "macaddr": "'08:00:2b:01:02:03'", "oid": "4294967295",
		"bit(3)": "'101'", "int4range": "'[1,5)'", "int[]": "'{1,2}'", "mood": "'ok'", "dom": "'d'", "pair": "'(1,x)'", "jsonb": `'{"a": 1}'`, "pg_lsn": "'1/2'",
	}
	var sql strings.Builder
	sql.WriteString("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN dom AS text; CREATE TYPE pair AS (a int, b text);")
	tables := map[string]string{}
	for typ, value := range keys {
		table := fmt.Sprintf("t%d", len(tables))
		tables[typ] = table
		fmt.Fprintf(&sql, "CREATE TABLE %s (k %s, id int, PRIMARY KEY (k, id)); INSERT INTO %s VALUES (%s, 1), (%s, 2);", table, typ, table, value, value)
	}
	f := newFixture(t, sql.String())
	for typ, table := range tables {
		f.damage(table, func(v []string) bool { return v[1] == "1" }, nil)
		o := f.options(table)
		o.Wait = -1
		if r := f.verify(o); len(r.Differences) != 1 || r.Differences[0].Kind != Missing || !strings.Contains(r.Differences[0].Key, "id=1") {
			t.Errorf("key of type %s: %+v\n%s", typ, r, told(r))
		}
	}
}

func TestATableThatCannotBeComparedSaysWhy(t *testing.T) {
	f := newFixture(t, ddl)
	for table, want := range map[string]string{"nowhere": "not among the tables"} {
		_, err := Verify(t.Context(), f.options(table))
		if !errors.Is(err, ErrNotComparable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", table, err)
		}
	}
	f.stop()
	f.Exec(t, "ALTER TABLE keyed DROP COLUMN j; ALTER TABLE keyed ADD COLUMN fresh int; ALTER TABLE keyed RENAME COLUMN t TO text; CREATE TABLE late (id int PRIMARY KEY)")
	o := f.options("keyed")
	o.Wait = -1
	if r := f.verify(o); !r.Equal() || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], `"fresh", "j"`) {
		t.Errorf("%+v", r)
	}
	if _, err := Verify(t.Context(), f.options("late")); !errors.Is(err, ErrNotComparable) {
		t.Errorf("%v", err)
	}
}

func TestGroupsHoldWhatDiffersAndNothingElse(t *testing.T) {
	a, b := newTally(), newTally()
	add := func(to *tally, text string) {
		d := sum([]byte(text))
		to.add(d, d)
	}
	for i := range 1000 {
		add(a, fmt.Sprint(i))
		if i%100 != 0 {
			add(b, fmt.Sprint(i))
		}
	}
	for _, rows := range []int64{1, 3, 1 << 30} {
		seen := 0
		for _, g := range groups(a, b, rows) {
			held := int64(0)
			for i := range g {
				if a.piles[i] == b.piles[i] {
					t.Errorf("bucket %d does not differ", i)
				}
				held += a.piles[i].rows + b.piles[i].rows
				seen++
			}
			if held > rows && len(g) > 1 {
				t.Errorf("a group of %d rows where %d are allowed", held, rows)
			}
		}
		if seen != 10 {
			t.Errorf("%d buckets differ, want 10", seen)
		}
	}
}
