package rewrite

import (
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/streambed/streambed/queryd/names"
)

//go:embed functions.txt
var functionList string

// functions are the scalar and aggregate functions, operators and macros that are let through.
var functions = func() map[string]bool {
	m := map[string]bool{}
	for _, name := range strings.Fields(functionList) {
		m[name] = true
	}
	return m
}()

// classes are the expression classes that are let through, beside those with a rule of their own.
var classes = map[string]bool{
	"CONSTANT": true, "COMPARISON": true, "CONJUNCTION": true, "OPERATOR": true, "CASE": true, "BETWEEN": true,
	"LAMBDA": true, "LAMBDA_REF": true, "POSITIONAL_REFERENCE": true, "SUBQUERY": true, "TYPE": true,
}

func (q *Query) expression(n Node, s *scope) error {
	switch class := text(n, "class"); class {
	case "COLUMN_REF":
		return q.column(n)
	case "STAR":
		return q.star(n, s)
	case "PARAMETER":
		return q.parameter(n)
	case "FUNCTION", "WINDOW":
		return q.function(n, s)
	case "CAST":
		if value := q.objectName(n); value != nil {
			replace(n, value)
			return q.expression(n, s)
		}
		if err := q.all(n, s, "child"); err != nil {
			return err
		}
		return q.cast(n)
	case "COLLATE":
		switch strings.ToLower(text(n, "collation")) {
		case "default", "pg_catalog.default", "c", "pg_catalog.c", "posix", "pg_catalog.posix", "ucs_basic":
			replace(n, child(n, "child"))
			return q.expression(n, s)
		}
		return q.rest(n, s)
	case "SUBQUERY":
		if err := q.all(n, s, "child"); err != nil {
			return err
		}
		if err := q.query(child(child(n, "subquery"), "node"), s); err != nil {
			return err
		}
		anyOfParameter(n)
		anyOfLiteral(n)
		return nil
	default:
		switch text(n, "type") {
		case "STRUCT_EXTRACT":
			decodeMember(n)
		case "OPERATOR_NOT":
			placeNegated(n)
		}
		if !classes[class] {
			return refuse("0A000", n, "expressions of the form %s are not supported", strings.ToLower(class))
		}
		return q.rest(n, s, "value")
	}
}

// anyOfParameter turns x = ANY($1), while $1 has no type yet, into a call from which DuckDB tells the type.
func anyOfParameter(n Node) {
	items := list(child(child(n, "subquery"), "node"), "select_list")
	if text(n, "subquery_type") != "ANY" || text(n, "comparison_type") != "COMPARE_EQUAL" || len(items) != 1 {
		return
	}
	f, _ := items[0].(Node)
	args := list(f, "children")
	if text(f, "function_name") != "unnest" || len(args) != 1 {
		return
	}
	if p, ok := args[0].(Node); ok && text(p, "class") == "PARAMETER" {
		replace(n, Call("list_contains", p, child(n, "child")))
	}
}

// decodeMember gives the member in (value).member its true name: members keep theirs.
func decodeMember(n Node) {
	parts := list(n, "children")
	if len(parts) != 2 {
		return
	}
	member, _ := parts[1].(Node)
	if value := child(member, "value"); value != nil {
		if s, ok := value["value"].(string); ok {
			value["value"] = names.Decode(s)
		}
	}
}

// sessionNames are Postgres' words that look like columns and are calls, by the function they call.
var sessionNames = map[string]string{
	"current_user": "current_user", "session_user": "session_user", "user": "current_user", "current_role": "current_user",
	"current_catalog": "current_database", "current_schema": "current_schema", "current_date": "current_date",
	"current_timestamp": "now", "localtimestamp": "localtimestamp", "current_time": "current_time", "localtime": "localtime",
}

func (q *Query) column(n Node) error {
	parts := list(n, "column_names")
	if len(parts) == 1 && !q.quoted(n) {
		name, _ := parts[0].(string)
		if f := sessionNames[name]; f != "" {
			value, err := q.env.Function("", f, nil)
			if err != nil {
				return placed(err, n)
			}
			if value != nil {
				if text(n, "alias") == "" {
					n["alias"] = name
				}
				replace(n, value)
				return nil
			}
		}
	}
	if q.systemColumn(n, parts) {
		return nil
	}
	if len(parts) > 2 {
		schema, _ := parts[0].(string)
		table, _ := parts[1].(string)
		if q.qualified[[2]string{schema, table}] {
			n["column_names"] = parts[1:]
		}
	}
	return nil
}

// quoted tells whether the name at the node's place is written in quotes.
func (q *Query) quoted(n Node) bool {
	p := place(n)
	return p >= 0 && p < len(q.text) && q.text[p] == '"'
}

func (q *Query) star(n Node, s *scope) error {
	return q.all(n, s, "expr", "replace_list", "rename_list", "qualified_exclude_list")
}

func (q *Query) function(n Node, s *scope) error {
	schema, name := text(n, "schema"), text(n, "function_name")
	args := make([]Node, 0, 4)
	for _, c := range list(n, "children") {
		if a, ok := c.(Node); ok {
			args = append(args, a)
		}
	}
	if likesArray(name, args) {
		value, err := q.likeArray(name, args)
		if err != nil {
			return err
		}
		replace(n, value)
		return q.expression(n, s)
	}
	if schema == "" || schema == "pg_catalog" || schema == "main" || schema == "information_schema" {
		q.qualify(args)
		if value := q.env.Expand(schema, name, args); value != nil {
			replace(n, value)
			return q.expression(n, s)
		}
	}
	if err := q.rest(n, s, "type", "class"); err != nil {
		return err
	}
	value, err := q.env.Function(schema, name, args)
	if err != nil {
		return placed(err, n)
	}
	if value != nil {
		replace(n, value)
		return nil
	}
	if schema == "" || schema == "pg_catalog" || schema == "main" {
		if value, err := q.jsonOperator(n, name, args); err != nil {
			return err
		} else if value != nil {
			replace(n, value)
			return q.expression(n, s)
		}
		if err := q.translate(n); err != nil || text(n, "class") != "FUNCTION" && text(n, "class") != "WINDOW" {
			return err
		}
		name = text(n, "function_name")
	}
	switch {
	case schema == "pg_catalog":
		n["schema"], n["catalog"] = "", ""
	case schema != "" && schema != "main" || text(n, "catalog") != "" && text(n, "catalog") != "system":
		return refuse("42883", n, "function %s.%s does not exist", schema, name)
	}
	if !functions[name] {
		if knownButRefused[name] {
			return refuse("42501", n, "permission denied for function %s: it reaches beyond the tables of the lake", name)
		}
		e := refuse("42883", n, "function %s does not exist", name)
		e.Hint = "No function of that name is available here. README.md lists what is translated from Postgres."
		return e
	}
	return nil
}

//go:embed refused.txt
var refusedList string

var knownButRefused = func() map[string]bool {
	m := map[string]bool{}
	for _, name := range strings.Fields(refusedList) {
		m[name] = true
	}
	return m
}()

func (q *Query) cast(n Node) error {
	t := child(n, "cast_type")
	if t == nil {
		return refuse("0A000", n, "this cast is not supported")
	}
	n["cast_type"] = q.sqlType(t)
	arrayLiteral(n)
	return nil
}

// isNumeric recognises numeric without precision, which Fold spells as the widest that computes.
func isNumeric(t Node) bool {
	info := child(t, "type_info")
	return text(t, "id") == "DECIMAL" && info["width"] == json.Number("38") && info["scale"] == json.Number("18")
}

// sqlType replaces type names that DuckDB does not know, inside lists too.
func (q *Query) sqlType(t Node) Node {
	info := child(t, "type_info")
	switch text(t, "id") {
	case "LIST", "ARRAY":
		if c := child(info, "child_type"); c != nil {
			info["child_type"] = q.sqlType(c)
		}
	case "UNBOUND":
		if r := q.env.Type(names.Decode(text(info, "schema")), names.Decode(text(info, "name"))); r != nil {
			return r
		}
	}
	return t
}
