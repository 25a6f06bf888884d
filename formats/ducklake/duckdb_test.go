package ducklake_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/conformance"
	"github.com/streambed/streambed/formats/ducklake"
	"github.com/streambed/streambed/test/duckdb"
)

// python gives a Python that has DuckDB with its ducklake extension.
var python = duckdb.Python

// duckDB is a process of DuckDB with its own ducklake reader, attached to a catalog.
type duckDB struct {
	testing.TB
	process *duckdb.Process
	// catalog is the same file, for what only the catalog tells.
	catalog *sql.DB
}

// newDuckDB attaches to the catalog of a lake that has been opened. It skips the test where DuckDB cannot be had.
func newDuckDB(t testing.TB, cfg ducklake.Config) *duckDB {
	t.Helper()
	if _, err := python(); err != nil {
		t.Skipf("DuckDB's own ducklake reader cannot be had: %v", err)
	}
	driver, dsn := "pgx", cfg.Catalog
	if path, ok := strings.CutPrefix(cfg.Catalog, "sqlite://"); ok {
		driver, dsn = "sqlite", "file:"+path+"?_pragma=busy_timeout(5000)"
	}
	process, err := duckdb.Start(cfg.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	d := &duckDB{TB: t, process: process}
	if d.catalog, err = sql.Open(driver, dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.catalog.Close()
		d.process.Close()
	})
	return d
}

// try runs a statement and gives its rows; NULL is nil.
func (d *duckDB) try(statement string) ([][]*string, error) { return d.process.Query(statement) }

func (d *duckDB) query(statement string) [][]*string {
	d.Helper()
	rows, err := d.try(statement)
	if err != nil {
		d.Fatalf("%s: %v", statement, err)
	}
	return rows
}

// value gives the one value of a query.
func (d *duckDB) value(statement string) string {
	d.Helper()
	rows := d.query(statement)
	if len(rows) != 1 || len(rows[0]) != 1 || rows[0][0] == nil {
		d.Fatalf("%s gives %v", statement, rows)
	}
	return *rows[0][0]
}

func ident(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// name gives the quoted name under which DuckDB knows a view's table.
func (d *duckDB) name(vt *formats.ViewTable) string {
	d.Helper()
	var schema, table string
	err := d.catalog.QueryRow(`SELECT s.schema_name, t.table_name FROM ducklake_table t JOIN ducklake_schema s ON s.schema_id = t.schema_id
		WHERE t.table_id = $1`, strings.Split(vt.Pointer, "/")[1]).Scan(&schema, &table)
	if err != nil {
		d.Fatal(err)
	}
	return "lake." + ident(schema) + "." + ident(table)
}

// snapshot gives the DuckLake snapshot of a view.
func (d *duckDB) snapshot(view *formats.View) (id int64) {
	d.Helper()
	if err := d.catalog.QueryRow(`SELECT snapshot FROM streambed_checkpoints WHERE checkpoint <= $1 ORDER BY checkpoint DESC LIMIT 1`,
		view.Checkpoint).Scan(&id); err != nil {
		d.Fatal(err)
	}
	return id
}

// read reads one table at a view: "id: column=value ..." a row, ordered by the first column, a bigint.
func (d *duckDB) read(view *formats.View, vt *formats.ViewTable) string {
	d.Helper()
	version := strconv.FormatInt(d.snapshot(view), 10)
	rows := d.query("SELECT * FROM " + d.name(vt) + " AT (VERSION => " + version + ") ORDER BY 1")
	if n := d.value("SELECT count(*) FROM " + d.name(vt) + " AT (VERSION => " + version + ")"); n != strconv.Itoa(len(rows)) {
		d.Fatalf("%v at %s: count(*) is %s of %d rows", vt.Name, version, n, len(rows))
	}
	var b strings.Builder
	for _, row := range rows {
		if len(row) != len(vt.Schema.Columns) {
			d.Fatalf("%v at %s has %d columns, want %d", vt.Name, version, len(row), len(vt.Schema.Columns))
		}
		b.WriteString(*row[0] + ":")
		for i, c := range vt.Schema.Columns[1:] {
			v := "NULL"
			if row[i+1] != nil {
				v = *row[i+1]
			}
			b.WriteString(" " + c.Name + "=" + v)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// render writes rows as duckDB.read does.
func render(rows conformance.Rows, s *formats.Schema) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&b, "%d:", key)
		for _, c := range s.Columns[1:] {
			v, ok := rows[key][c.ID]
			if !ok {
				v = "NULL"
			}
			b.WriteString(" " + c.Name + "=" + v)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// witness is a reader that has DuckDB read whatever is planned, too.
type witness struct {
	formats.Reader
	*duckDB
	cfg ducklake.Config
	// seen are snapshots of tables; every fourth is compared.
	seen map[string]bool
}

func (w *witness) Plan(ctx context.Context, view *formats.View, name formats.TableName) (*formats.ScanPlan, error) {
	plan, err := w.Reader.Plan(ctx, view, name)
	if err != nil {
		return nil, err
	}
	for i := range view.Tables {
		vt := &view.Tables[i]
		key := fmt.Sprint(vt.Version, "@", w.snapshot(view))
		if vt.Name != name || w.seen[key] {
			continue
		}
		w.seen[key] = true
		if len(w.seen)%4 != 1 { // each takes DuckDB a tenth of a second
			continue
		}
		rows, schema := conformance.Read(w, w.Reader, w.cfg.Store, view, name)
		if got, want := w.read(view, vt), render(rows, schema); got != want {
			w.Fatalf("DuckDB reads %v at checkpoint %d as\n%swant\n%s", name, view.Checkpoint, got, want)
		}
	}
	return plan, nil
}

// TestDuckDBAgreesThroughoutConformance runs the whole suite, random histories with time travel included, with DuckDB's
// own reader beside ours (promise 11).
func TestDuckDBAgreesThroughoutConformance(t *testing.T) {
	agree(t, config)
}

// TestDuckDBAgreesOnInlinedRows does the same while every cut's rows go into the catalog, under several schema versions.
func TestDuckDBAgreesOnInlinedRows(t *testing.T) {
	agree(t, inlining)
}

func agree(t *testing.T, config func(testing.TB) ducklake.Config) {
	t.Helper()
	if _, err := python(); err != nil {
		t.Skipf("DuckDB's own ducklake reader cannot be had: %v", err)
	}
	compared := 0
	conformance.Run(t, func(t testing.TB) *conformance.Setup {
		cfg := config(t)
		s := setup(t, cfg)
		open := s.OpenReader
		var d *duckDB
		seen := map[string]bool{}
		t.Cleanup(func() { compared += len(seen) })
		s.OpenReader = func(t testing.TB) formats.Reader {
			if d == nil {
				d = newDuckDB(t, cfg)
			}
			return &witness{open(t), d, cfg, seen}
		}
		return s
	})
	if compared < 20 {
		t.Fatalf("only %d tables were compared", compared)
	}
}
