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
