package snapshot

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/batcher"
	"github.com/streambed/streambed/stages/rows"
	"github.com/streambed/streambed/stages/source"
)

// chunk is a range of pages of one physical relation.
type chunk struct {
	relation formats.CopyRelation
	name     formats.TableName
	pages    formats.PageRange
}

// work reads chunks from the queue until it is empty, as one of the workers of all copies.
func (c *Copier) work(ctx context.Context, queue <-chan chunk, exported string) error {
	if err := c.cfg.Workers.Acquire(ctx, 1); err != nil {
		return err
	}
	defer c.cfg.Workers.Release(1)
	conn, err := c.cfg.Connections.Take(ctx)
	if err != nil {
		return err
	}
	defer c.cfg.Connections.Give(conn)
	output, err := c.newOutput()
	if err != nil {
		return err
	}
	defer output.discard()
	for chunk := range queue {
		if err := c.readChunk(ctx, conn, chunk, exported, output); err != nil {
			return err
		}
		if output.full() {
			if err := output.handOver(ctx); err != nil {
				return err
			}
		}
	}
	return output.handOver(ctx)
}

// readChunk reads one chunk in a short transaction of its own (promise 5). Nothing downstream can hold it open: rows go
// to a file on the local disk.
func (c *Copier) readChunk(ctx context.Context, conn *pgx.Conn, chunk chunk, exported string, output *output) error {
	begin := "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
	if exported != "" {
		begin += "SET TRANSACTION SNAPSHOT " + source.QuoteLiteral(exported) + ";"
	}
	// The lock comes before the snapshot's first use, so that the table cannot be rewritten between the two.
	begin += "SET LOCAL lock_timeout = '2s'; SET LOCAL synchronize_seqscans = off; LOCK TABLE ONLY " + source.QuoteTable(chunk.name) + " IN ACCESS SHARE MODE"
	pg := conn.PgConn()
	if _, err := pg.Exec(ctx, begin).ReadAll(); err != nil {
		_, _ = pg.Exec(ctx, "ROLLBACK").ReadAll()
		return fmt.Errorf("chunk of %s cannot be read: %w", source.Show(chunk.name), err)
	}
	err := c.copyChunk(ctx, conn, chunk, output)
	end := "COMMIT"
	if err != nil {
		end = "ROLLBACK"
	}
	if _, e := pg.Exec(ctx, end).ReadAll(); err == nil && e != nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("chunk of %s cannot be read: %w", source.Show(chunk.name), err)
	}
	output.done(chunk)
	pages := int64(min(chunk.pages.To, chunk.relation.Pages)) - int64(min(chunk.pages.From, chunk.relation.Pages))
	c.read.Add(pages)
	return nil
}

func (c *Copier) copyChunk(ctx context.Context, conn *pgx.Conn, chunk chunk, output *output) error {
	var filenode, named uint32
	err := conn.QueryRow(ctx, "SELECT COALESCE(pg_relation_filenode($1::oid), 0), COALESCE(to_regclass($2)::oid, 0)",
		chunk.relation.OID, source.QuoteTable(chunk.name)).Scan(&filenode, &named)
	if err != nil {
		return err
	}
	if filenode != chunk.relation.Filenode || named != chunk.relation.OID {
		return ErrChanged
	}
	if err := c.checkColumns(ctx, conn, output.list); err != nil {
		return err
	}
	sql := "COPY (SELECT " + output.list + " FROM ONLY " + source.QuoteTable(chunk.name) + " WHERE " + c.where(chunk.pages) + ") TO STDOUT (FORMAT " + output.format() + ")"
	if _, err := conn.PgConn().CopyTo(ctx, output.begin(), sql); err != nil {
		if output.err != nil {
			return output.err
		}
		return err
	}
	return output.end()
}

// checkColumns makes sure that the names which a chunk is read by still mean the columns of the copy's schema: the table
// may have been altered since the schema was read. The server is asked to describe the query, since that, unlike a look
// into its catalog under an older snapshot, tells what is true under the lock that the chunk holds.
func (c *Copier) checkColumns(ctx context.Context, conn *pgx.Conn, list string) error {
	described, err := conn.PgConn().Prepare(ctx, "", "SELECT "+list+" FROM "+source.QuoteTable(c.table.Name), nil)
	if err != nil {
		return err
	}
	for i, field := range described.Fields {
		held := &c.state.Schema.Columns[i]
		below := held.Source.Resolve() // the server describes a domain as the type below it
		if int16(field.TableAttributeNumber) != held.Attnum || field.DataTypeOID != below.OID || field.TypeModifier != below.Typmod {
			return fmt.Errorf("%w: column %q is another one than before", ErrChanged, held.Name)
		}
	}
	return nil
}

func (c *Copier) where(pages formats.PageRange) string {
	conditions := []string{fmt.Sprintf("ctid >= '(%d,0)'", pages.From)}
	if pages.To != ^uint32(0) {
		conditions = append(conditions, fmt.Sprintf("ctid < '(%d,0)'", pages.To))
	}
	if c.table.Filter != "" {
		conditions = append(conditions, "("+c.table.Filter+")")
	}
	return strings.Join(conditions, " AND ")
}

// selectList names the columns of a schema, quoted.
func selectList(schema *formats.Schema) (list string, names []string) {
	quoted := make([]string, len(schema.Columns))
	for i, column := range schema.Columns {
		names = append(names, column.Name)
		quoted[i] = source.Quote(column.Name)
	}
	return strings.Join(quoted, ", "), names
}

// allBinary reports whether every column can be read in Postgres' binary form.
func allBinary(schema *formats.Schema, o types.Options) bool {
	for _, column := range schema.Columns {
		codec, err := types.NewCodec(column.Source, column.Type, o, false)
		if err != nil || !codec.Binary() {
			return false
		}
	}
	return true
}

// newOutput makes a worker's way from COPY rows to data files.
func (c *Copier) newOutput() (*output, error) {
	schema := c.state.Schema
	list, names := selectList(&schema)
	layout, err := rows.NewLayout(&schema, names, c.cfg.Values)
	if err != nil {
		return nil, batcher.TableError(err)
	}
	o := &output{copier: c, incarnation: c.state.Table, layout: layout, list: list, binary: allBinary(&schema, c.cfg.Values)}
	o.arranger = c.cfg.Batcher.Arranger(c.state.Table, layout)
	if schema.KeyKind != formats.KeyNone {
		if o.keyer, err = layout.NewKeyer(); err != nil {
			return nil, batcher.TableError(err)
		}
	}
	return o, nil
}
