package queryd

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/streambed/streambed/queryd/sqltext"
)

// runStatement answers one statement of a Query message.
func (n *session) runStatement(ctx context.Context, part sqltext.Statement) error {
	command, err := sqltext.Parse(part)
	if err != nil {
		return err
	}
	r, err := n.open(ctx, command, part, nil)
	if err != nil {
		return err
	}
	defer r.close()
	if r.rows != nil && !r.copying && r.rows.columns() != nil {
		n.describeRows(r.rows.columns(), r.formats)
	}
	_, err = r.run(ctx, 0, r.formats)
	return err
}

// running is a command under way: what it sends, and how its end is told.
type running struct {
	session *session
	// rows is what the command sends; nil for one that sends none.
	rows result
	// tag is the command's name; with counts the number of rows is added.
	tag    string
	counts bool
	// formats are those of the rows when the command, not the client, chooses them.
	formats []int16
	copying bool
	sent    int64
	done    bool
	// limit bounds the rows in all (FETCH); 0 means no bound.
	limit int64
	// keep leaves rows open at the end: they belong to a cursor.
	keep        bool
	copyOptions sqltext.CopyOptions
}

func (r *running) close() {
	if r.rows != nil && !r.keep {
		r.rows.close()
	}
}

// run sends up to limit rows (0: all), and the command's completion or that it is suspended.
func (r *running) run(ctx context.Context, limit int64, formats []int16) (suspended bool, err error) {
	n := r.session
	before := r.sent
	if r.copying {
		if err := r.copyOut(ctx); err != nil {
			return false, err
		}
	} else if r.rows != nil && !r.done {
		if r.limit > 0 && (limit <= 0 || limit > r.limit-r.sent) {
			limit = r.limit - r.sent
		}
		count, done, err := r.rows.fetch(ctx, limit, formats)
		r.sent += count
		if err != nil {
			return false, err
		}
		r.done = done || r.limit > 0 && r.sent >= r.limit
		if !r.done {
			n.conn.Send(&pgproto3.PortalSuspended{})
			return true, nil
		}
	}
	tag := r.tag
	if r.counts {
		// As in Postgres, the rows of this run alone.
		tag += " " + strconv.FormatInt(r.sent-before, 10)
	}
	r.done = true
	n.conn.Send(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
	return false, nil
}

// open begins a command. Commands that only change the session's state have done so when it returns.
func (n *session) open(ctx context.Context, command sqltext.Command, part sqltext.Statement, params []parameter) (*running, error) {
	if n.tx.status == 'E' {
		switch command.(type) {
		case sqltext.End, sqltext.RollbackTo:
		default:
			return nil, failf("25P02", "current transaction is aborted, commands ignored until end of transaction block")
		}
	}
	switch c := command.(type) {
	case sqltext.Query:
		p, err := n.prepare(ctx, c.Statement, params, false)
		if err != nil {
			return nil, shift(err, c.Statement, part)
		}
		return &running{session: n, rows: n.newQuery(p), tag: "SELECT", counts: true}, nil
	case sqltext.Explain:
		r, err := n.explain(ctx, c, params)
		return r, shift(err, c.Query, part)
	case sqltext.CopyOut:
		p, err := n.prepare(ctx, c.Query, params, false)
		if err != nil {
			return nil, shift(err, c.Query, part)
		}
		return &running{session: n, rows: n.newQuery(p), tag: "COPY", counts: true, copying: true, copyOptions: c.Options}, nil
	case sqltext.Show:
		return n.show(c.Name)
	case sqltext.Declare:
		err := n.declare(ctx, c, params)
		return &running{session: n, tag: "DECLARE CURSOR"}, shift(err, c.Query, part)
	case sqltext.Fetch:
		return n.fetchCursor(c)
	case sqltext.Execute:
		return n.executeNamed(ctx, c)
	case sqltext.Refused:
		return nil, c.Err
	}
	tag, err := n.perform(ctx, command)
	return &running{session: n, tag: tag}, err
}

// shift moves an error's position from an inner statement to the one around it.
func shift(err error, inner, outer sqltext.Statement) error {
	if err == nil {
		return nil
	}
	f := failure(err, "", 0)
	if f.Position >= 0 {
		f.Position += inner.Offset - outer.Offset
	}
	return f
}

// perform does a command that only changes the session's state, and gives its tag.
func (n *session) perform(ctx context.Context, command sqltext.Command) (tag string, err error) {
	switch c := command.(type) {
	case sqltext.Set:
		if c.Local && n.tx.status == 'I' {
			n.warn("25P01", "SET LOCAL can only be used in transaction blocks")
			return "SET", nil
		}
		if c.Default {
			return "SET", n.settings.reset(c.Name, c.Local)
		}
		return "SET", n.settings.set(c.Name, c.Values, c.Local)
	case sqltext.Reset:
		if c.Name == "all" {
			n.settings.resetAll()
			return "RESET", nil
		}
		return "RESET", n.settings.reset(c.Name, false)
	case sqltext.SetTransaction:
		if c.Write {
			return "", failf("25006", "cannot set transaction read-write mode: this server only reads")
		}
		return "SET", nil
	case sqltext.Begin, sqltext.End, sqltext.Savepoint, sqltext.ReleaseSavepoint, sqltext.RollbackTo:
		return n.transact(c)
	case sqltext.Discard:
		return n.discard(c.What)
	case sqltext.Deallocate:
		return n.deallocate(c.Name)
	case sqltext.Prepare:
		return "PREPARE", n.prepareNamed(ctx, c)
	case sqltext.CloseCursor:
		if c.Name == "" {
			for name := range n.portals {
				n.closeNamed('P', name)
			}
			return "CLOSE CURSOR ALL", nil
		}
		if n.portals[c.Name] == nil {
			return "", failf("34000", "cursor %q does not exist", c.Name)
		}
		n.closeNamed('P', c.Name)
		return "CLOSE CURSOR", nil
	case sqltext.Nothing:
		return c.Tag, nil
	}
	return "", failf("0A000", "this statement is not supported")
}

func (n *session) warn(state, message string) {
	f := failf(state, "%s", message)
	f.Severity = "WARNING"
	n.conn.Send(f.Notice())
}

// transact handles transaction blocks. They read one checkpoint throughout; there is nothing to commit.
func (n *session) transact(command any) (string, error) {
	switch c := command.(type) {
	case sqltext.Begin:
		if c.Write {
			return "", failf("25006", "cannot begin a read-write transaction: this server only reads")
		}
		if n.tx.status != 'I' {
			n.warn("25001", "there is already a transaction in progress")
			return "BEGIN", nil
		}
		n.beginBlock()
		return "BEGIN", nil
	case sqltext.End:
		if n.tx.status == 'I' {
			n.warn("25P01", "there is no transaction in progress")
			if c.Commit {
				return "COMMIT", nil
			}
			return "ROLLBACK", nil
		}
		commit := c.Commit && n.tx.status == 'T'
		n.endBlock(commit)
		if c.Chain {
			n.beginBlock()
		}
		if commit {
			return "COMMIT", nil
		}
		return "ROLLBACK", nil
	}
	if n.tx.status == 'I' {
		return "", failf("25P01", "savepoints can only be used in transaction blocks")
	}
	switch c := command.(type) {
	case sqltext.Savepoint:
		n.tx.savepoints = append(n.tx.savepoints, c.Name)
		return "SAVEPOINT", nil
	case sqltext.ReleaseSavepoint:
		return "RELEASE", n.unwind(c.Name, false)
	case sqltext.RollbackTo:
		if err := n.unwind(c.Name, true); err != nil {
			return "", err
		}
		n.tx.status = 'T'
	}
	return "ROLLBACK", nil
}

// unwind forgets the savepoints after the named one, and the named one too unless it is kept.
func (n *session) unwind(name string, keep bool) error {
	for i := len(n.tx.savepoints) - 1; i >= 0; i-- {
		if n.tx.savepoints[i] == name {
			if keep {
				i++
			}
			n.tx.savepoints = n.tx.savepoints[:i]
			return nil
		}
	}
	return failf("3B001", "savepoint %q does not exist", name)
}

func (n *session) beginBlock() {
	n.tx.leave()
	n.tx = transaction{status: 'T'}
	n.settings.beginBlock()
}

func (n *session) endBlock(commit bool) {
	n.tx.leave()
	n.tx = transaction{status: 'I'}
	n.settings.endBlock(commit)
	n.endStatementTransaction()
}

func (n *session) discard(what string) (string, error) {
	switch what {
	case "all":
		if n.tx.status != 'I' {
			return "", failf("25001", "DISCARD ALL cannot run inside a transaction block")
		}
		for name := range n.portals {
			n.closeNamed('P', name)
		}
		clear(n.statements)
		n.settings.resetAll()
	case "plans", "temp", "temporary", "sequences":
	default:
		return "", failf("42601", "DISCARD takes ALL, PLANS, SEQUENCES or TEMP")
	}
	return "DISCARD " + strings.ToUpper(what), nil
}

// show tells settings.
func (n *session) show(name string) (*running, error) {
	if name == "all" {
		t := &table{session: n, names: []string{"name", "setting", "description"}}
		for _, k := range sortedSettings() {
			t.rows = append(t.rows, []string{k, n.settings.get(k), ""})
		}
		return &running{session: n, rows: t, tag: "SHOW"}, nil
	}
	k := known[name]
	if k == nil {
		return nil, failf("42704", "unrecognized configuration parameter %q", name)
	}
	shown := name
	if k.report != "" {
		shown = k.report
	}
	return &running{session: n, rows: &table{session: n, names: []string{shown}, rows: [][]string{{n.settings.get(name)}}}, tag: "SHOW"}, nil
}

// explain shows DuckDB's plan, over the tables' true names.
func (n *session) explain(ctx context.Context, c sqltext.Explain, params []parameter) (*running, error) {
	prefix := "EXPLAIN "
	if c.Analyze {
		prefix = "EXPLAIN ANALYZE "
	}
	if c.JSON {
		prefix = strings.TrimSuffix(strings.Replace(prefix, "EXPLAIN ", "EXPLAIN (", 1), " ") + "FORMAT json) "
		if c.Analyze {
			prefix = "EXPLAIN (ANALYZE, FORMAT json) "
		}
	}
	conn, err := n.engine.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	p := &plan{engine: n.engine, conn: conn, read: n.engine.lease.Begin()}
	defer p.close()
	if err := n.bindQuery(ctx, p, c.Query, params, false, prefix); err != nil {
		return nil, err
	}
	rows, err := p.stmt.Execute(ctx)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	t := &table{session: n, names: []string{"QUERY PLAN"}}
	for {
		chunk, err := rows.Next(ctx)
		if err != nil {
			return nil, err
		}
		if chunk == nil {
			return &running{session: n, rows: t, tag: "EXPLAIN"}, nil
		}
		for i := range chunk.Rows {
			text := hideInternals(string(chunk.Columns[len(chunk.Columns)-1].Bytes(i)))
			if c.JSON {
				t.rows = append(t.rows, []string{text})
				continue
			}
			for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
				t.rows = append(t.rows, []string{line})
			}
		}
	}
}

// declare opens a cursor: a portal with a name, whose rows FETCH sends.
func (n *session) declare(ctx context.Context, c sqltext.Declare, params []parameter) error {
	switch {
	case c.Scroll:
		return failf("0A000", "cursors only move forward here: leave SCROLL out")
	case n.tx.status == 'I' && !c.Hold:
		return failf("25P01", "DECLARE CURSOR can only be used in transaction blocks")
	case n.portals[c.Name] != nil:
		return failf("42P03", "cursor %q already exists", c.Name)
	}
	p, err := n.prepare(ctx, c.Query, params, false)
	if err != nil {
		return err
	}
	cursor := &portal{name: c.Name, hold: c.Hold, running: &running{session: n, rows: n.newQuery(p), tag: "SELECT", counts: true}}
	if c.Binary {
		cursor.formats = []int16{pgproto3.BinaryFormat}
	}
	n.portals[c.Name] = cursor
	return nil
}

// fetchCursor makes the command that sends the next rows of a cursor.
func (n *session) fetchCursor(c sqltext.Fetch) (*running, error) {
	cursor := n.portals[c.Name]
	if cursor == nil || cursor.running == nil || cursor.running.rows == nil {
		return nil, failf("34000", "cursor %q does not exist", c.Name)
	}
	r := &running{session: n, rows: cursor.running.rows, tag: "FETCH", counts: true, keep: true, formats: cursor.formats}
	switch {
	case c.Count > 0:
		r.limit = c.Count
	case c.Count == 0:
		r.done = true
	}
	if c.Move {
		r.tag = "MOVE"
		r.rows = &skipped{r.rows}
	}
	return r, nil
}

// skipped fetches rows without sending them.
type skipped struct{ result }

func (s *skipped) columns() []column { return nil }

func (s *skipped) fetch(ctx context.Context, limit int64, formats []int16) (int64, bool, error) {
	q, ok := s.result.(*query)
	if !ok {
		return 0, true, fmt.Errorf("this cursor cannot move")
	}
	q.skip = true
	defer func() { q.skip = false }()
	return q.fetch(ctx, limit, formats)
}
