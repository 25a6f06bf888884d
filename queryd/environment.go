package queryd

import (
	"context"
	"strconv"
	"strings"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/queryd/rewrite"
)

// environment is what one statement is read in. It implements rewrite.Environment.
type environment struct {
	ctx      context.Context
	session  *session
	plan     *plan
	params   []parameter
	describe bool
	// views are the views of AT clauses.
	views map[formats.Point]*formats.View
	// read are the tables that the statement reads.
	read []*formats.ViewTable
	// columns are the result's, as far as they come from tables as they are.
	columns []rewrite.Column
	// catalog is the catalog's relations at the statement's checkpoint, once asked for.
	catalog *catalogSet
}

// view gives the statement's checkpoint.
func (e *environment) view() (*formats.View, error) {
	if e.plan.view == nil {
		v, err := e.session.view(e.ctx)
		if err != nil {
			return nil, err
		}
		e.plan.view = v
		e.plan.read.At(v.Checkpoint)
	}
	return e.plan.view, nil
}

// view gives the checkpoint for a statement: the transaction block's, else the newest, else the one that the session has
// asked for.
func (n *session) view(ctx context.Context) (*formats.View, error) {
	if n.tx.view != nil {
		return n.tx.view, nil
	}
	read := n.engine.lease.Begin()
	v, err := n.freshView(ctx)
	if err != nil || n.tx.status != 'T' {
		read.End() // the statement's plan holds what it reads
		return v, err
	}
	read.At(v.Checkpoint)
	n.tx.view, n.tx.read = v, read
	return v, nil
}

// Table implements rewrite.Environment.
func (e *environment) Table(schema, name string, at *rewrite.At) (rewrite.Relation, error) {
	view, err := e.view()
	if err != nil {
		return rewrite.Relation{}, err
	}
	if at != nil {
		if view, err = e.at(view, at); err != nil {
			return rewrite.Relation{}, err
		}
	}
	if r, ok, err := e.own(view, schema, name); ok || err != nil {
		if at != nil && err == nil {
			err = &rewrite.Error{State: "42809", Message: quoteIdentifier(name) + " has no history: AT stands behind tables of the lake", Position: -1}
		}
		return r, err
	}
	table := e.find(view, schema, name)
	if table == nil {
		return rewrite.Relation{}, missing(schema, name, at != nil)
	}
	version, err := e.session.engine.tables.acquire(e.ctx, view, table)
	if err != nil {
		return rewrite.Relation{}, err
	}
	e.plan.pins = append(e.plan.pins, version)
	e.read = append(e.read, table)
	relation := rewrite.Relation{Schema: lakeSchema, Name: version.view}
	for i := range table.Schema.Columns {
		relation.Columns = append(relation.Columns, rewrite.Column{Name: table.Schema.Columns[i].Name, Origin: &table.Schema.Columns[i].Source})
	}
	return relation, nil
}

// own gives what stands for a relation of ours: of pg_catalog, which every search path begins with, of information_schema
// or of streambed.
func (e *environment) own(view *formats.View, schema, name string) (r rewrite.Relation, ok bool, err error) {
	switch schema {
	case "streambed":
		return e.streambedRelation(view, name)
	case "", "pg_catalog":
		if schema == "" && !strings.HasPrefix(name, "pg_") {
			break
		}
		return e.catalogRelation(view, "pg_catalog", name)
	case "information_schema":
		return e.catalogRelation(view, schema, name)
	}
	for _, s := range e.session.searchPath() {
		if s == "information_schema" && schema == "" {
			return e.catalogRelation(view, s, name)
		}
		if s == "streambed" && schema == "" {
			return e.streambedRelation(view, name)
		}
	}
	return r, false, nil
}

func missing(schema, name string, at bool) error {
	full := name
	if schema != "" {
		full = schema + "." + name
	}
	e := &rewrite.Error{State: "42P01", Message: `relation "` + full + `" does not exist`, Position: -1}
	if at {
		e.Message += " at that point"
	}
	return e
}

// find looks a table up; a name without a schema in the schemas of search_path.
func (e *environment) find(view *formats.View, schema, name string) *formats.ViewTable {
	schemas := []string{schema}
	if schema == "" {
		schemas = e.session.searchPath()
	}
	for _, s := range schemas {
		for i := range view.Tables {
			if t := &view.Tables[i]; t.Name.Table == name && t.Name.Schema == s {
				return t
			}
		}
	}
	return nil
}

// searchPath reads the setting as Postgres does.
func (n *session) searchPath() []string {
	var path []string
	for _, s := range splitIdentifiers(n.settings.get("search_path")) {
		if s == "$user" {
			s = n.user
		}
		path = append(path, s)
	}
	return path
}

// splitIdentifiers reads a comma-separated list of identifiers, quoted or folded to lower case.
func splitIdentifiers(list string) []string {
	var names []string
	for i := 0; i < len(list); {
		switch c := list[i]; {
		case c == ' ' || c == ',' || c == '\t':
			i++
		case c == '"':
			var b strings.Builder
			for i++; i < len(list); i++ {
				if list[i] == '"' {
					if i+1 < len(list) && list[i+1] == '"' {
						i++
					} else {
						break
					}
				}
				b.WriteByte(list[i])
			}
			i++
			names = append(names, b.String())
		default:
			end := i
			for end < len(list) && list[end] != ',' {
				end++
			}
			names = append(names, strings.ToLower(strings.TrimSpace(list[i:end])))
			i = end
		}
	}
	return names
}

var timeLayouts = []string{
	"2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999Z07", "2006-01-02T15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999Z07",
}

var localLayouts = []string{"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04", "2006-01-02"}

func quoteName(n formats.TableName) string {
	return quoteIdentifier(n.Schema) + "." + quoteIdentifier(n.Table)
}

// quoteIdentifier quotes a name where Postgres would.
func quoteIdentifier(s string) string {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c == '_' || i > 0 && c >= '0' && c <= '9') {
			return duck.Identifier(s)
		}
	}
	if s == "" {
		return `""`
	}
	return s
}

// TableFunction implements rewrite.Environment.
func (e *environment) TableFunction(schema, name string, args []rewrite.Node) (rewrite.Relation, error) {
	full := name
	if schema != "" {
		full = schema + "." + name
	}
	switch {
	case schema == "streambed" && name == "snapshots":
		return e.snapshots(args)
	case (schema == "" || schema == "pg_catalog") && name == "pg_get_keywords":
		return keywords(), nil
	}
	return rewrite.Relation{}, &rewrite.Error{State: "42501", Message: "function " + full + " is not available in FROM: only the lake's tables can be read", Position: -1}
}

// Function implements rewrite.Environment.
func (e *environment) Function(schema, name string, args []rewrite.Node) (rewrite.Node, error) {
	if schema != "" && schema != "pg_catalog" {
		return nil, nil
	}
	n := e.session
	switch name {
	case "current_database", "current_catalog":
		return rewrite.Text(n.database), nil
	case "current_user", "session_user", "user", "current_role":
		return rewrite.Text(n.user), nil
	case "current_schema":
		return rewrite.Text(n.currentSchema()), nil
	case "current_schemas":
		path := n.existingPath(e)
		items := make([]rewrite.Node, 0, len(path)+1)
		if len(args) == 1 && isTrue(args[0]) {
			items = append(items, rewrite.Text("pg_catalog"))
		}
		for _, s := range path {
			items = append(items, rewrite.Text(s))
		}
		return rewrite.Call("list_value", items...), nil
	case "current_setting":
		return e.currentSetting(args)
	case "set_config":
		return e.setConfig(args)
	case "version":
		return rewrite.Text("PostgreSQL " + serverVersion + " on DuckDB"), nil
	case "pg_backend_pid":
		return rewrite.Cast(rewrite.Integer(int64(n.pid)), rewrite.SimpleType("INTEGER")), nil
	case "pg_is_in_recovery":
		return rewrite.Bool(false), nil
	case "localtimestamp":
		return rewrite.Call("current_localtimestamp"), nil
	case "current_time":
		return rewrite.Call("get_current_time"), nil
	case "localtime":
		return rewrite.Call("current_localtime"), nil
	}
	return nil, nil
}

// Expand implements rewrite.Environment.
func (e *environment) Expand(schema, name string, args []rewrite.Node) rewrite.Node {
	if name == "current_setting" && len(args) > 0 {
		if _, constant := constantText(args[0]); constant {
			return nil
		}
		name, args = "streambed_setting", args[:1]
	}
	if template := e.session.engine.catalogs.templates[name+"/"+strconv.Itoa(len(args))]; template != nil {
		return rewrite.Expand(template, args)
	}
	return nil
}

// Parameter implements rewrite.Environment.
func (e *environment) Parameter(number int) (rewrite.Node, error) {
	if number > len(e.params) {
		if e.describe {
			return nil, nil
		}
		return nil, &rewrite.Error{State: "42P02", Message: "there is no parameter $" + strconv.Itoa(number), Position: -1}
	}
	p := &e.params[number-1]
	if !e.describe {
		return p.constant()
	}
	if p.oid == 0 {
		return nil, nil
	}
	return rewrite.Cast(rewrite.Parameter(number), typeNode(p.oid)), nil
}
