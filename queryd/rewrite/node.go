package rewrite

import (
	"encoding/json"
	"strconv"
)

// Node is a node of the parse tree, as json_serialize_sql writes it.
type Node = map[string]any

// noPlace is the query_location of nodes that the parser made up.
const noPlace = "18446744073709551615"

func text(n Node, key string) string {
	s, _ := n[key].(string)
	return s
}

func list(n Node, key string) []any {
	l, _ := n[key].([]any)
	return l
}

func child(n Node, key string) Node {
	c, _ := n[key].(Node)
	return c
}

// place gives the node's byte offset in the statement, -1 when it has none.
func place(n Node) int {
	number, _ := n["query_location"].(json.Number)
	if number == noPlace {
		return -1
	}
	p, err := strconv.Atoi(string(number))
	if err != nil {
		return -1
	}
	return p
}

// replace makes node n into another in its place, keeping its alias.
func replace(n, with Node) {
	alias := text(n, "alias")
	clear(n)
	for k, v := range with {
		n[k] = v
	}
	n["alias"] = alias
}

// Text makes a string constant.
func Text(s string) Node {
	return constant(Node{"type": simpleType("VARCHAR"), "is_null": false, "value": s})
}

// Null makes a NULL of a type.
func Null(sqlType Node) Node {
	return Cast(constant(Node{"type": simpleType("NULL"), "is_null": true}), sqlType)
}

// Integer makes an integer constant that fits 64 bits.
func Integer(i int64) Node {
	return constant(Node{"type": simpleType("BIGINT"), "is_null": false, "value": i})
}

// Bool makes a truth value.
func Bool(b bool) Node {
	return constant(Node{"type": simpleType("BOOLEAN"), "is_null": false, "value": b})
}

func constant(value Node) Node {
	return Node{"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "query_location": json.Number(noPlace), "value": value}
}

func simpleType(id string) Node { return Node{"id": id, "type_info": nil} }

// SimpleType makes a type without arguments by DuckDB's name of it, such as "BIGINT".
func SimpleType(id string) Node { return simpleType(id) }

// ListType makes the type of lists.
func ListType(element Node) Node {
	return Node{"id": "LIST", "type_info": Node{"type": "LIST_TYPE_INFO", "alias": "", "extension_info": nil, "child_type": element}}
}

// NamedType makes a type by a name that is looked up.
func NamedType(name string) Node {
	return Node{"id": "UNBOUND", "type_info": Node{"type": "UNBOUND_TYPE_INFO", "alias": "", "extension_info": nil, "name": name,
		"catalog": "", "schema": "", "user_type_modifiers": []any{}}}
}

// DecimalType makes DECIMAL(width, scale).
func DecimalType(width, scale int) Node {
	return Node{"id": "DECIMAL", "type_info": Node{"type": "DECIMAL_TYPE_INFO", "alias": "", "extension_info": nil, "width": width, "scale": scale}}
}

// Cast casts an expression.
func Cast(n, sqlType Node) Node {
	return Node{"class": "CAST", "type": "OPERATOR_CAST", "alias": "", "query_location": json.Number(noPlace), "child": n,
		"cast_type": sqlType, "try_cast": false}
}

// Call calls a function.
func Call(name string, args ...Node) Node {
	children := make([]any, len(args))
	for i, a := range args {
		children[i] = a
	}
	return Node{"class": "FUNCTION", "type": "FUNCTION", "alias": "", "query_location": json.Number(noPlace), "function_name": name,
		"schema": "", "children": children, "filter": nil, "order_bys": Node{"type": "ORDER_MODIFIER", "orders": []any{}},
		"distinct": false, "is_operator": false, "export_state": false, "catalog": ""}
}

// selectOf makes the tree of SELECT expression.
func selectOf(expression Node) Node {
	return Node{"type": "SELECT_NODE", "modifiers": []any{}, "cte_map": Node{"map": []any{}}, "select_list": []any{expression},
		"from_table": Node{"type": "EMPTY", "alias": "", "sample": nil, "query_location": json.Number(noPlace)}, "where_clause": nil,
		"group_expressions": []any{}, "group_sets": []any{}, "aggregate_handling": "STANDARD_HANDLING", "having": nil, "sample": nil, "qualify": nil}
}

// statement wraps a query node as json_deserialize_sql takes it.
func statement(query Node) Node {
	return Node{"error": false, "statements": []any{Node{"node": query, "named_param_map": []any{}}}}
}

// SelectExpression makes the statement SELECT expression.
func SelectExpression(expression Node) Tree { return Tree{statement(selectOf(expression))} }

// Parameter makes parameter $number.
func Parameter(number int) Node {
	return Node{"class": "PARAMETER", "type": "VALUE_PARAMETER", "alias": "", "query_location": json.Number(noPlace), "identifier": strconv.Itoa(number)}
}

// HasParameters tells whether parameters are left in a tree.
func HasParameters(n Node) bool {
	found := map[string]bool{}
	collectParameters(n, found)
	return len(found) > 0
}

// Tree is a statement made of nodes.
type Tree struct{ root Node }

// JSON gives the tree for json_deserialize_sql.
func (t Tree) JSON() ([]byte, error) { return json.Marshal(t.root) }

// ParseExpression reads json_serialize_sql's answer for SELECT expression.
func ParseExpression(answer []byte) (Node, error) {
	p, err := Parse(answer)
	if err != nil {
		return nil, err
	}
	items := list(child(p.statement, "node"), "select_list")
	if len(items) != 1 {
		return nil, &Error{State: "XX000", Message: "one expression was expected", Position: -1}
	}
	n, _ := items[0].(Node)
	return n, nil
}

// Expand copies an expression with copies of args in place of its parameters. Nothing of it has a place in the text.
func Expand(template Node, args []Node) Node {
	n, _ := expand(template, args, true).(Node)
	return n
}

func expand(v any, args []Node, own bool) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = expand(e, args, own)
		}
		return out
	case Node:
		if own && text(v, "class") == "PARAMETER" {
			if k, err := strconv.Atoi(text(v, "identifier")); err == nil && k >= 1 && k <= len(args) {
				return expand(args[k-1], nil, false)
			}
		}
		out := make(Node, len(v))
		for k, e := range v {
			out[k] = expand(e, args, own)
		}
		if _, placed := out["query_location"]; placed && own {
			out["query_location"] = json.Number(noPlace)
		}
		return out
	}
	return v
}

// Column makes a reference to a column.
func ColumnRef(parts ...string) Node {
	names := make([]any, len(parts))
	for i, p := range parts {
		names[i] = p
	}
	return Node{"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "query_location": json.Number(noPlace), "column_names": names}
}

// Values makes the query SELECT CAST(column1 AS type) AS name, ... FROM (VALUES rows); without rows it gives none.
func Values(columns []string, sqlTypes []Node, rows [][]Node) Node {
	query := selectOf(nil)
	items := make([]any, len(columns))
	for i, name := range columns {
		value := ColumnRef("column" + strconv.Itoa(i+1))
		if len(rows) == 0 {
			value = constant(Node{"type": simpleType("NULL"), "is_null": true})
		}
		item := Cast(value, sqlTypes[i])
		item["alias"] = name
		items[i] = item
	}
	query["select_list"] = items
	if len(rows) == 0 {
		query["where_clause"] = Bool(false)
		return query
	}
	expected, lines := make([]any, len(columns)), make([]any, len(rows))
	for i := range columns {
		expected[i] = "column" + strconv.Itoa(i+1)
	}
	for i, row := range rows {
		line := make([]any, len(row))
		for k, v := range row {
			line[k] = v
		}
		lines[i] = line
	}
	query["from_table"] = Node{"type": "EXPRESSION_LIST", "alias": "valueslist", "sample": nil, "query_location": json.Number(noPlace),
		"expected_names": expected, "expected_types": []any{}, "values": lines}
	return query
}
