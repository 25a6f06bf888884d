package queryd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/streambed/streambed/test/postgres"
)

// TestToolsStatementsAreAnswered plays what graphical tools ask, one file a tool, against the lake and against a Postgres
// with the same tables: each statement must be answered, with columns of the same names. In the first lines of a file is
// what it was made from.
func TestToolsStatementsAreAnswered(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	db.Exec(t, clientTables)
	for _, table := range []string{"types", "lines", "Mixed Case"} {
		l.copyTable(db, "public", table)
	}
	files, err := filepath.Glob("testdata/tools/*.sql")
	ok(t, err)
	if len(files) < 5 {
		t.Fatalf("%d files of statements", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".sql"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			ok(t, err)
			pg, err := pgconn.Connect(t.Context(), db.URL())
			ok(t, err)
			defer pg.Close(t.Context())
			lake, err := pgconn.Connect(t.Context(), l.url())
			ok(t, err)
			defer lake.Close(t.Context())
			for _, line := range strings.Split(string(text), "\n") {
				sql := strings.TrimSuffix(strings.TrimSpace(line), ";")
				if sql == "" || strings.HasPrefix(sql, "--") {
					continue
				}
				want, err := columnsOf(t, pg, sql)
				if err != nil {
					t.Errorf("not a statement of Postgres: %s: %v", sql, err)
					continue
				}
				got, err := columnsOf(t, lake, sql)
				if err != nil {
					t.Errorf("%s\n%v", sql, err)
				} else if want != got {
					t.Errorf("%s\nhas the columns %s, in Postgres %s", sql, got, want)
				}
			}
		})
	}
}

// columnsOf runs a statement and gives its columns' names, without those that only some versions of Postgres have.
func columnsOf(t *testing.T, conn *pgconn.PgConn, sql string) (string, error) {
	t.Helper()
	results := conn.Exec(t.Context(), sql)
	var names []string
	for results.NextResult() {
		names = nil
		rows := results.ResultReader()
		for _, f := range rows.FieldDescriptions() {
			names = append(names, f.Name)
		}
		_, _ = rows.Close() // its error comes with results'
	}
	if err := results.Close(); err != nil {
		return "", err
	}
	if strings.Contains(sql, "*") {
		return "all", nil // the catalog's relations may have more or fewer
	}
	return strings.Join(names, ", "), nil
}
