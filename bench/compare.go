package main

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"
)

// checksum is a number of rows and a sum over them in which order does not matter.
type checksum struct {
	Rows int64  `json:"rows"`
	Sum  uint64 `json:"sum"`
}

// Write takes COPY's text form in any pieces; it sums whole lines.
type checksumWriter struct {
	checksum
	part []byte // of a line whose end has not come
}

func (w *checksumWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, whole := bytes.Cut(p, []byte{'\n'})
		if !whole {
			w.part = append(w.part, p...)
			return n, nil
		}
		if len(w.part) > 0 {
			line = append(w.part, line...)
		}
		h := fnv.New64a()
		h.Write(line)
		w.Sum += h.Sum64()
		w.Rows++
		w.part, p = w.part[:0], rest
	}
}

// sumTable reads the whole table from a server, source and lake alike.
func sumTable(ctx context.Context, url string) (checksum, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return checksum{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "SET timezone = 'UTC'"); err != nil {
		return checksum{}, err
	}
	var w checksumWriter
	if _, err := conn.PgConn().CopyTo(ctx, &w, "COPY (SELECT "+columns+" FROM public.orders) TO STDOUT"); err != nil {
		return checksum{}, err
	}
	if len(w.part) > 0 {
		return checksum{}, fmt.Errorf("the last row has no end: %q", w.part)
	}
	return w.checksum, nil
}

// same compares all rows of source and lake.
func same(ctx context.Context, source, lake string) (checksum, error) {
	want, err := sumTable(ctx, source)
	if err != nil {
		return want, fmt.Errorf("reading the source: %w", err)
	}
	got, err := sumTable(ctx, lake)
	if err != nil {
		return got, fmt.Errorf("reading the lake: %w", err)
	}
	if got != want {
		return got, fmt.Errorf("the lake is wrong: it holds %d rows with sum %016x, the source %d with %016x", got.Rows, got.Sum, want.Rows, want.Sum)
	}
	return got, nil
}
