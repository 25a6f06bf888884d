package queryd

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/queryd/sqltext"
	"github.com/streambed/streambed/queryd/values"
)

// statement is a prepared statement. Its query is bound anew for every execution: the tables have other versions by then.
type statement struct {
	text    string
	part    sqltext.Statement
	command sqltext.Command
	// empty tells that the text holds no statement.
	empty   bool
	params  []parameter
	columns []column
	hasRows bool
}

// portal is a statement with its parameters, and how far it has run; also a cursor.
type portal struct {
	name    string
	stmt    *statement
	formats []int16
	running *running
	hold    bool
}

func (p *portal) close() {
	if p.running != nil {
		p.running.close()
	}
}

func (n *session) closeNamed(kind byte, name string) {
	if kind == 'S' {
		delete(n.statements, name)
		return
	}
	if p := n.portals[name]; p != nil {
		p.close()
		delete(n.portals, name)
	}
}

// parse answers Parse: the statement is checked and its parameters' and columns' types are found, as Postgres does.
func (n *session) parse(m *pgproto3.Parse) error {
	if m.Name != "" && n.statements[m.Name] != nil {
		return failf("42P05", "prepared statement %q already exists", m.Name)
	}
	delete(n.statements, m.Name)
	var s *statement
	err := n.guarded(func(ctx context.Context) (err error) {
		s, err = n.newStatement(ctx, m.Query, m.ParameterOIDs)
		return err
	})
	if err != nil {
		return err
	}
	n.statements[m.Name] = s
	n.conn.Send(&pgproto3.ParseComplete{})
	return nil
}

func (n *session) newStatement(ctx context.Context, text string, oids []uint32) (*statement, error) {
	if !utf8.ValidString(text) {
		return nil, failf("22021", "the statement is not valid UTF8")
	}
	parts, err := sqltext.Split(text)
	if err != nil {
		return nil, err
	}
	s := &statement{text: text}
	switch {
	case len(parts) == 0:
		s.empty = true
		return s, nil
	case len(parts) > 1:
		return nil, failf("42601", "cannot insert multiple commands into a prepared statement")
	}
	s.part = parts[0]
	if s.command, err = sqltext.Parse(s.part); err != nil {
		return nil, locate(err, s)
	}
	if refused, ok := s.command.(sqltext.Refused); ok {
		return nil, locate(refused.Err, s)
	}
	if n.tx.status == 'E' {
		switch s.command.(type) {
		case sqltext.End, sqltext.RollbackTo:
		default:
			return nil, failf("25P02", "current transaction is aborted, commands ignored until end of transaction block")
		}
	}
	for _, oid := range oids {
		s.params = append(s.params, parameter{oid: oid})
	}
	if err := n.analyze(ctx, s); err != nil {
		return nil, locate(err, s)
	}
	return s, nil
}

// locate gives an error its position in the whole text.
func locate(err error, s *statement) error { return failure(err, s.text, s.part.Offset) }

// analyze finds the types of a statement's parameters and columns.
func (n *session) analyze(ctx context.Context, s *statement) error {
	switch c := s.command.(type) {
	case sqltext.Query:
		s.hasRows = true
		return shift(n.analyzeQuery(ctx, s, c.Statement), c.Statement, s.part)
	case sqltext.CopyOut:
		return shift(n.analyzeQuery(ctx, s, c.Query), c.Query, s.part)
	case sqltext.Declare:
		return shift(n.analyzeQuery(ctx, s, c.Query), c.Query, s.part)
	case sqltext.Explain:
		err := n.analyzeQuery(ctx, s, c.Query)
		s.hasRows, s.columns = true, []column{{name: "QUERY PLAN", typ: values.Type{OID: values.OIDText, Size: -1, Typmod: -1}}}
		return shift(err, c.Query, s.part)
	case sqltext.Show:
		r, err := n.show(c.Name)
		if err != nil {
			return err
		}
		s.hasRows, s.columns = true, r.rows.columns()
	case sqltext.Fetch:
		r, err := n.fetchCursor(c)
		if err != nil {
			return err
		}
		s.hasRows, s.columns = !c.Move, r.rows.columns()
	case sqltext.Execute:
		named := n.statements[c.Name]
		if named == nil {
			return failf("26000", "prepared statement %q does not exist", c.Name)
		}
		s.hasRows, s.columns = named.hasRows, named.columns
	}
	return nil
}

func (n *session) analyzeQuery(ctx context.Context, s *statement, part sqltext.Statement) error {
	for range 2 {
		p, err := n.prepare(ctx, part, s.params, true)
		if err != nil {
			return err
		}
		s.columns = p.describe()
		open := n.inferParameters(s, part, p)
		unclear := slices.ContainsFunc(p.columns, func(c duck.Column) bool { return c.Type.Invalid() })
		p.close()
		switch {
		case unclear:
			return n.describeWithNulls(ctx, s, part)
		case !open:
			return nil
		}
	}
	return nil
}

// describeWithNulls finds the columns of a query whose shape DuckDB tells only for values: NULLs of the parameters' types.
func (n *session) describeWithNulls(ctx context.Context, s *statement, part sqltext.Statement) error {
	params := slices.Clone(s.params)
	for i := range params {
		params[i].null = true
	}
	p, err := n.prepare(ctx, part, params, false)
	if err != nil {
		return err
	}
	defer p.close()
	s.columns = p.describe()
	return nil
}

// inferParameters notes the types that DuckDB has found, text where it found none. It tells whether one was not found.
func (n *session) inferParameters(s *statement, part sqltext.Statement, p *plan) (open bool) {
	set := func(number int, oid uint32) {
		for len(s.params) < number {
			s.params = append(s.params, parameter{})
		}
		if s.params[number-1].oid == 0 {
			s.params[number-1].oid = oid
		}
	}
	for i, param := range p.stmt.Params() {
		if i >= len(p.parameters) {
			break
		}
		number := p.parameters[i]
		if param.Type.Invalid() {
			open = true
			set(number, values.OIDText)
			continue
		}
		set(number, values.Of(&param.Type).OID)
	}
	// Parameters that DuckDB does not see stand in AT clauses.
	for i, t := range part.Tokens {
		if t.Kind != sqltext.Param {
			continue
		}
		number, err := strconv.Atoi(part.Text[t.From+1 : t.To])
		if err != nil || number < 1 || number > 65535 {
			continue
		}
		if number > len(s.params) || s.params[number-1].oid == 0 {
			oid := uint32(values.OIDText)
			for k := i - 1; k >= 0 && k >= i-3; k-- {
				if strings.EqualFold(part.Text[part.Tokens[k].From:part.Tokens[k].To], "timestamp") {
					oid = values.OIDTimestampTZ
				}
			}
			set(number, oid)
		}
	}
	return open
}

// bind answers Bind.
func (n *session) bind(m *pgproto3.Bind) error {
	s := n.statements[m.PreparedStatement]
	if s == nil {
		return failf("26000", "prepared statement %q does not exist", m.PreparedStatement)
	}
	if m.DestinationPortal != "" && n.portals[m.DestinationPortal] != nil {
		return failf("42P03", "cursor %q already exists", m.DestinationPortal)
	}
	n.closeNamed('P', m.DestinationPortal)
	if len(m.Parameters) != len(s.params) {
		return failf("08P01", "bind message supplies %d parameters, but the prepared statement requires %d", len(m.Parameters), len(s.params))
	}
	if k := len(m.ParameterFormatCodes); k > 1 && k != len(m.Parameters) {
		return failf("08P01", "bind message has %d parameter formats but %d parameters", k, len(m.Parameters))
	}
	params := make([]parameter, len(m.Parameters))
	for i, raw := range m.Parameters {
		var err error
		format := formatOf(m.ParameterFormatCodes, i)
		if format != 0 && format != 1 {
			return failf("22023", "unsupported format code: %d", format)
		}
		if params[i], err = decodeParameter(s.params[i].oid, format, raw); err != nil {
			return err
		}
	}
	p := &portal{name: m.DestinationPortal, stmt: s, formats: slices.Clone(m.ResultFormatCodes)}
	for _, f := range p.formats {
		if f != 0 && f != 1 {
			return failf("22023", "unsupported format code: %d", f)
		}
	}
	if k := len(p.formats); s.hasRows && k > 1 && k != len(s.columns) {
		return failf("08P01", "bind message has %d result formats but query has %d columns", k, len(s.columns))
	}
	if !s.empty {
		if err := n.openPortal(p, params); err != nil {
			return err
		}
	}
	n.portals[m.DestinationPortal] = p
	n.conn.Send(&pgproto3.BindComplete{})
	return nil
}

// openPortal binds a query; other commands wait for Execute.
func (n *session) openPortal(p *portal, params []parameter) error {
	s := p.stmt
	q, ok := s.command.(sqltext.Query)
	if !ok {
		p.running = &running{session: n}
		return nil
	}
	err := n.guarded(func(ctx context.Context) (err error) {
		p.running, err = n.open(ctx, q, s.part, params)
		return err
	})
	if err != nil {
		return locate(err, s)
	}
	for i, c := range p.running.rows.columns() {
		if i >= len(s.columns) || c.typ.OID != s.columns[i].typ.OID {
			p.close()
			return failf("0A000", "cached plan must not change result type")
		}
	}
	return nil
}

// describe answers Describe.
func (n *session) describe(m *pgproto3.Describe) error {
	switch m.ObjectType {
	case 'S':
		s := n.statements[m.Name]
		if s == nil {
			return failf("26000", "prepared statement %q does not exist", m.Name)
		}
		oids := make([]uint32, len(s.params))
		for i, p := range s.params {
			oids[i] = p.oid
		}
		n.conn.Send(&pgproto3.ParameterDescription{ParameterOIDs: oids})
		if s.hasRows {
			n.describeRows(s.columns, nil)
			return nil
		}
	case 'P':
		p := n.portals[m.Name]
		switch {
		case p == nil:
			return failf("34000", "portal %q does not exist", m.Name)
		case p.stmt == nil:
			n.describeRows(p.running.rows.columns(), p.formats)
			return nil
		case p.stmt.hasRows:
			n.describeRows(p.stmt.columns, p.formats)
			return nil
		}
	default:
		return failf("08P01", "invalid DESCRIBE message subtype %d", m.ObjectType)
	}
	n.conn.Send(&pgproto3.NoData{})
	return nil
}

// execute answers Execute.
func (n *session) execute(m *pgproto3.Execute) error {
	p := n.portals[m.Portal]
	if p == nil {
		return failf("34000", "portal %q does not exist", m.Portal)
	}
	if p.stmt != nil && p.stmt.empty {
		n.conn.Send(&pgproto3.EmptyQueryResponse{})
		return nil
	}
	err := n.guarded(func(ctx context.Context) error { return n.runPortal(ctx, p, int64(m.MaxRows)) })
	if err != nil && p.stmt != nil {
		return locate(err, p.stmt)
	}
	return err
}

func (n *session) runPortal(ctx context.Context, p *portal, limit int64) error {
	if n.tx.status == 'E' {
		if _, err := n.mayRun(p); err != nil {
			return err
		}
	}
	if p.running.rows == nil && p.running.tag == "" {
		// A command that waited for its execution.
		opened, err := n.open(ctx, p.stmt.command, p.stmt.part, nil)
		if err != nil {
			return err
		}
		if n.portals[p.name] != p {
			// The command has ended its own portal (COMMIT, DISCARD): only its tag is left to tell.
			_, err := opened.run(ctx, 0, nil)
			return err
		}
		p.running = opened
	}
	formats := p.formats
	if len(formats) == 0 {
		formats = p.running.formats
	}
	_, err := p.running.run(ctx, limit, formats)
	return err
}

// mayRun lets only what ends a failed transaction block through.
func (n *session) mayRun(p *portal) (bool, error) {
	if p.stmt != nil {
		switch p.stmt.command.(type) {
		case sqltext.End, sqltext.RollbackTo:
			return true, nil
		}
	}
	return false, failf("25P02", "current transaction is aborted, commands ignored until end of transaction block")
}

// prepareNamed runs the SQL command PREPARE.
func (n *session) prepareNamed(ctx context.Context, c sqltext.Prepare) error {
	if n.statements[c.Name] != nil {
		return failf("42P05", "prepared statement %q already exists", c.Name)
	}
	oids := make([]uint32, len(c.Types))
	for i, name := range c.Types {
		oids[i] = oidByName(name)
	}
	s, err := n.newStatement(ctx, c.Inner.Text, oids)
	if err != nil {
		f := failure(err, "", 0)
		f.Statement, f.Position = "", -1
		return f
	}
	if _, ok := s.command.(sqltext.Query); !ok {
		return failf("0A000", "PREPARE takes a query")
	}
	n.statements[c.Name] = s
	return nil
}

// executeNamed runs the SQL command EXECUTE: its arguments are computed first.
func (n *session) executeNamed(ctx context.Context, c sqltext.Execute) (*running, error) {
	s := n.statements[c.Name]
	if s == nil {
		return nil, failf("26000", "prepared statement %q does not exist", c.Name)
	}
	if len(c.Args) != len(s.params) {
		return nil, failf("42601", "wrong number of parameters for prepared statement %q: expected %d, got %d", c.Name, len(s.params), len(c.Args))
	}
	params := make([]parameter, len(c.Args))
	for i, arg := range c.Args {
		p, err := n.compute(ctx, arg, s.params[i].oid)
		if err != nil {
			return nil, err
		}
		params[i] = p
	}
	r, err := n.open(ctx, s.command, s.part, params)
	if err != nil {
		f := failure(err, s.text, s.part.Offset)
		return nil, f
	}
	return r, nil
}

// compute gives an expression's value as a parameter of a type.
func (n *session) compute(ctx context.Context, expression sqltext.Statement, oid uint32) (parameter, error) {
	parts, err := sqltext.Split("SELECT (" + expression.Text + ")")
	if err != nil || len(parts) != 1 {
		return parameter{}, failf("42601", "syntax error in an argument of EXECUTE")
	}
	p, err := n.prepare(ctx, parts[0], nil, false)
	if err != nil {
		return parameter{}, err
	}
	q := n.newQuery(p)
	defer q.close()
	if err := q.start(ctx); err != nil {
		return parameter{}, err
	}
	result := parameter{oid: oid, null: true}
	chunk, err := q.rows.Next(ctx)
	if err != nil || chunk == nil {
		return result, err
	}
	if v := &chunk.Columns[0]; !v.Null(0) {
		t := q.rows.Types()[0]
		result.null, result.text = false, string(values.Text(&t, n.settings.style())(nil, v, 0))
	}
	return result, nil
}

func (n *session) deallocate(name string) (string, error) {
	if name == "" {
		clear(n.statements)
		return "DEALLOCATE ALL", nil
	}
	if n.statements[name] == nil {
		return "", failf("26000", "prepared statement %q does not exist", name)
	}
	delete(n.statements, name)
	return "DEALLOCATE", nil
}

// oidByName gives a type's OID by the name that SQL has for it, 0 when it is not known.
func oidByName(name string) uint32 {
	name = strings.ToLower(strings.Join(strings.Fields(name), " "))
	if base, ok := strings.CutSuffix(name, "[]"); ok {
		if oid := oidByName(base); oid != 0 {
			return values.Array(oid)
		}
		return 0
	}
	if i := strings.IndexByte(name, '('); i > 0 {
		name = strings.TrimSpace(name[:i])
	}
	return map[string]uint32{
		"bool": values.OIDBool, "boolean": values.OIDBool, "int2": values.OIDInt2, "smallint": values.OIDInt2, "int4": values.OIDInt4,
		"int": values.OIDInt4, "integer": values.OIDInt4, "int8": values.OIDInt8, "bigint": values.OIDInt8, "float4": values.OIDFloat4,
		"real": values.OIDFloat4, "float8": values.OIDFloat8, "double precision": values.OIDFloat8, "numeric": values.OIDNumeric,
		"decimal": values.OIDNumeric, "text": values.OIDText, "varchar": values.OIDVarchar, "character varying": values.OIDVarchar,
		"bytea": values.OIDBytea, "date": values.OIDDate, "time": values.OIDTime, "timestamp": values.OIDTimestamp,
		"timestamp without time zone": values.OIDTimestamp, "timestamptz": values.OIDTimestampTZ, "timestamp with time zone": values.OIDTimestampTZ,
		"interval": values.OIDInterval, "uuid": values.OIDUUID, "json": values.OIDJSON, "jsonb": values.OIDJSONB, "oid": values.OIDOid,
	}[name]
}
