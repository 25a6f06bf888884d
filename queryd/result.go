package queryd

import (
	"context"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/queryd/names"
	"github.com/streambed/streambed/queryd/values"
)

// column is a result's column as a client sees it.
type column struct {
	name string
	typ  values.Type
	// source tells that typ is the source's, not only DuckDB's.
	source bool
}

// result is rows that are read bit by bit.
type result interface {
	columns() []column
	// fetch sends at most limit rows (0: all) in the columns' formats, and tells how many and whether they were the last.
	fetch(ctx context.Context, limit int64, formats []int16) (rows int64, done bool, err error)
	close()
}

// query is a result that DuckDB computes while it is fetched.
type query struct {
	session   *session
	plan      *plan
	described []column
	rows      *duck.Rows
	chunk     *duck.Chunk
	at        int
	done      bool

	formats  []int16
	encoders []values.Encoder
	// skip fetches without sending.
	skip bool
}

func (n *session) newQuery(p *plan) *query {
	return &query{session: n, plan: p, described: p.describe()}
}

// describe gives the result's columns as clients see them.
func (p *plan) describe() []column {
	shown := make([]column, len(p.columns))
	for i := range p.columns {
		t := &p.columns[i].Type
		shown[i] = column{name: shownName(p.columns[i].Name), typ: values.Of(t)}
		if p.sources[i] != nil {
			if as, ok := values.FromSource(t, p.sources[i]); ok {
				shown[i].typ, shown[i].source = as, true
			}
		}
	}
	return shown
}

// shownName undoes the encoding of a name, and the number that DuckDB adds to names that come twice.
func shownName(name string) string {
	const anonymous = "?column?"
	if len(name) > len(anonymous) && name[:len(anonymous)] == anonymous && name[len(anonymous)] == '_' {
		return anonymous
	}
	return names.Decode(name)
}

func (q *query) columns() []column { return q.described }

func (q *query) close() {
	if q.rows != nil {
		q.rows.Close()
		q.rows = nil
	}
	q.plan.close()
	q.done = true
}

// start begins the execution.
func (q *query) start(ctx context.Context) error {
	if q.rows != nil || q.done {
		return nil
	}
	rows, err := q.plan.stmt.Execute(ctx)
	if err != nil {
		return err
	}
	q.rows = rows
	return nil
}

func (q *query) prepare(formats []int16) {
	if q.encoders != nil && sameFormats(q.formats, formats) {
		return
	}
	q.formats, q.encoders = formats, make([]values.Encoder, len(q.described))
	style := q.session.settings.style()
	for i, t := range q.rows.Types() {
		binary := formatOf(formats, i) == pgproto3.BinaryFormat
		switch as := q.described[i]; {
		case as.source && binary:
			q.encoders[i] = values.BinaryAs(&t, as.typ, style)
		case as.source:
			q.encoders[i] = values.TextAs(&t, as.typ, style)
		case binary:
			q.encoders[i] = values.Binary(&t, style)
		default:
			q.encoders[i] = values.Text(&t, style)
		}
	}
}

func sameFormats(a, b []int16) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// formatOf gives column i's format: none given means text, one is for all.
func formatOf(formats []int16, i int) int16 {
	switch len(formats) {
	case 0:
		return pgproto3.TextFormat
	case 1:
		return formats[0]
	}
	return formats[i]
}

func (q *query) fetch(ctx context.Context, limit int64, formats []int16) (int64, bool, error) {
	if err := q.start(ctx); err != nil {
		return 0, false, err
	}
	if q.done {
		return 0, true, nil
	}
	q.prepare(formats)
	conn := q.session.conn
	return q.each(ctx, limit, func(chunk *duck.Chunk, row int) error {
		return conn.Append(func(dst []byte) []byte { return values.AppendRow(dst, chunk, row, q.encoders) })
	})
}

// each calls f for the next rows, at most limit of them (0: all).
func (q *query) each(ctx context.Context, limit int64, f func(*duck.Chunk, int) error) (int64, bool, error) {
	var count int64
	for limit <= 0 || count < limit {
		if q.chunk == nil || q.at == q.chunk.Rows {
			chunk, err := q.rows.Next(ctx)
			if err != nil {
				return count, false, err
			}
			if chunk == nil {
				// DuckDB's resources go as soon as the last row has been read, not when the client asks for more.
				q.close()
				return count, true, nil
			}
			q.chunk, q.at = chunk, 0
		}
		if !q.skip {
			if err := f(q.chunk, q.at); err != nil {
				return count, false, err
			}
		}
		q.at++
		count++
	}
	return count, false, nil
}

// table is a small result that is made in memory, all text.
type table struct {
	session *session
	names   []string
	rows    [][]string
	skip    bool
}

func (t *table) columns() []column {
	c := make([]column, len(t.names))
	for i, name := range t.names {
		c[i] = column{name: name, typ: values.Type{OID: values.OIDText, Size: -1, Typmod: -1}}
	}
	return c
}

func (t *table) close() { t.rows = nil }

func (t *table) fetch(_ context.Context, limit int64, _ []int16) (int64, bool, error) {
	var count int64
	for len(t.rows) > 0 && (limit <= 0 || count < limit) {
		if !t.skip {
			row := make([][]byte, len(t.rows[0]))
			for i, v := range t.rows[0] {
				row[i] = []byte(v)
			}
			t.session.conn.Send(&pgproto3.DataRow{Values: row})
		}
		t.rows = t.rows[1:]
		count++
	}
	return count, len(t.rows) == 0, nil
}

// describe sends a RowDescription.
func (n *session) describeRows(columns []column, formats []int16) {
	m := &pgproto3.RowDescription{Fields: make([]pgproto3.FieldDescription, len(columns))}
	for i, c := range columns {
		m.Fields[i] = pgproto3.FieldDescription{Name: []byte(c.name), DataTypeOID: c.typ.OID, DataTypeSize: c.typ.Size,
			TypeModifier: c.typ.Typmod, Format: formatOf(formats, i)}
	}
	n.conn.Send(m)
}
