package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/rows"
	"github.com/streambed/streambed/stages/source"
)

// recordRows and recordBytes bound the source rows that are decoded before they are looked at.
const recordRows, recordBytes = 4096, 4 << 20

// chunkPages is the size of what is read of a source table under one lock: 256 MiB.
const chunkPages = 32768

// lockAttempts is how often a chunk's lock, of 2 s each, is asked for.
const lockAttempts = 15

// snapshot is a snapshot of the source that outlives the short transactions that read under it.
type snapshot struct {
	conn *pgx.Conn
	name string
}

// takeSnapshot opens one; the caller closes it.
func (v *verifier) takeSnapshot(ctx context.Context) (*snapshot, error) {
	conn, err := source.Connect(ctx, v.o.Source.URL, "verify")
	if err != nil {
		return nil, err
	}
	s := &snapshot{conn: conn}
	if _, err = conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err == nil {
		err = conn.QueryRow(ctx, "SELECT pg_export_snapshot()").Scan(&s.name)
	}
	if err != nil {
		closeConn(conn)
		return nil, fmt.Errorf("source gives no snapshot: %w", err)
	}
	return s, nil
}

func (s *snapshot) close() { closeConn(s.conn) }

// each is called with records of the shape's columns, which are released after it returns.
type each func(rec arrow.RecordBatch) error

// readSource reads all rows of the source under a snapshot, in chunks that lock the table for a short time each: a
// schema change that waits for a lock of ours would make everybody else wait.
func (v *verifier) readSource(ctx context.Context, s *snapshot, f each) error {
	if err := source.Measure(ctx, v.conn, v.table); err != nil {
		return err
	}
	parts := []source.Leaf{{OID: v.table.OID, Name: v.table.Name, Pages: v.table.Pages}}
	if v.table.Partitioned {
		parts = v.table.Leaves
	}
	size := uint32(chunkPages)
	if source.ServerVersion(v.conn.PgConn()) < 14 {
		size = ^uint32(0) // every chunk would scan the whole table
	}
	for _, part := range parts {
		for _, pages := range formats.PagesLeft(nil, part.Pages, size) {
			conditions := []string{fmt.Sprintf("ctid >= '(%d,0)'", pages.From)}
			if pages.To != ^uint32(0) {
				conditions = append(conditions, fmt.Sprintf("ctid < '(%d,0)'", pages.To))
			}
			if err := v.readChunk(ctx, s, part.Name, strings.Join(conditions, " AND "), f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *verifier) readChunk(ctx context.Context, s *snapshot, name formats.TableName, where string, f each) error {
	begin := `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT ` + source.QuoteLiteral(s.name) + `;
		SET LOCAL lock_timeout = '2s'; LOCK TABLE ONLY ` + source.QuoteTable(name) + ` IN ACCESS SHARE MODE`
	pg := v.conn.PgConn()
	for attempt := 1; ; attempt++ {
		_, err := pg.Exec(ctx, begin).ReadAll()
		if err == nil {
			break
		}
		_, _ = pg.Exec(ctx, "ROLLBACK").ReadAll()
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "55P03" || attempt == lockAttempts {
			return fmt.Errorf("table %s cannot be read: %w", source.Show(name), err)
		}
		v.o.Progress("waiting for the lock of table " + source.Show(name))
	}
	err := v.query(ctx, "SELECT "+v.shape.list+" FROM ONLY "+source.QuoteTable(name)+" WHERE "+where+v.filter(), nil, f)
	if _, e := pg.Exec(ctx, "ROLLBACK").ReadAll(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("table %s cannot be read: %w", source.Show(name), err)
	}
	return nil
}

func (v *verifier) filter() string {
	if v.table.Filter == "" {
		return ""
	}
	return " AND (" + v.table.Filter + ")"
}

// readKeys reads the source's rows of some keys, each the values of the key's columns in text form.
func (v *verifier) readKeys(ctx context.Context, keys [][]string, f each) error {
	var columns, arrays, names, casts []string
	params := make([][]byte, len(v.shape.casts))
	for i, cast := range v.shape.casts {
		columns = append(columns, source.Quote(v.shape.schema.Columns[v.shape.schema.Key[i]].Name))
		arrays = append(arrays, fmt.Sprintf("$%d::pg_catalog.text[]", i+1))
		names = append(names, fmt.Sprintf("k%d", i))
		casts = append(casts, fmt.Sprintf("wanted.k%d::%s", i, cast))
		values := make([]string, len(keys))
		for j, key := range keys {
			values[j] = key[i]
		}
		params[i] = textArray(values)
	}
	only := "ONLY "
	if v.table.Partitioned {
		only = ""
	}
	sql := fmt.Sprintf("SELECT %s FROM %s%s WHERE (%s) IN (SELECT %s FROM unnest(%s) AS wanted(%s))%s", v.shape.list, only,
		source.QuoteTable(v.table.Name), strings.Join(columns, ", "), strings.Join(casts, ", "), strings.Join(arrays, ", "), strings.Join(names, ", "), v.filter())
	return v.query(ctx, sql, params, f)
}

// query runs a query that selects the shape's columns and decodes its rows as the pipeline does.
func (v *verifier) query(ctx context.Context, sql string, params [][]byte, f each) error {
	format, kind := int16(0), byte('t')
	if v.shape.binary {
		format, kind = 1, 'b'
	}
	builder, err := v.shape.layout.NewBuilder()
	if err != nil {
		return err
	}
	defer builder.Release()
	ctx, cancel := context.WithCancel(ctx) // an error of ours ends the query, too
	defer cancel()
	reader := v.conn.PgConn().ExecParams(ctx, sql, params, nil, nil, []int16{format})
	err = readRows(reader, builder, kind, f)
	if err != nil {
		cancel()
	}
	if _, e := reader.Close(); err == nil {
		err = e
	}
	return err
}

func readRows(reader *pgconn.ResultReader, builder *rows.Builder, kind byte, f each) error {
	hand := func() error {
		rec := builder.Record()
		defer rec.Release()
		return f(rec)
	}
	var tuple []message.Value
	size := 0
	for reader.NextRow() {
		tuple = tuple[:0]
		for _, value := range reader.Values() {
			if value == nil {
				tuple = append(tuple, message.Value{Kind: 'n'})
				continue
			}
			tuple = append(tuple, message.Value{Kind: kind, Data: value})
			size += len(value)
		}
		if err := builder.Append(tuple, nil); err != nil {
			return err
		}
		if builder.Rows() >= recordRows || size >= recordBytes {
			size = 0
			if err := hand(); err != nil {
				return err
			}
		}
	}
	if builder.Rows() == 0 {
		return nil
	}
	return hand()
}
