package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// trickle updates single rows all over the table, each in a transaction of its own: an application at work.
var trickle = workload{
	name:   "trickle",
	about:  "UPDATEs of single rows all over the table, a transaction each",
	filled: true,
	cut:    func(s scale) int64 { return s.Cut },
	run: func(ctx context.Context, conn *pgx.Conn, s scale) (int64, error) {
		// A prime step visits the rows in a scattered order, the same in every run.
		_, err := conn.Exec(ctx, "CALL public.trickle($1, $2, 982451653)", s.Changes, s.Rows)
		return s.Changes, err
	},
}

// trickleProcedure commits at the server, so that no round trip is measured.
const trickleProcedure = `
CREATE PROCEDURE public.trickle(changes bigint, size bigint, step bigint) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..changes LOOP
		UPDATE public.orders SET quantity = quantity + 1, updated = created + i * interval '1 second' WHERE id = 1 + (i * step) % size;
		COMMIT;
	END LOOP;
END $$`
