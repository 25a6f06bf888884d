package queryd

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/test/postgres"
)

// wide makes a table of ten columns and n rows in files of a million.
func wide(b *testing.B, l *testLake, name string, n int) *testTable {
	b.Helper()
	db := postgres.ForTest(b).Database(b)
	db.Exec(b, fmt.Sprintf(`CREATE TABLE %[1]s(id bigint PRIMARY KEY, a int, b int, c float8, d numeric(12,2), e text, f text, g timestamptz, h date, i bool);
		INSERT INTO %[1]s SELECT g, g %% 100, g / 7, g * 1.1, g * 1.25, 'text ' || g, md5(g::text), '2026-01-01'::timestamptz + g * interval '1 s', '2026-01-01'::date + g %% 1000, g %% 2 = 0 FROM generate_series(1, %[2]d) g`, name, n))
	return l.copyTable(db, "public", name)
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

// side is what BenchmarkX compares: the same work in two ways, in turns, so that what else the machine does slows both.
type side struct {
	name string
	run  func()
}

// compare runs both sides in turns and reports how many times the time, and the processor time of this process, of the
// second the first takes. The first turn only warms up.
func compare(b *testing.B, first, second side) {
	b.Helper()
	var wall, cpu [2]time.Duration
	turn := func(warm bool) {
		for i, s := range []side{first, second} {
			begun, used := time.Now(), processorTime(b)
			s.run()
			if !warm {
				wall[i] += time.Since(begun)
				cpu[i] += processorTime(b) - used
			}
		}
	}
	turn(true)
	for b.Loop() {
		turn(false)
	}
	for i, s := range []side{first, second} {
		b.ReportMetric(float64(wall[i].Milliseconds())/float64(b.N), "ms-"+s.name)
		b.ReportMetric(float64(cpu[i].Milliseconds())/float64(b.N), "cpu-ms-"+s.name)
	}
	b.ReportMetric(float64(wall[0])/float64(wall[1]), "x-time")
	b.ReportMetric(float64(cpu[0])/float64(cpu[1]), "x-cpu")
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	ok(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkMillionRows sends a million rows of ten columns to a client, which only counts them, and compares with DuckDB's
// own scan of them. The client's processor time is in this process too.
func BenchmarkMillionRows(b *testing.B) {
	l := newLake(b)
	wide(b, l, "wide", 1_000_000)
	conn := l.connect()
	c, err := l.server.engine.db.Conn(b.Context())
	ok(b, err)
	defer c.Release()
	compare(b, side{"client", func() {
		if n := drain(b, conn, "SELECT * FROM wide"); n != 1_000_000 {
			b.Fatal(n)
		}
	}}, side{"scan", func() {
		s, err := c.Prepare(b.Context(), "SELECT * FROM "+lakeSchema+".v1")
		ok(b, err)
		defer s.Close()
		rows, err := s.Execute(b.Context())
		ok(b, err)
		defer rows.Close()
		n := 0
		for {
			chunk, err := rows.Next(b.Context())
			ok(b, err)
			if chunk == nil {
				break
			}
			n += chunk.Rows
		}
		if n != 1_000_000 {
			b.Fatal(n)
		}
	}})
}

// BenchmarkGroupByWithDeletes groups a table with 1 % of its rows deleted, and compares with read_parquet of its file.
func BenchmarkGroupByWithDeletes(b *testing.B) {
	l := newLake(b)
	t := wide(b, l, "wide", 2_000_000)
	wide(b, l, "plain", 2_000_000)
	deleted := roaring.New()
	for i := uint32(0); i < 2_000_000; i += 100 {
		deleted.Add(i)
	}
	l.commit(formats.TableChange{Table: t.ref, Deletes: map[string]*roaring.Bitmap{t.files[0].Path: deleted}})
	conn := l.connect()
	for _, q := range []struct{ name, sql string }{
		{"numbers", "SELECT a, count(*), sum(c), max(b) FROM %s GROUP BY a"},
		{"text", "SELECT a, count(*), sum(c), max(e) FROM %s GROUP BY a"},
		{"many groups", "SELECT b, count(*), sum(d) FROM %s GROUP BY b"},
	} {
		b.Run(q.name, func(b *testing.B) {
			group := func(table string) func() {
				return func() { drain(b, conn, fmt.Sprintf(q.sql, table)) }
			}
			compare(b, side{"deletes", group("wide")}, side{"plain", group("plain")})
		})
	}
}

// BenchmarkSmallQuery is what a query of one row costs from end to end, in pgx' modes.
func BenchmarkSmallQuery(b *testing.B) {
	l := newLake(b)
	wide(b, l, "wide", 10_000)
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
