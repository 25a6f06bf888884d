package decoder_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/decoder"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/reader"
	"github.com/streambed/streambed/test/postgres"
)

// one routes every relation to one table.
type one struct{ route *message.Route }

func (o one) Route(uint32) *message.Route { return o.route }
func (o one) Copying() []*message.Route   { return nil }

// BenchmarkStream drains a backlog of b.N rows of ten columns from a real slot, in transactions of a hundred rows. CPU is
// this process's, without Postgres.
func BenchmarkStream(b *testing.B) {
	d := postgres.ForTest(b, "synchronous_commit=off", "max_wal_size=8GB").Database(b)
	d.Exec(b, `CREATE TABLE t (id bigint PRIMARY KEY, a int, b bigint, c text, d text, e uuid, f float8, g boolean, h timestamptz, i numeric(12,2));
CREATE PUBLICATION p FOR ALL TABLES`)
	slot := "bench_" + d.Name
	start := position(b, d.Query(b, fmt.Sprintf("SELECT lsn FROM pg_create_logical_replication_slot('%s', 'pgoutput')", slot))[0][0])
	d.Exec(b, `CREATE PROCEDURE fill(n bigint) LANGUAGE plpgsql AS $$ BEGIN
FOR k IN 0 .. (n - 1) / 100 LOOP
  INSERT INTO t SELECT g, g % 1000, g * 7, md5(g::text), 'some words of text', gen_random_uuid(), g / 3.0, g % 2 = 0, now(), g % 100000 / 100.0
  FROM generate_series(k * 100, least(k * 100 + 99, n - 1)) g;
  COMMIT;
END LOOP; END $$`)
	d.Exec(b, fmt.Sprintf("CALL fill(%d)", b.N))
	end := position(b, d.Query(b, "SELECT pg_current_wal_insert_lsn()")[0][0])
	b.ReportAllocs()
	b.ResetTimer()
	before, began := usage(b), time.Now()
	rows := drain(b, d.URL(), slot, start, end)
	cpu, wall := usage(b)-before, time.Since(began)
	b.StopTimer()
	if rows != int64(b.N) {
		b.Fatalf("%d rows came, wanted %d", rows, b.N)
	}
	b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "cpu-us/row")
	b.ReportMetric(float64(b.N)/wall.Seconds(), "rows/s")
}

func usage(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// drain reads until a cut holds end, and gives the rows that came.
func drain(b *testing.B, url, slot string, start, end lsn.LSN) int64 {
	ctx, cancel := context.WithCancel(b.Context())
	budget := message.NewBudget(64<<20, nil)
	r := reader.New(reader.Config{ConnString: url, Slot: slot, Publications: []string{"p"}, Start: start, Budget: budget, Binary: true})
	table := make(chan message.TableMessage, 16)
	dec := decoder.New(decoder.Config{
		Position: start, Flush: decoder.Flush{Interval: 100 * time.Millisecond}, IdleEvery: 10 * time.Millisecond, Budget: budget,
		Router: one{&message.Route{OID: 1, C: table}},
	})
	raws, cuts := make(chan *message.Raw, 16), make(chan *message.Cut, 16)
	ended := make(chan error, 2)
	go func() { ended <- r.Run(ctx, raws) }()
	go func() { ended <- dec.Run(ctx, raws, cuts) }()
	rows, chunks := int64(0), 0
	for reached := false; !reached; {
		select {
		case m := <-table:
			if rs, ok := m.(*message.Rows); ok {
				rows += int64(len(rs.Changes))
				chunks++
				budget.Release(rs.Cost)
			}
		case c := <-cuts:
			r.Acknowledge(c.End)
			reached = c.End >= end
		case err := <-ended:
			b.Fatal(err)
		}
	}
	for len(table) > 0 {
		if rs, ok := (<-table).(*message.Rows); ok {
			rows += int64(len(rs.Changes))
		}
	}
	b.ReportMetric(float64(rows)/float64(max(1, chunks)), "rows/chunk")
	b.ReportMetric(float64(r.Messages())/float64(max(1, r.Slabs())), "messages/slab")
	cancel()
	<-ended
	<-ended
	return rows
}
