package oracle

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/array"
	sqlcatalog "github.com/apache/iceberg-go/catalog/sql"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/queryd"
	"go.uber.org/zap"
)

// compareReaders holds what others read against what the lake was last found to hold, row for row: the query server, which
// has DuckDB read the Parquet files, and iceberg-go's own scanner, which knows the tables from their catalog alone.
func (h *history) compareReaders(ctx context.Context, view *formats.View) error {
	duck, end, err := h.duck(ctx)
	if err != nil {
		return err
	}
	defer end()
	db, err := sql.Open("sqlite", "file:"+h.settings.Folder+"/catalog.db?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()
	stock, err := sqlcatalog.NewCatalog("streambed", db, sqlcatalog.SQLite, nil)
	if err != nil {
		return err
	}
	last := h.rests[len(h.rests)-1].contents
	for name, want := range last {
		shown := find(view, name)
		if shown == nil {
			return fmt.Errorf("table %s is not shown any more", name)
		}
		is, err := decoded(ctx, duck, "public."+ident(name), &shown.Schema, h.duckLake)
		if err != nil {
			return fmt.Errorf("the query server does not read table %s: %w", name, err)
		}
		if d := difference(want, is); d != "" {
			return fmt.Errorf("the query server reads table %s otherwise: %s", name, d)
		}
		if want, err = h.withoutDefaults(ctx, view, name, want); err != nil {
			return err
		}
		if is, err = scanned(ctx, stock, name, &shown.Schema, want.without); err != nil {
			return fmt.Errorf("iceberg-go does not read table %s: %w", name, err)
		}
		if d := difference(want, is); d != "" {
			return fmt.Errorf("iceberg-go reads table %s otherwise: %s", name, d)
		}
	}
	return nil
}

// duck starts a query server over the lake and connects to it.
func (h *history) duck(ctx context.Context) (conn *pgx.Conn, end func(), err error) {
	server, err := queryd.New(queryd.Options{Listen: "127.0.0.1:0", Reader: h.lake.reader, Store: h.lake.store,
		TempDir: h.t.TempDir(), Memory: 256 << 20, Log: zap.NewNop()})
	if err != nil {
		return nil, nil, err
	}
	address, err := server.Listen()
	if err != nil {
		return nil, nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- server.Serve(serving) }()
	end = func() {
		if conn != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
		stop()
		<-served
		_ = server.Close()
	}
	conn, err = pgx.Connect(ctx, fmt.Sprintf("postgres://oracle@%s/lake?sslmode=disable", address))
	if err == nil {
		_, err = conn.Exec(ctx, "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'iso_8601'")
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return conn, end, nil
}

// withoutDefaults leaves the columns that came with a default out of a table's content: format 2 cannot tell other readers
// what rows of before have there.
func (h *history) withoutDefaults(ctx context.Context, view *formats.View, name string, all *content) (*content, error) {
	c := newContent(false)
	c.without = map[int]bool{}
	for _, column := range find(view, name).Schema.Columns {
		if column.Default != nil {
			c.without[column.ID] = true
		}
	}
	if len(c.without) == 0 {
		return all, nil
	}
	return c, h.lake.each(ctx, view, name, c.add)
}

// scanned reads a table by iceberg-go.
func scanned(ctx context.Context, stock *sqlcatalog.Catalog, name string, schema *formats.Schema, without map[int]bool) (*content, error) {
	t, err := stock.LoadTable(ctx, icetable.Identifier{"public", name})
	if err != nil {
		return nil, err
	}
	all, err := t.Scan().ToArrowTable(ctx)
	if err != nil {
		return nil, err
	}
	defer all.Release()
	if held := all.Schema().Fields(); len(held) != len(schema.Columns) {
		return nil, fmt.Errorf("it has %d columns, not %d", len(held), len(schema.Columns))
	}
	c := newContent(false)
	c.without = without
	r := array.NewTableReader(all, 0)
	defer r.Release()
	for r.Next() {
		for row := range int(r.RecordBatch().NumRows()) {
			if err := c.add(schema.Fields(), r.RecordBatch(), row); err != nil {
				return nil, err
			}
		}
	}
	return c, r.Err()
}
