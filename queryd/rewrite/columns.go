package rewrite

import "strings"

// nameColumn gives a select item without an alias the name that Postgres would show; plain columns and stars have theirs.
func (q *Query) nameColumn(n Node) {
	if text(n, "alias") != "" {
		return
	}
	switch text(n, "class") {
	case "STAR", "PARAMETER", "COLUMN_REF":
		if text(n, "class") == "PARAMETER" {
			n["alias"] = "?column?"
		}
		return
	}
	if text(n, "function_name") == "columns" {
		// These may stand for several columns.
		return
	}
	if containsStar(n) {
		return
	}
	name, _ := q.columnName(n)
	n["alias"] = name
}

func containsStar(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if containsStar(e) {
				return true
			}
		}
	case Node:
		if text(v, "class") == "STAR" {
			return true
		}
		if text(v, "class") == "SUBQUERY" {
			return false
		}
		for _, e := range v {
			if containsStar(e) {
				return true
			}
		}
	}
	return false
}

// columnName follows Postgres' FigureColname; strength 2 is a good name, 1 a type's, 0 none.
func (q *Query) columnName(n Node) (name string, strength int) {
	switch text(n, "class") {
	case "COLUMN_REF":
		if parts := list(n, "column_names"); len(parts) > 0 {
			last, _ := parts[len(parts)-1].(string)
			return last, 2
		}
	case "FUNCTION", "WINDOW":
		if operator, _ := n["is_operator"].(bool); operator {
			return "?column?", 0
		}
		if name := q.written(n); name != "" && name != "trim" {
			return name, 2
		}
		if name := functionNames[text(n, "function_name")]; name != "" {
			return name, 2
		}
		return text(n, "function_name"), 2
	case "CAST":
		if name, strength := q.columnName(child(n, "child")); strength == 2 {
			return name, 2
		}
		if name := typeName(child(n, "cast_type")); name != "" {
			return name, 1
		}
	case "CASE":
		if e := child(n, "else_expr"); e != nil {
			if name, strength := q.columnName(e); strength == 2 {
				return name, 2
			}
		}
		return "case", 1
	case "COLLATE":
		return q.columnName(child(n, "child"))
	case "SUBQUERY":
		return q.subqueryName(n)
	case "OPERATOR":
		switch text(n, "type") {
		case "OPERATOR_COALESCE":
			return "coalesce", 2
		case "OPERATOR_NULLIF":
			return "nullif", 2
		case "ARRAY_CONSTRUCTOR":
			return "array", 2
		case "ARRAY_EXTRACT", "ARRAY_SLICE":
			if c := list(n, "children"); len(c) > 0 {
				if first, ok := c[0].(Node); ok {
					return q.columnName(first)
				}
			}
		case "STRUCT_EXTRACT":
			if c := list(n, "children"); len(c) > 1 {
				if field, ok := c[1].(Node); ok {
					if s := text(child(field, "value"), "value"); s != "" {
						return s, 2
					}
				}
			}
		}
	}
	return "?column?", 0
}

func (q *Query) subqueryName(n Node) (string, int) {
	switch text(n, "subquery_type") {
	case "EXISTS", "NOT_EXISTS":
		return "exists", 2
	case "SCALAR":
		node := child(child(n, "subquery"), "node")
		if items := list(node, "select_list"); len(items) == 1 {
			item, _ := items[0].(Node)
			if alias := text(item, "alias"); alias != "" {
				return alias, 2
			}
			return q.columnName(item)
		}
	}
	return "?column?", 0
}

// written gives the name that a call is written with; "" when it is not written as a call.
func (q *Query) written(n Node) string {
	p := place(n)
	if p < 0 || p >= len(q.text) {
		return ""
	}
	end := p
	for end < len(q.text) && (q.text[end] >= 'a' && q.text[end] <= 'z' || q.text[end] == '_' || end > p && q.text[end] >= '0' && q.text[end] <= '9') {
		end++
	}
	if !strings.HasPrefix(strings.TrimLeft(q.text[end:], " "), "(") {
		return ""
	}
	return q.text[p:end]
}

// functionNames are calls that the parser makes of another spelling, by the name that Postgres shows.
var functionNames = map[string]string{
	"count_star": "count", "list_value": "array", "struct_pack": "row", "array_extract": "?column?", "trim": "btrim",
	"list_contains": "?column?", "timezone": "timezone", "regexp_full_match": "?column?", "regexp_matches": "?column?",
}

// typeNames are Postgres' internal names of DuckDB's types.
var typeNames = map[string]string{
	"BOOLEAN": "bool", "TINYINT": "int2", "SMALLINT": "int2", "INTEGER": "int4", "BIGINT": "int8", "HUGEINT": "numeric", "FLOAT": "float4",
	"DOUBLE": "float8", "DECIMAL": "numeric", "VARCHAR": "text", "BLOB": "bytea", "DATE": "date", "TIME": "time", "TIMESTAMP": "timestamp",
	"TIMESTAMP WITH TIME ZONE": "timestamptz", "TIME WITH TIME ZONE": "timetz", "INTERVAL": "interval", "UUID": "uuid", "LIST": "array",
}

func typeName(t Node) string {
	if name := typeNames[text(t, "id")]; name != "" {
		return name
	}
	if text(t, "id") == "UNBOUND" {
		return strings.ToLower(text(child(t, "type_info"), "name"))
	}
	return ""
}
