package source

import (
	"fmt"
	"testing"
)

// BenchmarkThousandTables measures what the poll of a source with 1,000 tables costs, and a full discovery.
func BenchmarkThousandTables(b *testing.B) {
	f := newFixture(b)
	for i := range 10 {
		f.Exec(b, fmt.Sprintf(`DO $$ BEGIN FOR i IN 1..100 LOOP EXECUTE format('CREATE TABLE t%d_%%s
			(id int PRIMARY KEY, a text, b text, c int, d int, e numeric, f timestamptz, g uuid, h jsonb, i bool)', i); END LOOP; END $$`, i))
	}
	if err := EnsurePublications(b.Context(), f.conn, f.cfg); err != nil {
		b.Fatal(err)
	}
	b.Run("digest", func(b *testing.B) {
		for b.Loop() {
			if _, err := Digest(b.Context(), f.conn, f.cfg); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("discover", func(b *testing.B) {
		for b.Loop() {
			if _, err := Discover(b.Context(), f.conn, f.cfg); err != nil {
				b.Fatal(err)
			}
		}
	})
	tables := f.discover(b)
	b.Run("publish", func(b *testing.B) {
		for b.Loop() {
			for _, t := range tables {
				if err := AddTable(b.Context(), f.conn, f.cfg, t); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
