package endtoend

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/streambed/streambed/test/postgres"
)

//go:embed testdata/tpch.sql
var tpchQueries string

var tpchScale = flag.Float64("tpch", 0.01, "the scale of TPC-H's tables")

// TestTPCHGivesPostgresAnswers copies some of TPC-H's tables and streams the others, and asks its 22 queries of the source
// and of the lake.
func TestTPCHGivesPostgresAnswers(t *testing.T) {
	t.Parallel()
	data := newTPCH(*tpchScale)
	p := newPipeline(t, postgres.ForTest(t, "wal_level=logical"), tpchTables)
	source := connectTo(t, p.source.URL())
	load(t, source, data.base())
	d := p.start()
	d.ready()
	load(t, source, data.orders())
	if _, err := source.Exec(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
	// As the smallest commit of others would be: lines that are changed and deleted afterwards.
	if _, err := source.Exec(t.Context(), "UPDATE lineitem SET l_quantity = l_quantity + 1 WHERE l_orderkey % 50 = 1; DELETE FROM orders WHERE o_orderkey % 200 = 2"); err != nil {
		t.Fatal(err)
	}
	lake := connectTo(t, "postgres://analyst@"+p.query+"/lake?sslmode=disable")
	var at string
	if err := source.QueryRow(t.Context(), "SELECT pg_current_wal_lsn()::text").Scan(&at); err != nil {
		t.Fatal(err)
	}
	if _, err := lake.Exec(t.Context(), "SET streambed.wait_timeout = '10min'; SET streambed.wait_for_lsn = '"+at+"'"); err != nil {
		t.Fatal(err)
	}
	for number, sql := range splitQueries(tpchQueries) {
		want, err := answer(t.Context(), source, sql)
		if err != nil {
			t.Fatalf("query %d on Postgres: %v", number+1, err)
		}
		if len(want.Rows) == 0 {
			t.Errorf("query %d has no answer in Postgres, and so proves nothing", number+1)
		}
		got, err := answer(t.Context(), lake, sql)
		if err != nil {
			t.Errorf("query %d: %v", number+1, err)
			continue
		}
		if difference := compareAnswers(want, got); difference != "" {
			t.Errorf("query %d: %s", number+1, difference)
		}
	}
}

func connectTo(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// splitQueries gives the statements of a file whose comments are lines of their own.
func splitQueries(text string) (queries []string) {
	for _, q := range strings.Split(text, ";\n") {
		var lines []string
		for _, line := range strings.Split(q, "\n") {
			if !strings.HasPrefix(line, "--") {
				lines = append(lines, line)
			}
		}
		if q := strings.TrimSpace(strings.Join(lines, "\n")); q != "" {
			queries = append(queries, q)
		}
	}
	return queries
}

func answer(ctx context.Context, conn *pgx.Conn, sql string) (*pgconn.Result, error) {
	results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	return results[0], results[0].Err
}

// compareAnswers wants the same rows in the same order; where the lake computes in floating point, within 1e-9 of the
// source's value.
func compareAnswers(want, got *pgconn.Result) string {
	if len(want.Rows) != len(got.Rows) {
		return fmt.Sprintf("%d rows, Postgres has %d", len(got.Rows), len(want.Rows))
	}
	if len(want.FieldDescriptions) != len(got.FieldDescriptions) {
		return fmt.Sprintf("%d columns, Postgres has %d", len(got.FieldDescriptions), len(want.FieldDescriptions))
	}
	for i, f := range want.FieldDescriptions {
		if g := got.FieldDescriptions[i].Name; g != f.Name {
			return fmt.Sprintf("column %d is named %s, in Postgres %s", i+1, g, f.Name)
		}
	}
	for i, row := range want.Rows {
		for k, w := range row {
			if g := got.Rows[i][k]; !sameValue(string(w), string(g), want.FieldDescriptions[k].DataTypeOID, got.FieldDescriptions[k].DataTypeOID) {
				return fmt.Sprintf("row %d, %s is %s, in Postgres %s", i+1, want.FieldDescriptions[k].Name, g, w)
			}
		}
	}
	return ""
}

func sameValue(want, got string, wantType, gotType uint32) bool {
	if want == got {
		return true
	}
	if wantType == pgtype.Float8OID || gotType == pgtype.Float8OID {
		w, err1 := strconv.ParseFloat(want, 64)
		g, err2 := strconv.ParseFloat(got, 64)
		return err1 == nil && err2 == nil && math.Abs(w-g) <= 1e-9*math.Max(math.Abs(w), math.Abs(g))
	}
	if wantType == pgtype.NumericOID || gotType == pgtype.NumericOID {
		w, ok1 := new(big.Rat).SetString(want)
		g, ok2 := new(big.Rat).SetString(got)
		return ok1 && ok2 && w.Cmp(g) == 0
	}
	return false
}
