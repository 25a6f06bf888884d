package queryd

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/lease"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/queryd/names"
	"github.com/streambed/streambed/queryd/rewrite"
	"github.com/streambed/streambed/queryd/sqltext"
	"github.com/streambed/streambed/queryd/values"
)

// plan is a query that DuckDB has bound: on a connection of its own, over table versions that it holds.
type plan struct {
	engine *engine
	conn   *duck.Conn
	stmt   *duck.Stmt
	pins   []*tableVersion
	// read is the plan's part in the server's lease.
	read *lease.Read
	// catalogs are the catalog sets that the query reads.
	catalogs []*catalogSet
	// view is the checkpoint that the query reads, where no AT says otherwise; nil when it reads no table.
	view    *formats.View
	columns []duck.Column
	// sources are the types of columns that come from tables as they are; nil for the others.
	sources []*types.Postgres
	// parameters are the numbers of the parameters that the statement still has, by DuckDB's index.
	parameters []int
}

func (p *plan) close() {
	if p == nil {
		return
	}
	if p.stmt != nil {
		p.stmt.Close()
	}
	if p.conn != nil {
		p.conn.Release()
	}
	for _, v := range p.pins {
		p.engine.tables.release(v)
	}
	for _, c := range p.catalogs {
		p.engine.catalogs.release(c)
	}
	p.read.End()
	p.stmt, p.conn, p.pins, p.catalogs = nil, nil, nil, nil
}

// prepare parses, checks, rewrites and binds a query. With describe, parameters stay parameters; else values replace
// them.
func (n *session) prepare(ctx context.Context, part sqltext.Statement, params []parameter, describe bool) (*plan, error) {
	conn, err := n.engine.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	p := &plan{engine: n.engine, conn: conn, read: n.engine.lease.Begin()}
	if err := n.bindQuery(ctx, p, part, params, describe, ""); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (n *session) bindQuery(ctx context.Context, p *plan, part sqltext.Statement, params []parameter, describe bool, prefix string) error {
	env := &environment{ctx: ctx, session: n, plan: p, params: params, describe: describe, views: map[formats.Point]*formats.View{}}
	sql, err := env.translate(part)
	if err != nil {
		return err
	}
	if err := n.setZone(ctx, p.conn); err != nil {
		return err
	}
	if p.stmt, err = p.conn.Prepare(ctx, prefix+sql); err != nil {
		return env.locate(err, part)
	}
	p.columns = p.stmt.Columns()
	p.sources = env.sources(p.columns)
	if describe || prefix != "" || !slices.ContainsFunc(p.columns, func(c duck.Column) bool { return !values.Readable(&c.Type) }) {
		return nil
	}
	// Some types can only be shown as text.
	p.stmt.Close()
	p.stmt, err = p.conn.Prepare(ctx, readable(sql, p.columns))
	if err == nil {
		p.columns = p.stmt.Columns()
	}
	return err
}

// readable casts the columns that cannot be read to text.
func readable(sql string, columns []duck.Column) string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for i, c := range columns {
		if i > 0 {
			b.WriteString(", ")
		}
		value := "#" + strconv.Itoa(i+1)
		if !values.Readable(&c.Type) {
			value = "CAST(" + value + " AS VARCHAR)"
		}
		b.WriteString(value + " AS " + duck.Identifier(c.Name))
	}
	return b.String() + " FROM (" + sql + ")"
}

// setZone gives a connection the session's time zone.
func (n *session) setZone(ctx context.Context, conn *duck.Conn) error {
	zone := n.settings.get("timezone")
	if conn.Mark == zone {
		return nil
	}
	if err := conn.Exec(ctx, "SET TimeZone = "+duck.Literal(zone)); err != nil {
		return failf("22023", "time zone %q is not known to the query engine", zone)
	}
	conn.Mark = zone
	return nil
}

// translate turns a statement into DuckDB's SQL over table versions.
func (e *environment) translate(part sqltext.Statement) (string, error) {
	conn := e.plan.conn
	folded := sqltext.Fold(part)
	answer, _, err := conn.Text(e.ctx, "SELECT json_serialize_sql(?::VARCHAR)::VARCHAR", folded.Text)
	if err != nil {
		return "", err
	}
	parsed, err := rewrite.Parse([]byte(answer))
	if err == nil {
		e.columns, err = parsed.Rewrite(folded.Text, e)
		e.plan.parameters = parsed.Parameters()
	}
	if err != nil {
		f := failure(err, "", 0)
		if f.Position >= 0 {
			f.Position = folded.Position(f.Position)
		}
		return "", f
	}
	if err := e.checkStale(); err != nil {
		return "", err
	}
	return e.deparse(parsed)
}

// sources gives the source types of a result's columns, if what was followed through the query fits what DuckDB says.
func (e *environment) sources(columns []duck.Column) []*types.Postgres {
	sources := make([]*types.Postgres, len(columns))
	if len(columns) != len(e.columns) {
		return sources
	}
	for i, c := range e.columns {
		if c.Name != columns[i].Name {
			return make([]*types.Postgres, len(columns))
		}
		sources[i], _ = c.Origin.(*types.Postgres)
	}
	return sources
}

type tree interface{ JSON() ([]byte, error) }

func (e *environment) deparse(t tree) (string, error) {
	encoded, err := t.JSON()
	if err != nil {
		return "", err
	}
	sql, _, err := e.plan.conn.Text(e.ctx, "SELECT json_deserialize_sql(?::JSON)", string(encoded))
	return sql, err
}

// locate finds the place in the client's statement that an error of the rewritten one is about: by name, since the texts
// differ.
func (e *environment) locate(err error, part sqltext.Statement) error {
	d, ok := err.(*duck.Error)
	if !ok {
		return err
	}
	f := failf(d.SQLState(), "%s", hideInternals(d.Message))
	name := names.Decode(d.Name)
	for _, t := range part.Tokens {
		if name != "" && (t.Kind == sqltext.Word || t.Kind == sqltext.Quoted) && sqltext.Name(part.Text[t.From:t.To]) == name {
			f.Position = t.From
			break
		}
	}
	return f
}
