package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/test/postgres"
)

// createMarker makes a table that takes one row before the time begins.
const createMarker = "CREATE TABLE public.marker (id int PRIMARY KEY)"

// columns of the table public.orders. Their values have one text form in any engine, so that sums over text compare them.
const columns = "id, customer, status, amount, quantity, ref, urgent, note, created, updated"

const createOrders = `
CREATE TABLE public.orders (
	id bigint PRIMARY KEY, customer int NOT NULL, status text NOT NULL, amount numeric(12,2), quantity int, ref uuid, urgent boolean,
	note text, created timestamptz NOT NULL, updated timestamptz)`

// insertOrders makes the rows from one id to another.
func insertOrders(from, to int64) string {
	return fmt.Sprintf(`INSERT INTO public.orders
SELECT g, g * 7919 %% 50000, (ARRAY['new','paid','sent'])[1 + g %% 3], (g %% 100000) / 100.0, g %% 9, md5(g::text)::uuid, g %% 5 = 0,
	'order ' || g, '2026-01-01'::timestamptz + g * interval '1 second', CASE WHEN g %% 4 > 0 THEN '2026-02-01'::timestamptz END
FROM generate_series(%d::bigint, %d) g`, from, to)
}

// source is a database with the table, made anew for each measurement.
type source struct {
	server *postgres.Server
	name   string
	conn   *pgx.Conn
}

// startServer starts a Postgres of our own that does nothing by itself while we measure.
func startServer(ctx context.Context, version string) (*postgres.Server, error) {
	return postgres.Start(ctx, postgres.Options{Version: version, Settings: map[string]string{
		"autovacuum": "off", "shared_buffers": "512MB", "max_wal_size": "16GB", "checkpoint_timeout": "1h", "timezone": "UTC"}})
}

// newSource makes a database; when filled, with the workload's rows in it.
func newSource(ctx context.Context, server *postgres.Server, name string, s scale, filled bool) (*source, error) {
	if err := server.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, server.DatabaseURL(name))
	if err != nil {
		return nil, err
	}
	src := &source{server: server, name: name, conn: conn}
	statements := []string{createOrders, createMarker, trickleProcedure}
	if filled {
		statements = append(statements, insertOrders(1, s.Rows), "VACUUM ANALYZE public.orders")
	}
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			src.close(ctx)
			return nil, fmt.Errorf("preparing the source: %w", err)
		}
	}
	return src, nil
}

func (s *source) url() string { return s.server.DatabaseURL(s.name) }

// position is the end of what has been committed.
func (s *source) position(ctx context.Context) (lsn.LSN, error) {
	var text string
	if err := s.conn.QueryRow(ctx, "SELECT pg_current_wal_flush_lsn()::text").Scan(&text); err != nil {
		return 0, err
	}
	return lsn.Parse(text)
}

// close drops the database with its replication slot; the daemon must have ended.
func (s *source) close(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	_ = s.conn.Close(ctx)
	// What cannot be dropped goes with the server.
	_ = s.server.Exec(ctx, fmt.Sprintf("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '%s' AND NOT active", s.name))
	_ = s.server.Exec(ctx, "DROP DATABASE "+s.name+" WITH (FORCE)")
}
