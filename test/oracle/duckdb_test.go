package oracle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/test/duckdb"
)

// earlier is the number of snapshots before the newest at which other readers must agree in the end; fewer while the
// history goes on.
const earlier = 10

// stock is DuckDB with its own ducklake extension.
type stock struct {
	*duckdb.Process
	// catalog is the same one, for what only it tells.
	catalog *sql.DB
	folder  string
}

// openStock gives nil where DuckDB cannot be had; run has then said so.
func (h *history) openStock() (*stock, error) {
	if _, err := duckdb.Python(); err != nil {
		return nil, nil
	}
	driver, name := "pgx", h.settings.Catalog
	if path, ok := strings.CutPrefix(name, "sqlite://"); ok {
		driver, name = "sqlite", "file:"+path+"?_pragma=busy_timeout(5000)"
	}
	catalog, err := sql.Open(driver, name)
	if err != nil {
		return nil, err
	}
	process, err := duckdb.Start(h.settings.Catalog)
	if err != nil {
		return nil, errors.Join(err, catalog.Close())
	}
	return &stock{process, catalog, h.t.TempDir()}, nil
}

func (s *stock) close() {
	_ = s.Process.Close()
	_ = s.catalog.Close()
}

// skipWithoutDuckDB names what is not checked where DuckDB cannot be had.
func skipWithoutDuckDB(t *testing.T) {
	if _, err := duckdb.Python(); err != nil {
		t.Run("DuckDB's own ducklake reader", func(t *testing.T) { t.Skipf("it cannot be had: %v", err) })
	}
}

// content reads a table of a view. DuckDB writes what it reads to a Parquet file, so that no value goes through text.
func (s *stock) content(ctx context.Context, view *formats.View, shown *formats.ViewTable) (*content, error) {
	var snapshot int64
	if err := s.catalog.QueryRowContext(ctx, `SELECT snapshot FROM streambed_checkpoints WHERE checkpoint <= $1 ORDER BY checkpoint DESC LIMIT 1`,
		view.Checkpoint).Scan(&snapshot); err != nil {
		return nil, err
	}
	var schema, table string
	if err := s.catalog.QueryRowContext(ctx, `SELECT s.schema_name, t.table_name FROM ducklake_table t JOIN ducklake_schema s ON s.schema_id = t.schema_id
		WHERE t.table_id = $1 AND t.begin_snapshot <= $2 AND (t.end_snapshot IS NULL OR t.end_snapshot > $2)`,
		strings.Split(shown.Pointer, "/")[1], snapshot).Scan(&schema, &table); err != nil {
		return nil, fmt.Errorf("its name at snapshot %d: %w", snapshot, err)
	}
	from := fmt.Sprintf("lake.%s.%s AT (VERSION => %d)", ident(schema), ident(table), snapshot)
	fields := shown.Schema.Fields()
	var names, ids, shownAs []string
	for i, f := range fields {
		name := fmt.Sprint("c", i)
		names = append(names, name)
		if f.Type.Kind == types.JSON { // Parquet's JSON is bytes to Arrow
			name = fmt.Sprintf("%[1]s::varchar AS %[1]s", name)
		}
		shownAs = append(shownAs, name)
		ids = append(ids, fmt.Sprintf("c%d: %s", i, fieldIDs(f)))
	}
	path := filepath.Join(s.folder, "read.parquet")
	written, err := s.Query(fmt.Sprintf("COPY (SELECT %s FROM (SELECT * FROM %s) AS x(%s)) TO '%s' (FORMAT parquet, FIELD_IDS {%s})",
		strings.Join(shownAs, ", "), from, strings.Join(names, ", "), path, strings.Join(ids, ", ")))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	counted, err := s.Query("SELECT count(*) FROM " + from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if *counted[0][0] != *written[0][0] {
		return nil, fmt.Errorf("%s: count(*) is %s, but it has %s rows", from, *counted[0][0], *written[0][0])
	}
	rows, err := strconv.ParseInt(*written[0][0], 10, 64)
	if err != nil {
		return nil, err
	}
	store, err := storage.NewLocal("file://" + s.folder)
	if err != nil {
		return nil, err
	}
	c := newContent(true)
	return c, (&lake{store: store}).file(ctx, formats.ScanFile{Path: "file://" + path, Rows: rows}, fields, nil, c.add)
}

// fieldIDs says, as DuckDB's COPY wants it, which ids a field and those below it get.
func fieldIDs(f types.Field) string {
	if len(f.Type.Fields) == 0 {
		return fmt.Sprint(f.ID)
	}
	all := []string{fmt.Sprintf("__duckdb_field_id: %d", f.ID)}
	for _, child := range f.Type.Fields {
		all = append(all, ident(child.Name)+": "+fieldIDs(child))
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// points are the checkpoints at which readers are compared: the newest, those of rest, of which all rows are known to be
// the source's, and random ones.
func (h *history) points(newest int64, n int) []int64 {
	points := []int64{newest}
	for _, r := range h.rests {
		if len(points) <= max(n, 1) {
			points = append(points, r.checkpoint)
		}
	}
	random := rand.New(rand.NewPCG(uint64(newest), uint64(n)))
	for len(points) <= n {
		points = append(points, 1+random.Int64N(newest))
	}
	return points
}

// compareDuckLake holds what the query server and DuckDB's own reader read, now and at earlier snapshots, against our
// reader's rows; and of those the books against the source's log at the snapshot's position (promises 3 and 11). The
// pipeline must not run.
func (h *history) compareDuckLake(ctx context.Context, n int) error {
	view, err := h.lake.reader.Current(ctx)
	if err != nil {
		return err
	}
	j, err := readJournal(ctx, h.conn)
	if err != nil {
		return err
	}
	conn, end, err := h.duck(ctx)
	if err != nil {
		return err
	}
	defer end()
	reader, err := h.openStock()
	if err != nil {
		return err
	}
	if reader != nil {
		defer reader.close()
	}
	compared := 0
	for _, point := range h.points(view.Checkpoint, n) {
		then, err := h.lake.reader.At(ctx, view, formats.Point{Checkpoint: point})
		if errors.Is(err, formats.ErrExpired) {
			continue
		}
		if err != nil {
			return err
		}
		for i := range then.Tables {
			if err := h.compareAt(ctx, conn, reader, then, &then.Tables[i]); err != nil {
				return fmt.Errorf("table %s as of checkpoint %d: %w", then.Tables[i].Name.Table, point, err)
			}
			compared++
		}
		if find(then, "acct_a") == nil || find(then, "acct_b") == nil || find(then, "ledger") == nil {
			continue
		}
		books, err := h.lake.readBooks(ctx, then)
		if err != nil {
			return err
		}
		if d := j.at(then.Position).difference(books); d != "" {
			return fmt.Errorf("checkpoint %d is not the source at %s: %s", point, then.Position, d)
		}
	}
	h.tell("%d tables compared, of checkpoints up to %d", compared, view.Checkpoint)
	return nil
}

func (h *history) compareAt(ctx context.Context, conn *pgx.Conn, reader *stock, view *formats.View, shown *formats.ViewTable) error {
	want, err := h.lake.content(ctx, view, shown.Name.Table)
	if errors.Is(err, formats.ErrNoSuchTable) {
		return nil // not shown yet
	}
	if err != nil {
		return err
	}
	is, err := decoded(ctx, conn, fmt.Sprintf("public.%s at (version => %d)", ident(shown.Name.Table), view.Checkpoint), &shown.Schema, h.duckLake)
	if err != nil {
		return fmt.Errorf("the query server does not read it: %w", err)
	}
	if d := difference(want, is); d != "" {
		return fmt.Errorf("the query server reads it otherwise: %s", d)
	}
	if reader == nil {
		return nil
	}
	if is, err = reader.content(ctx, view, shown); err != nil {
		return fmt.Errorf("DuckDB's own reader does not read it: %w", err)
	}
	if d := difference(want, is); d != "" {
		return fmt.Errorf("DuckDB's own reader reads it otherwise: %s", d)
	}
	return nil
}

// maintainedByDuckDB has DuckDB do its own maintenance while the pipeline is away, and the pipeline go on.
func (h *history) maintainedByDuckDB() error {
	ctx := h.t.Context()
	if err := h.stop(); err != nil {
		return err
	}
	if err := h.compareDuckLake(ctx, 0); err != nil {
		return fmt.Errorf("before DuckDB's maintenance: %w", err)
	}
	reader, err := h.openStock()
	if err != nil || reader == nil {
		return errors.Join(err, h.start())
	}
	defer reader.close()
	for _, call := range []string{
		// First: DuckDB 1.5.5 cannot rewrite files while rows are inlined under older schemas that lack a column.
		"CALL ducklake_flush_inlined_data('lake')",
		"CALL ducklake_merge_adjacent_files('lake')",
		"CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.1)",
		"CALL ducklake_cleanup_old_files('lake', cleanup_all => true)",
	} {
		h.tell("%s", call)
		if _, err := reader.Query(call); err != nil {
			return fmt.Errorf("%s: %w", call, err)
		}
		if err := h.compareDuckLake(ctx, 0); err != nil {
			return fmt.Errorf("after %s: %w", call, err)
		}
	}
	if err := h.start(); err != nil {
		return err
	}
	if err := h.phase(); err != nil {
		return fmt.Errorf("after DuckDB's maintenance: %w", err)
	}
	if err := h.start(); err != nil {
		return err
	}
	if err := h.settle(); err != nil {
		return fmt.Errorf("at rest after DuckDB's maintenance: %w", err)
	}
	return nil
}
