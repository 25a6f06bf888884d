package snapshot

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/streambed/streambed/stages/batcher"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/source"
)

// resolve reads rows by key whose newest change left a TOAST value out that the lake does not hold: they moved into a
// page that had been read. A row that is gone needs nothing: its delete is in the stream.
func (c *Copier) resolve(ctx context.Context, conn *pgx.Conn, keys []batcher.UnresolvedKey) error {
	output, err := c.newOutput()
	if err != nil {
		return err
	}
	defer output.discard()
	schema := &c.state.Schema
	var conditions []string
	var oids []uint32
	for i, k := range schema.Key {
		conditions = append(conditions, fmt.Sprintf("%s = $%d", source.Quote(schema.Columns[k].Name), i+1))
		oids = append(oids, schema.Columns[k].Source.OID)
	}
	if c.table.Filter != "" {
		conditions = append(conditions, "("+c.table.Filter+")")
	}
	sql := "SELECT " + output.list + " FROM " + source.QuoteTable(c.table.Name) + " WHERE " + strings.Join(conditions, " AND ")
	result := int16(pgx.TextFormatCode)
	if output.binary {
		result = pgx.BinaryFormatCode
	}
	for _, key := range keys {
		values, err := message.Columns(key.Tuple, nil)
		if err != nil {
			return err
		}
		parameters := make([][]byte, len(values))
		formats := make([]int16, len(values))
		for i, v := range values {
			parameters[i] = v.Data
			if v.Kind == 'b' {
				formats[i] = pgx.BinaryFormatCode
			}
		}
		reader := conn.PgConn().ExecParams(ctx, sql, parameters, oids, formats, []int16{result})
		if err := output.addRows(reader); err != nil {
			return fmt.Errorf("rows with unchanged TOAST values cannot be read: %w", err)
		}
	}
	if err := output.close(); err != nil {
		return err
	}
	if len(output.ready) == 0 {
		output.ready = append(output.ready, &batcher.CopyFile{Incarnation: output.incarnation.ID})
	}
	for _, f := range output.ready {
		f.Resolved = keys
	}
	if err := c.cfg.Batcher.TakeCopyFiles(ctx, output.ready); err != nil {
		return err
	}
	output.ready = nil
	return nil
}

// addRows adds a query's rows, all of whose columns have the output's format.
func (o *output) addRows(reader *pgconn.ResultReader) error {
	kind := byte('t')
	if o.binary {
		kind = 'b'
	}
	for reader.NextRow() {
		o.values = o.values[:0]
		var size int64
		for _, data := range reader.Values() {
			if data == nil {
				o.values = append(o.values, message.Value{Kind: 'n'})
				continue
			}
			o.values = append(o.values, message.Value{Kind: kind, Data: data})
			size += int64(len(data))
		}
		if err := o.add(o.values, size); err != nil {
			_, _ = reader.Close()
			return err
		}
	}
	_, err := reader.Close()
	return err
}
