package oracle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/rows"
	"github.com/streambed/streambed/stages/source"
)

// connect opens a connection whose text forms are those that the pipeline reads.
func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	conn, err := source.Connect(ctx, url, "oracle")
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "SET search_path = public; SET lock_timeout = '60ms'; SET statement_timeout = '10s'"); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// errColumns means that lake and source have different columns.
var errColumns = errors.New("the columns differ")

// sourceContent reads a whole table of the source into the lake's types, which its text form is decoded to. It is an error
// when the lake's columns are not the source's.
func sourceContent(ctx context.Context, conn *pgx.Conn, name string, schema *formats.Schema, equalZeros bool) (*content, error) {
	held, err := columnsOf(ctx, conn, name)
	if err != nil {
		return nil, err
	}
	var here, there []string
	for _, c := range held {
		here = append(here, c.name)
	}
	for _, c := range schema.Columns {
		there = append(there, c.Name)
	}
	slices.Sort(here)
	slices.Sort(there)
	if !slices.Equal(here, there) {
		c := newContent(equalZeros)
		err := conn.QueryRow(ctx, "SELECT count(*) FROM "+name).Scan(&c.count)
		return c, errors.Join(err, fmt.Errorf("%w: the source's are %q, the lake's %q", errColumns, here, there))
	}
	return decoded(ctx, conn, name, schema, equalZeros)
}

// decoded reads a table, as a server of Postgres' protocol shows it in text, into the lake's types.
func decoded(ctx context.Context, conn *pgx.Conn, name string, schema *formats.Schema, equalZeros bool) (*content, error) {
	var names, list []string
	for _, c := range schema.Columns {
		names, list = append(names, c.Name), append(list, ident(c.Name))
	}
	layout, err := rows.NewLayout(schema, names, types.Options{})
	if err != nil {
		return nil, err
	}
	builder, err := layout.NewBuilder()
	if err != nil {
		return nil, err
	}
	defer builder.Release()
	result := conn.PgConn().ExecParams(ctx, "SELECT "+strings.Join(list, ", ")+" FROM "+name, nil, nil, nil, nil)
	var tuple []message.Value
	for result.NextRow() && err == nil {
		tuple = tuple[:0]
		for _, v := range result.Values() {
			if v == nil {
				tuple = append(tuple, message.Value{Kind: 'n'})
			} else {
				tuple = append(tuple, message.Value{Kind: 't', Data: v})
			}
		}
		err = builder.Append(tuple, nil)
	}
	if _, e := result.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	rec := builder.Record()
	defer rec.Release()
	c := newContent(equalZeros)
	for row := range int(rec.NumRows()) {
		if err := c.add(schema.Fields(), rec, row); err != nil {
			return nil, err
		}
	}
	return c, nil
}
