package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// appendBatch is the number of rows of one transaction.
const appendBatch = 1000

// appendRows fills an empty table in transactions of a thousand rows: a stream of events.
var appendRows = workload{
	name:  "append",
	about: fmt.Sprintf("new rows, %d a transaction, 10,000 a cut", appendBatch),
	cut:   func(s scale) int64 { return min(10_000, s.Rows) },
	run: func(ctx context.Context, conn *pgx.Conn, s scale) (int64, error) {
		for from := int64(1); from <= s.Rows; from += appendBatch {
			if _, err := conn.Exec(ctx, insertOrders(from, min(from+appendBatch-1, s.Rows))); err != nil {
				return 0, err
			}
		}
		return s.Rows, nil
	},
}
