package rewrite

import (
	"strconv"
	"strings"

	"github.com/streambed/streambed/queryd/names"
)

// queryNodes are the kinds of query nodes that are let through.
var queryNodes = map[string]bool{
	"SELECT_NODE": true, "SET_OPERATION_NODE": true, "RECURSIVE_CTE_NODE": true, "CTE_NODE": true,
}

// query walks a query node: its common table expressions first, in order, each seeing those before it.
func (q *Query) query(n Node, s *scope) error {
	kind := text(n, "type")
	if !queryNodes[kind] {
		return refuse("0A000", n, "queries of the form %s are not supported", kind)
	}
	if kind == "RECURSIVE_CTE_NODE" {
		s = &scope{text(n, "cte_name"), s}
	}
	if kind == "CTE_NODE" {
		return refuse("0A000", n, "queries of the form %s are not supported", kind)
	}
	for _, e := range list(child(n, "cte_map"), "map") {
		entry, _ := e.(Node)
		value := child(entry, "value")
		inner := child(child(value, "query"), "node")
		if inner == nil {
			return refuse("0A000", n, "this WITH clause is not supported")
		}
		name := text(entry, "key")
		if err := q.query(inner, s); err != nil {
			return err
		}
		s = &scope{name, s}
		if err := q.all(value, s, "key_targets"); err != nil {
			return err
		}
	}
	if kind == "SELECT_NODE" {
		// Tables before expressions: they tell which names qualify columns.
		if from := child(n, "from_table"); from != nil {
			if err := q.from(from, s); err != nil {
				return err
			}
		}
		tables, _ := q.sources(child(n, "from_table"), nil)
		q.froms = append(q.froms, tables)
		defer func() { q.froms = q.froms[:len(q.froms)-1] }()
		for _, e := range list(n, "select_list") {
			if item, ok := e.(Node); ok {
				q.nameColumn(item)
			}
		}
	}
	for _, key := range []string{"left", "right"} {
		if c := child(n, key); c != nil {
			if err := q.query(c, s); err != nil {
				return err
			}
		}
	}
	for _, c := range list(n, "children") {
		if c, ok := c.(Node); ok {
			if err := q.query(c, s); err != nil {
				return err
			}
		}
	}
	return q.rest(n, s, "cte_map", "from_table", "left", "right", "children", "type")
}

// all walks the named parts of a node as expressions.
func (q *Query) all(n Node, s *scope, keys ...string) error {
	for _, k := range keys {
		if err := q.any(n[k], s); err != nil {
			return err
		}
	}
	return nil
}

// rest walks all parts of a node but the named ones as expressions.
func (q *Query) rest(n Node, s *scope, but ...string) error {
next:
	for k, v := range n {
		for _, b := range but {
			if k == b {
				continue next
			}
		}
		if err := q.any(v, s); err != nil {
			return err
		}
	}
	return nil
}

// any walks a value of the tree: an expression, a query, or something that holds some.
func (q *Query) any(v any, s *scope) error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := q.any(e, s); err != nil {
				return err
			}
		}
	case Node:
		switch {
		case v["class"] != nil:
			return q.expression(v, s)
		case v["node"] != nil:
			return q.query(child(v, "node"), s)
		case strings.HasSuffix(text(v, "type"), "_NODE"):
			return q.query(v, s)
		case v["from_table"] != nil || v["query_location"] != nil:
			return refuse("0A000", v, "this form of query (%s) is not supported", text(v, "type"))
		}
		return q.rest(v, s)
	}
	return nil
}

// from walks a table reference. What it does not know is refused.
func (q *Query) from(n Node, s *scope) error {
	switch kind := text(n, "type"); kind {
	case "EMPTY":
		return nil
	case "BASE_TABLE":
		return q.table(n, s)
	case "JOIN":
		for _, side := range []string{"left", "right"} {
			if err := q.from(child(n, side), s); err != nil {
				return err
			}
		}
		tables, _ := q.sources(n, nil)
		q.froms = append(q.froms, tables)
		defer func() { q.froms = q.froms[:len(q.froms)-1] }()
		return q.all(n, s, "condition", "duplicate_eliminated_columns")
	case "SUBQUERY":
		return q.query(child(child(n, "subquery"), "node"), s)
	case "EXPRESSION_LIST":
		nameValues(n)
		return q.all(n, s, "values")
	case "TABLE_FUNCTION":
		return q.tableFunction(n, s)
	case "PIVOT":
		return q.pivot(n, s)
	default:
		return refuse("0A000", n, "%s is not supported in FROM", strings.ReplaceAll(strings.ToLower(kind), "_", " "))
	}
}

// nameValues gives the columns of VALUES Postgres' names.
func nameValues(n Node) {
	rows := list(n, "values")
	if len(list(n, "expected_names")) > 0 || len(rows) == 0 {
		return
	}
	first, _ := rows[0].([]any)
	columns := make([]any, len(first))
	for i := range columns {
		columns[i] = "column" + strconv.Itoa(i+1)
	}
	n["expected_names"] = columns
}

func (q *Query) pivot(n Node, s *scope) error {
	if err := q.from(child(n, "source"), s); err != nil {
		return err
	}
	for _, p := range list(n, "pivots") {
		pivot, _ := p.(Node)
		if text(pivot, "pivot_enum") != "" {
			return refuse("0A000", n, "a pivot over an enum is not supported")
		}
		for _, e := range list(pivot, "entries") {
			if entry, ok := e.(Node); ok {
				if err := q.all(entry, s, "star_expr"); err != nil {
					return err
				}
			}
		}
		if err := q.all(pivot, s, "pivot_expressions", "subquery"); err != nil {
			return err
		}
	}
	return q.all(n, s, "aggregates")
}

// table puts the view of a table's version in the table's place. A name that is none of ours is an error, whatever else
// DuckDB would take it for: a file, one of its own tables, a variable.
func (q *Query) table(n Node, s *scope) error {
	schema, name := names.Decode(text(n, "schema_name")), names.Decode(text(n, "table_name"))
	if text(n, "catalog_name") != "" {
		return refuse("0A000", n, "cross-database references are not implemented: write schema.table")
	}
	var at *At
	if clause := child(n, "at_clause"); clause != nil {
		expression := child(clause, "expr")
		at = &At{Unit: text(clause, "unit"), Expression: expression, Position: place(expression)}
		if err := q.constantOnly(expression); err != nil {
			return err
		}
		if err := q.expression(expression, nil); err != nil {
			return err
		}
		n["at_clause"] = nil
	}
	if schema == "" && s.has(text(n, "table_name")) {
		if at != nil {
			return refuse("42809", n, "%q is a WITH query: AT stands behind tables", name)
		}
		return nil
	}
	relation, err := q.env.Table(schema, name, at)
	if err != nil {
		return placed(err, n)
	}
	if text(n, "alias") == "" {
		n["alias"] = text(n, "table_name")
		if schema == "" {
			schema = "public"
		}
		q.qualified[[2]string{names.Encode(schema), text(n, "table_name")}] = true
	}
	q.stand(n, &relation, text(n, "alias"), n["column_name_alias"])
	return nil
}

// stand puts what stands for a table in the place of its reference.
func (q *Query) stand(n Node, r *Relation, alias string, columns any) {
	location := n["query_location"]
	sample := n["sample"]
	clear(n)
	if columns == nil {
		columns = []any{}
	}
	with := Node{"type": "BASE_TABLE", "schema_name": r.Schema, "table_name": r.Name, "catalog_name": "", "at_clause": nil}
	if r.Query != nil {
		with = Node{"type": "SUBQUERY", "subquery": Node{"node": r.Query, "named_param_map": []any{}}}
	} else {
		q.relations[[2]string{r.Schema, r.Name}] = r
	}
	with["alias"], with["sample"], with["query_location"], with["column_name_alias"] = alias, sample, location, columns
	for k, v := range with {
		n[k] = v
	}
}

// placed gives an error the node's position where it has none.
func placed(err error, n Node) error {
	if e, ok := err.(*Error); ok && e.Position < 0 {
		e.Position = place(n)
	}
	return err
}

// constantOnly refuses an expression that reads columns or tables.
func (q *Query) constantOnly(v any) error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := q.constantOnly(e); err != nil {
				return err
			}
		}
	case Node:
		switch text(v, "class") {
		case "COLUMN_REF":
			if parts := list(v, "column_names"); len(parts) == 1 && sessionNames[parts[0].(string)] != "" {
				return nil
			}
			return refuse("42P10", v, "AT takes a constant expression: it cannot depend on a column")
		case "SUBQUERY", "WINDOW", "STAR":
			return refuse("42P10", v, "AT takes a constant expression: it cannot read tables")
		}
		for _, e := range v {
			if err := q.constantOnly(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// tableFunctions are the table functions that reach nothing outside the query.
var tableFunctions = map[string]bool{
	"range": true, "generate_series": true, "unnest": true, "json_each": true, "json_tree": true, "repeat": true, "repeat_row": true,
	"pg_timezone_names": true, "icu_calendar_names": true, "regexp_split_to_table": true, "generate_subscripts": true,
}

func (q *Query) tableFunction(n Node, s *scope) error {
	f := child(n, "function")
	if text(f, "class") != "FUNCTION" {
		return refuse("0A000", n, "this table function is not supported")
	}
	schema, name := names.Decode(text(f, "schema")), names.Decode(text(f, "function_name"))
	for _, c := range list(f, "children") {
		// A named argument (name := value) is a comparison or carries its name as an alias; both are plain expressions.
		if err := q.any(c, s); err != nil {
			return err
		}
	}
	if (schema == "" || schema == "pg_catalog" || schema == "main") && tableFunctions[name] {
		if len(list(child(f, "order_bys"), "orders")) > 0 || f["filter"] != nil {
			return refuse("42601", f, "%s takes no ORDER BY or FILTER in FROM", name)
		}
		f["schema"], f["catalog"] = "", ""
		if text(n, "alias") == "" {
			// Postgres names the only column after the function, and after the alias.
			n["alias"] = name
		}
		if len(list(n, "column_name_alias")) == 0 && (name == "range" || name == "generate_series" || name == "unnest") {
			n["column_name_alias"] = []any{text(n, "alias")}
		}
		return nil
	}
	args := make([]Node, 0, 2)
	for _, c := range list(f, "children") {
		a, ok := c.(Node)
		if !ok {
			return refuse("0A000", n, "this table function is not supported")
		}
		if err := q.constantOnly(a); err != nil {
			return err
		}
		args = append(args, a)
	}
	relation, err := q.env.TableFunction(schema, name, args)
	if err != nil {
		return placed(err, n)
	}
	alias := text(n, "alias")
	if alias == "" {
		alias = text(f, "function_name")
	}
	q.stand(n, &relation, alias, n["column_name_alias"])
	return nil
}

// parameter reads a parameter's number; names are refused.
func (q *Query) parameter(n Node) error {
	number, err := strconv.Atoi(text(n, "identifier"))
	if err != nil || number < 1 || number > 65535 {
		return refuse("42P02", n, "parameters are numbered: $1, $2, ...")
	}
	value, err := q.env.Parameter(number)
	if err != nil {
		return placed(err, n)
	}
	if value != nil {
		replace(n, value)
	}
	return nil
}
