package queryd

import (
	"fmt"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/test/postgres"
)

// wide makes a table of ten columns and n rows in files of a million.
func wide(b *testing.B, l *testLake, n int) *testTable {
	b.Helper()
	db := postgres.ForTest(b).Database(b)
	db.Exec(b, fmt.Sprintf(`CREATE TABLE wide(id bigint PRIMARY KEY, a int, b int, c float8, d numeric(12,2), e text, f text, g timestamptz, h date, i bool);
		INSERT INTO wide SELECT g, g %% 100, g / 7, g * 1.1, g * 1.25, 'text ' || g, md5(g::text), '2026-01-01'::timestamptz + g * interval '1 s', '2026-01-01'::date + g %% 1000, g %% 2 = 0 FROM generate_series(1, %d) g`, n))
	return l.copyTable(db, "public", "wide")
}

func drain(b *testing.B, conn *pgx.Conn, sql string) (rows int) {
	b.Helper()
	r := conn.PgConn().Exec(b.Context(), sql)
	for r.NextResult() {
		reader := r.ResultReader()
		for reader.NextRow() {
			rows++
		}
	}
	ok(b, r.Close())
	return rows
}

// BenchmarkMillionRows sends a million rows of ten columns to a client, and in the other run only computes them.
func BenchmarkMillionRows(b *testing.B) {
	l := newLake(b)
	wide(b, l, 1_000_000)
	conn := l.connect()
	b.Run("to a client", func(b *testing.B) {
		for b.Loop() {
			if n := drain(b, conn, "SELECT * FROM wide"); n != 1_000_000 {
				b.Fatal(n)
			}
		}
	})
	b.Run("scan alone", func(b *testing.B) {
		c, err := l.server.engine.db.Conn(b.Context())
		ok(b, err)
		defer c.Release()
		for b.Loop() {
			s, err := c.Prepare(b.Context(), "SELECT * FROM "+lakeSchema+".v1")
			ok(b, err)
			rows, err := s.Execute(b.Context())
			ok(b, err)
			n := 0
			for {
				var chunk *duck.Chunk
				if chunk, err = rows.Next(b.Context()); chunk == nil {
					break
				}
				n += chunk.Rows
			}
			if ok(b, err); n != 1_000_000 {
				b.Fatal(n)
			}
			rows.Close()
			s.Close()
		}
	})
}

// BenchmarkGroupByWithDeletes groups a table with 1 % of its rows deleted, and the same files without.
func BenchmarkGroupByWithDeletes(b *testing.B) {
	l := newLake(b)
	t := wide(b, l, 2_000_000)
	conn := l.connect()
	group := func(b *testing.B) {
		for b.Loop() {
			drain(b, conn, "SELECT a, count(*), sum(c), max(e) FROM wide GROUP BY a")
		}
	}
	b.Run("plain", group)
	deleted := roaring.New()
	for i := uint32(0); i < 2_000_000; i += 100 {
		deleted.Add(i)
	}
	l.commit(formats.TableChange{Table: t.ref, Deletes: map[string]*roaring.Bitmap{t.files[0].Path: deleted}})
	b.Run("1 % deleted", group)
}

// BenchmarkSmallQuery is what a query of one row costs from end to end, in pgx' modes.
func BenchmarkSmallQuery(b *testing.B) {
	l := newLake(b)
	wide(b, l, 10_000)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
		b.Run(mode.String(), func(b *testing.B) {
			config, err := pgx.ParseConfig(l.url())
			ok(b, err)
			config.DefaultQueryExecMode = mode
			conn, err := pgx.ConnectConfig(b.Context(), config)
			ok(b, err)
			defer conn.Close(b.Context())
			for b.Loop() {
				var e string
				ok(b, conn.QueryRow(b.Context(), "SELECT e FROM wide WHERE id = $1", 5).Scan(&e))
			}
		})
	}
}
