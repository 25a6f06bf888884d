package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// tenth updates every tenth row in one statement: a correction, or a nightly job.
var tenth = workload{
	name:   "tenth",
	about:  "one UPDATE of every tenth row",
	filled: true,
	cut:    func(s scale) int64 { return max(1, s.Rows/10) },
	run: func(ctx context.Context, conn *pgx.Conn, _ scale) (int64, error) {
		tag, err := conn.Exec(ctx, "UPDATE public.orders SET status = 'paid', amount = amount + 1 WHERE id % 10 = 0")
		return tag.RowsAffected(), err
	},
}
