package main

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// reads are the queries that are timed once the lake holds everything.
var reads = []struct{ name, sql string }{
	{"count", "SELECT count(*) FROM public.orders"},
	{"aggregate", "SELECT status, urgent, count(*), sum(amount), avg(quantity), max(updated) FROM public.orders GROUP BY status, urgent"},
	{"one row", "SELECT * FROM public.orders WHERE id = 4711"},
}

// readTimes give the middle of three runs of each query, in seconds.
func readTimes(ctx context.Context, url string) ([]float64, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var out []float64
	for _, q := range reads {
		var runs []time.Duration
		for range 3 {
			began := time.Now()
			if _, err := conn.PgConn().Exec(ctx, q.sql).ReadAll(); err != nil {
				return nil, err
			}
			runs = append(runs, time.Since(began))
		}
		slices.Sort(runs)
		out = append(out, runs[1].Seconds())
	}
	return out, nil
}
