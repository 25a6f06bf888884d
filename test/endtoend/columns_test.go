package endtoend

import (
	"fmt"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// TestSettingsByColumnHoldForCopyAndStream: columns that are left out and numerics with a type of their own, with and
// without a key, through changes of the table and of the settings.
func TestSettingsByColumnHoldForCopyAndStream(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.ForTest(t), `CREATE TABLE one (secret text, id int PRIMARY KEY, price numeric, odd numeric, big text);
		INSERT INTO one SELECT 's', g, g + 0.127, g, repeat('x', 3000) FROM generate_series(1, 20) g;
		ALTER TABLE one ALTER big SET STORAGE EXTERNAL;
		CREATE TABLE whole (n int, secret text); ALTER TABLE whole REPLICA IDENTITY FULL; INSERT INTO whole SELECT g / 2, 's' || g FROM generate_series(1, 20) g`)
	settings := func(one, whole string) string {
		return fmt.Sprintf("tables: [{name: public.one, %s}, {name: public.whole, %s}]\nmemory: 256MiB", one, whole)
	}
	first := settings(`exclude_columns: [secret, id], numeric: {price: "decimal(10,2)", odd: string}`, "exclude_columns: [secret]")
	p.edit("memory: 256MiB", first)
	d := p.start()
	d.ready()
	lake := func(lakeSQL, sourceSQL string) {
		t.Helper()
		want, err := rows(t.Context(), p.source.URL(), sourceSQL)
		if err != nil {
			t.Fatal(err)
		}
		d.eventually(time.Minute, "the lake to give what the source does to "+sourceSQL, func() (bool, string) {
			got, err := rows(t.Context(), p.lakeURL(), lakeSQL)
			if err != nil {
				return false, err.Error()
			}
			return fmt.Sprint(got) == fmt.Sprint(want), difference(want, got)
		})
	}
	one, whole := "SELECT id, trim_scale(price::numeric(10,2)), odd::text, big FROM one", "SELECT n FROM whole"
	lake("SELECT * FROM one", one)
	lake("SELECT * FROM whole", whole)
	p.source.Exec(t, `UPDATE one SET secret = 't' WHERE id = 1; UPDATE one SET price = 7.007, secret = 'u' WHERE id = 2; INSERT INTO one VALUES ('v', 100, 1, 1.50, 'b');
		DELETE FROM one WHERE id = 3; DELETE FROM whole WHERE secret = 's4'; UPDATE whole SET secret = 'z' WHERE n = 3; INSERT INTO whole VALUES (50, 's')`)
	lake("SELECT * FROM one", one)
	lake("SELECT * FROM whole", whole)
	p.source.Exec(t, "ALTER TABLE one ADD more int DEFAULT 5; UPDATE one SET big = 'c' WHERE id = 4")
	lake("SELECT * FROM one", "SELECT id, trim_scale(price::numeric(10,2)), odd::text, big, more FROM one")
	d.stop(15)
	p.edit(first, settings(`numeric: {price: string}`, "exclude_columns: []"))
	d = p.start()
	lake("SELECT secret, id, price, odd::float8, big, more FROM one", "SELECT secret, id, price::text, odd::float8, big, more FROM one")
	lake("SELECT * FROM whole", "SELECT * FROM whole")
}

// TestRowsFromBeforeAColumnReadItsDefaultOfAnyType: Postgres stores no such value in the rows, and the stream sends none.
func TestRowsFromBeforeAColumnReadItsDefaultOfAnyType(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.ForTest(t), `CREATE TYPE pair AS (a int, b text, c bytea); CREATE EXTENSION IF NOT EXISTS hstore;
		CREATE TABLE items (id int PRIMARY KEY, v text); INSERT INTO items SELECT g, 'v' || g FROM generate_series(1, 3) g`)
	d := p.start()
	d.ready()
	p.source.Exec(t, `ALTER TABLE items
			ADD boolean boolean DEFAULT true, ADD int2 int2 DEFAULT -7, ADD int8 int8 DEFAULT 9007199254740993, ADD float8 float8 DEFAULT 'NaN',
			ADD "numeric" numeric(12,3) DEFAULT -1.5, ADD "text" text DEFAULT 'it''s "so" \, {é}', ADD bytea bytea DEFAULT '\x00ff5c22', ADD uuid uuid DEFAULT 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
			ADD date date DEFAULT '2024-02-29', ADD "time" time DEFAULT '23:59:59.999999', ADD "timestamp" timestamp DEFAULT '2024-02-29 01:02:03.456', ADD "timestamptz" timestamptz DEFAULT '2024-02-29 01:02:03.456+02',
			ADD "interval" interval DEFAULT '1 month -2 days 03:04:05', ADD jsonb jsonb DEFAULT '{"a": [1, "x\"y"]}',
			ADD ints int[] DEFAULT '{1,NULL,3}', ADD texts text[] DEFAULT '{"a \"b\"","c\\d",NULL,"",é}', ADD times timestamptz[] DEFAULT '{2024-02-29 01:02:03+00}',
			ADD one pair DEFAULT '(2,"x ""y"" \\z",)', ADD empty pair DEFAULT '(,,)', ADD pairs pair[] DEFAULT array[row(1, 'a,b', '\x5c')::pair, NULL],
			ADD hstore hstore DEFAULT 'a=>1, "b \"c"=>NULL';
		UPDATE items SET v = 'changed' WHERE id = 2`)
	p.same(d, "items")
}
