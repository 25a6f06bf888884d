package snapshot

import (
	"errors"
	"testing"

	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/source"
	"github.com/streambed/streambed/test/postgres"
)

// A chunk is read by names: had the table been altered since its schema was read, values would land in other columns, or
// be read as another type, and nothing would ever tell (promise 4).
func TestAChunkIsNotReadByTheColumnsOfAnEarlierMoment(t *testing.T) {
	for alteration, changed := range map[string]bool{
		"SELECT 1":                           false,
		"ALTER TABLE t ADD COLUMN more text": false, // the stream will tell
		"ALTER TABLE t ALTER COLUMN w TYPE text USING 'x'":                                                                         true,
		"ALTER TABLE t RENAME a TO x; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME x TO b":                                    true,
		"ALTER TABLE t DROP COLUMN w; ALTER TABLE t ADD COLUMN w bytea":                                                            true,
		"ALTER TABLE t ALTER COLUMN n TYPE numeric(12,4)":                                                                          true,
		"ALTER TABLE parts RENAME a TO x; ALTER TABLE parts RENAME b TO a; ALTER TABLE parts RENAME x TO b":                        true,
		"CREATE TABLE t2 (LIKE t); ALTER TABLE t ALTER COLUMN a SET DEFAULT 'x'; COMMENT ON TABLE t IS 'x'; CREATE INDEX ON t (a)": false,
	} {
		t.Run(alteration, func(t *testing.T) {
			d := postgres.ForTest(t).Database(t)
			d.Exec(t, `CREATE DOMAIN money2 AS numeric(10,2);
				CREATE TABLE t (id int PRIMARY KEY, a text, b text, w bytea, v varchar(20), n numeric(10,2), d money2, l text[]);
				CREATE TABLE parts (id int PRIMARY KEY, a text, b text) PARTITION BY RANGE (id);
				CREATE TABLE leaf (b text, id int NOT NULL, a text); ALTER TABLE parts ATTACH PARTITION leaf DEFAULT`)
			cfg := &source.Config{URL: d.URL(), Slot: "s", Publication: "p", Tables: []string{"public.t", "public.parts"}}
			conn, err := source.Connect(t.Context(), d.URL(), "test")
			if err != nil {
				t.Fatal(err)
			}
			defer source.CloseConn(conn)
			tables, err := source.Discover(t.Context(), conn, cfg)
			if err != nil || len(tables) != 2 {
				t.Fatal(tables, err)
			}
			d.Exec(t, alteration)
			found := false
			for i := range tables {
				c := &Copier{table: &tables[i]}
				c.state.Schema = tables[i].Schema(types.Options{}, nil)
				list, _ := selectList(&c.state.Schema)
				err := c.checkColumns(t.Context(), conn, list)
				if err != nil && !errors.Is(err, ErrChanged) {
					t.Fatal(err)
				}
				found = found || err != nil
			}
			if found != changed {
				t.Errorf("changed: %t, want %t", found, changed)
			}
		})
	}
}
