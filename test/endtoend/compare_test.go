package endtoend

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// rows asks a server for rows as text, one string a row.
func rows(ctx context.Context, url, sql string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	conn, err := pgconn.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, row := range results[len(results)-1].Rows {
		fields := make([]string, len(row))
		for i, value := range row {
			fields[i] = fmt.Sprintf("%q", value)
			if value == nil {
				fields[i] = "NULL"
			}
		}
		out = append(out, strings.Join(fields, ", "))
	}
	slices.Sort(out)
	return out, nil
}

// lakeURL is the query server's.
func (p *pipeline) lakeURL() string {
	return "postgres://postgres@" + p.query + "/lake?sslmode=disable"
}

// same waits until lake and source hold the same rows in the tables.
func (p *pipeline) same(d *daemon, tables ...string) {
	p.t.Helper()
	for _, table := range tables {
		sql := "select * from " + table
		want, err := rows(p.t.Context(), p.source.URL(), sql)
		if err != nil {
			p.t.Fatal(err)
		}
		d.eventually(time.Minute, "lake and source to be the same in "+table, func() (bool, string) {
			got, err := rows(p.t.Context(), p.lakeURL(), sql)
			if err != nil {
				return false, err.Error()
			}
			return slices.Equal(got, want), difference(want, got)
		})
	}
}

// difference names some rows that only one of two sorted lists has, counting repetitions.
func difference(want, got []string) string {
	count := map[string]int{}
	for _, row := range want {
		count[row]++
	}
	for _, row := range got {
		count[row]--
	}
	var missing, extra []string
	for row, n := range count {
		for ; n > 0; n-- {
			missing = append(missing, row)
		}
		for ; n < 0; n++ {
			extra = append(extra, row)
		}
	}
	return fmt.Sprintf("source %d rows, lake %d; missing %d %.3q, extra %d %.3q", len(want), len(got), len(missing), head(missing), len(extra), head(extra))
}

func head(list []string) []string { return list[:min(3, len(list))] }

// whole asks the lake once for the sums that every whole transaction keeps: what is moved between the accounts of both
// tables, and an item for each order (promise 3).
func (p *pipeline) whole() {
	p.t.Helper()
	got, err := rows(p.t.Context(), p.lakeURL(), `select (select sum(x) from public.a) + (select sum(x) from public.b), (select count(*) from public.o) - (select count(*) from public.log)`)
	if err != nil {
		p.t.Fatal(err)
	}
	if want := []string{`"100000", "0"`}; !slices.Equal(got, want) {
		p.t.Fatalf("the lake shows half a transaction: %v, want %v", got, want)
	}
}
