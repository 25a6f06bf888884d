package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

func heading(text string) { fmt.Printf("\n== %s ==\n", text) }

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func since(t time.Time) string { return time.Since(t).Round(10 * time.Millisecond).String() }

// consistent sums each table on its own: whole transactions keep the four sums equal at every moment (promise 3).
const consistent = `select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers),
       (select sum(bbalance) from pgbench_branches), (select coalesce(sum(delta), 0) from pgbench_history)`

// questions are asked of source and lake.
var questions = []string{
	"select count(*), sum(abalance), min(abalance), max(abalance) from pgbench_accounts",
	"select b.bid, b.bbalance, count(*), sum(h.delta) from pgbench_branches b join pgbench_history h on h.bid = b.bid group by b.bid, b.bbalance order by b.bid",
	"select tid, count(*), sum(delta) from pgbench_history group by tid order by 3 desc, 1 limit 3",
	"select aid, abalance from pgbench_accounts where abalance <> 0 order by abalance desc, aid limit 3",
}

// show runs the traffic and asks the questions.
func (d *demo) show(ctx context.Context) error {
	heading("Live traffic")
	if err := d.traffic(ctx, firstTraffic); err != nil {
		return err
	}
	heading("The same questions to both")
	if err := d.compare(ctx); err != nil {
		return err
	}
	then, err := d.source.one(ctx, "select clock_timestamp()")
	if err != nil {
		return err
	}
	rowsThen, err := d.source.one(ctx, "select count(*) from pgbench_history")
	if err != nil {
		return err
	}
	heading("More traffic, and a purge of accounts")
	if err := d.source.run(ctx, "delete from pgbench_accounts where aid % 1000 = 0 and abalance = 0"); err != nil {
		return err
	}
	if err := d.traffic(ctx, secondTraffic); err != nil {
		return err
	}
	if err := d.compare(ctx); err != nil {
		return err
	}
	return d.travel(ctx, then, rowsThen)
}

// traffic runs live traffic for a while and tells the lag meanwhile.
func (d *demo) traffic(ctx context.Context, length time.Duration) error {
	t := startTraffic(ctx, d.postgres.URL())
	defer t.stop()
	end := time.After(length)
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			running = false
		case <-tick.C:
			if err := d.glance(ctx, t); err != nil {
				return err
			}
		}
	}
	n, err := t.end()
	if err == nil {
		say("%d transactions of four changes each in %s.", n, length)
	}
	return err
}

// glance tells how far the lake is behind, and proves that it shows whole transactions only.
func (d *demo) glance(ctx context.Context, t *traffic) error {
	rows, _, err := d.lake.query(ctx, consistent)
	if err != nil {
		return err
	}
	for _, sum := range rows[0][1:] {
		if sum != rows[0][0] {
			return fmt.Errorf("the lake shows half a transaction: sums of accounts, tellers, branches and history are %s", strings.Join(rows[0], ", "))
		}
	}
	source, err := d.source.one(ctx, "select count(*) from pgbench_history")
	if err != nil {
		return err
	}
	lake, err := d.lake.one(ctx, "select count(*) from pgbench_history")
	if err != nil {
		return err
	}
	s, err := d.daemon.standing(ctx)
	if err != nil {
		return err
	}
	say("  source %6s transactions, lake %6s, lag %4.1f s, checkpoint %d; the four tables' sums agree in the lake: %s", source, lake, max(0, s.Lag.Seconds), s.Status.Checkpoint, rows[0][0])
	return nil
}

// compare waits until the lake holds what the source has now, and asks both the questions.
func (d *demo) compare(ctx context.Context) error {
	began := time.Now()
	want, err := d.source.one(ctx, "select count(*) from pgbench_history")
	if err != nil {
		return err
	}
	err = d.daemon.await(ctx, time.Minute, "level with the source", func() (bool, error) {
		got, err := d.lake.one(ctx, "select count(*) from pgbench_history")
		return got == want, err
	})
	if err != nil {
		return err
	}
	say("The lake was level %s after the last transaction.", since(began))
	var differ []string
	for _, q := range questions {
		here, hereTook, err := d.source.query(ctx, q)
		if err != nil {
			return err
		}
		there, thereTook, err := d.lake.query(ctx, q)
		if err != nil {
			return err
		}
		say("\n> %s", q)
		say("  Postgres %8.1f ms   %s", ms(hereTook), table(here))
		say("  lake     %8.1f ms   %s", ms(thereTook), table(there))
		if slices.EqualFunc(here, there, slices.Equal) {
			say("  equal")
		} else {
			say("  DIFFERENT")
			differ = append(differ, q)
		}
	}
	if len(differ) > 0 {
		return errors.New("source and lake differ in: " + strings.Join(differ, "; "))
	}
	return nil
}

// travel counts rows as of an earlier moment.
func (d *demo) travel(ctx context.Context, then, rowsThen string) error {
	heading("Time travel")
	q := "select count(*) from pgbench_history at (timestamp => '" + then + "'::timestamptz)"
	got, err := d.lake.one(ctx, q)
	if err != nil {
		return err
	}
	now, err := d.lake.one(ctx, "select count(*) from pgbench_history")
	if err != nil {
		return err
	}
	say("> %s\n  %s then, %s now", q, got, now)
	if got != rowsThen {
		return fmt.Errorf("as of %s the lake shows %s rows, and the source had %s", then, got, rowsThen)
	}
	say("  equal to what Postgres had then")
	return nil
}

// table writes a small result in one line.
func table(rows [][]string) string {
	lines := make([]string, len(rows))
	for i, row := range rows {
		lines[i] = strings.Join(row, " | ")
	}
	return strings.Join(lines, "  /  ")
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
