package queryd

import (
	"strings"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/queryd/catalog"
	"github.com/streambed/streambed/queryd/rewrite"
	"github.com/streambed/streambed/queryd/sqltext"
	"github.com/streambed/streambed/queryd/values"
)

// ownColumn is a column of a relation of schema streambed.
type ownColumn struct {
	name string
	oid  uint32
}

// The relations of schema streambed: what the lake holds, and since when.
var (
	checkpointColumns = []ownColumn{{"checkpoint", values.OIDInt8}, {"lsn", values.OIDText}, {"commit_time", values.OIDTimestampTZ}, {"known", values.OIDTimestampTZ}, {"lag", values.OIDInterval}}
	tablesColumns     = []ownColumn{{"schema_name", values.OIDText}, {"table_name", values.OIDText}, {"key", values.Array(values.OIDText)}, {"append_only", values.OIDBool},
		{"set_aside", values.OIDText}, {"snapshot", values.OIDInt8}, {"version", values.OIDText}}
	snapshotColumns = []ownColumn{{"snapshot", values.OIDInt8}, {"sequence", values.OIDInt8}, {"time", values.OIDTimestampTZ}, {"checkpoint", values.OIDInt8}, {"lsn", values.OIDText},
		{"commit_time", values.OIDTimestampTZ}, {"operation", values.OIDText}, {"rows", values.OIDInt8}, {"files", values.OIDInt8}, {"deleted", values.OIDInt8}}
)

// streambedTables describes them for the catalog.
func streambedTables() []catalog.Table {
	describe := func(name, comment string, columns []ownColumn) catalog.Table {
		t := catalog.Table{Schema: "streambed", Name: name, Comment: comment}
		for i, c := range columns {
			t.Columns = append(t.Columns, catalog.TableColumn{Name: c.name, Type: c.oid, Typmod: -1, Number: i + 1})
		}
		return t
	}
	return []catalog.Table{
		describe("checkpoint", "the checkpoint that this statement reads: its number, position, source commit time and lag", checkpointColumns),
		describe("tables", "the tables of the lake and whether they follow the source", tablesColumns),
	}
}

func relationOf(columns []ownColumn, rows [][]rewrite.Node) rewrite.Relation {
	r := rewrite.Relation{}
	names, sqlTypes := make([]string, len(columns)), make([]rewrite.Node, len(columns))
	for i, c := range columns {
		names[i], sqlTypes[i] = c.name, typeNode(c.oid)
		r.Columns = append(r.Columns, rewrite.Column{Name: c.name})
	}
	r.Query = rewrite.Values(names, sqlTypes, rows)
	return r
}

// keywords answers pg_get_keywords(): the words that are reserved beyond SQL's standard.
func keywords() rewrite.Relation {
	var rows [][]rewrite.Node
	for _, word := range strings.Fields("analyse analyze asc concurrently deferrable desc do freeze ilike initially isnull limit notnull offset placing returning variadic verbose") {
		rows = append(rows, []rewrite.Node{rewrite.Text(word), rewrite.Text("R"), rewrite.Text("reserved")})
	}
	return relationOf([]ownColumn{{"word", values.OIDText}, {"catcode", values.OIDText}, {"catdesc", values.OIDText}}, rows)
}

func (e *environment) streambedRelation(view *formats.View, name string) (r rewrite.Relation, ok bool, err error) {
	switch name {
	case "checkpoint":
		row := []rewrite.Node{rewrite.Integer(view.Checkpoint), rewrite.Text(view.Position.String()), timeNode(view.CommitTime), timeNode(view.Known), rewrite.Null(typeNode(values.OIDInterval))}
		if !view.Known.IsZero() {
			row[4] = rewrite.Call("to_microseconds", rewrite.Integer(max(0, time.Since(view.Known).Microseconds())))
		}
		return relationOf(checkpointColumns, [][]rewrite.Node{row}), true, nil
	case "tables":
		var rows [][]rewrite.Node
		for i := range view.Tables {
			t := &view.Tables[i]
			key := make([]rewrite.Node, len(t.Schema.Key))
			for k, c := range t.Schema.Key {
				key[k] = rewrite.Text(t.Schema.Columns[c].Name)
			}
			setAside := rewrite.Null(typeNode(values.OIDText))
			if t.SetAside != "" {
				setAside = rewrite.Text(t.SetAside)
			}
			rows = append(rows, []rewrite.Node{rewrite.Text(t.Name.Schema), rewrite.Text(t.Name.Table), rewrite.Cast(rewrite.Call("list_value", key...), typeNode(values.Array(values.OIDText))),
				rewrite.Bool(t.Schema.KeyKind == formats.KeyNone), setAside, rewrite.Integer(t.Snapshot), rewrite.Text(t.Version)})
		}
		return relationOf(tablesColumns, rows), true, nil
	}
	return r, false, nil
}

func timeNode(t time.Time) rewrite.Node {
	if t.IsZero() {
		return rewrite.Null(typeNode(values.OIDTimestampTZ))
	}
	return rewrite.Text(t.UTC().Format("2006-01-02 15:04:05.999999+00"))
}

// snapshots answers streambed.snapshots('table').
func (e *environment) snapshots(args []rewrite.Node) (r rewrite.Relation, err error) {
	if len(args) != 1 {
		return r, &rewrite.Error{State: "42883", Message: "streambed.snapshots takes the name of a table", Position: -1}
	}
	written, ok := constantText(args[0])
	if !ok {
		if e.describe {
			return relationOf(snapshotColumns, nil), nil
		}
		return r, &rewrite.Error{State: "22023", Message: "streambed.snapshots takes the name of a table as a constant", Position: -1}
	}
	view, err := e.view()
	if err != nil {
		return r, err
	}
	schema, name := splitName(written)
	table := e.find(view, schema, name)
	if table == nil {
		return r, missing(schema, name, false)
	}
	list, err := e.session.engine.options.Reader.Snapshots(e.ctx, table.Name)
	if err != nil {
		return r, err
	}
	var rows [][]rewrite.Node
	for _, s := range list {
		rows = append(rows, []rewrite.Node{rewrite.Integer(s.ID), rewrite.Integer(s.Sequence), timeNode(s.Time), rewrite.Integer(s.Checkpoint), rewrite.Text(s.Position.String()),
			timeNode(s.CommitTime), rewrite.Text(s.Operation), rewrite.Integer(s.Rows), rewrite.Integer(s.Files), rewrite.Integer(s.Deleted)})
	}
	return relationOf(snapshotColumns, rows), nil
}

// splitName reads a table's name as SQL would.
func splitName(s string) (schema, name string) {
	parts, err := sqltext.Split(s)
	if err != nil || len(parts) != 1 {
		return "", s
	}
	tokens := parts[0].Tokens
	word := func(i int) string { return sqltext.Name(parts[0].Text[tokens[i].From:tokens[i].To]) }
	switch {
	case len(tokens) == 1:
		return "", word(0)
	case len(tokens) == 3 && strings.TrimSpace(parts[0].Text[tokens[1].From:tokens[1].To]) == ".":
		return word(0), word(2)
	}
	return "", s
}
