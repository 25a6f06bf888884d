package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// scale is how large a run is.
type scale struct {
	// Rows are in the table that changes, or come into it when the workload appends.
	Rows int64 `json:"rows"`
	// Changes are rows updated one by one.
	Changes int64 `json:"changes"`
	// Cut is the number of changed rows after which they become visible, for workloads of single rows.
	Cut int64 `json:"cut"`
}

// workload is one pattern of changes of the table public.orders.
type workload struct {
	name, about string
	// filled tells whether the table holds scale.Rows rows before, which are copied first and not measured.
	filled bool
	// cut is the flush.rows of the daemon.
	cut func(scale) int64
	// run commits the changes and gives how many rows they change. It begins with its first change: time counts from its
	// call.
	run func(context.Context, *pgx.Conn, scale) (int64, error)
}

// workloads are all there are, in the order of the report.
var workloads = []workload{appendRows, tenth, trickle}
