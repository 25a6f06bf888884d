package rewrite

import (
	"strings"

	"github.com/streambed/streambed/queryd/pgtext"
)

// arrayLiteral turns '{1,2}'::int[] into a list of constants under the same cast.
func arrayLiteral(n Node) {
	if text(child(n, "cast_type"), "id") != "LIST" {
		return
	}
	if list := listOfLiteral(child(n, "child")); list != nil {
		n["child"] = list
	}
}

// listOfLiteral reads a string constant that is an array's text; nil when it is none.
func listOfLiteral(n Node) Node {
	value := child(n, "value")
	s, isText := value["value"].(string)
	if text(n, "class") != "CONSTANT" || !isText || !strings.HasPrefix(strings.TrimSpace(s), "{") {
		return nil
	}
	a, err := pgtext.ParseArray(s)
	if err != nil {
		return nil
	}
	return listNode(a)
}

func listNode(a *pgtext.Array) Node {
	items := make([]Node, len(a.Elements))
	for i, e := range a.Elements {
		switch {
		case e.Inner != nil:
			items[i] = listNode(e.Inner)
		case e.Null:
			items[i] = constant(Node{"type": simpleType("NULL"), "is_null": true})
		default:
			items[i] = Text(e.Text)
		}
	}
	return Call("list_value", items...)
}

// anyOfLiteral turns x = ANY('{a,b}') into x IN ('a', 'b'), and x <> ALL (which the parser gives as NOT ANY) likewise:
// string constants take the other side's type there, as in Postgres.
func anyOfLiteral(n Node) {
	items := list(child(child(n, "subquery"), "node"), "select_list")
	kind := text(n, "comparison_type")
	if text(n, "subquery_type") != "ANY" || kind != "COMPARE_EQUAL" || len(items) != 1 {
		return
	}
	f, _ := items[0].(Node)
	args := list(f, "children")
	if text(f, "function_name") != "unnest" || len(args) != 1 {
		return
	}
	literal, _ := args[0].(Node)
	elements := listOfLiteral(literal)
	if elements == nil {
		return
	}
	if len(list(elements, "children")) == 0 {
		replace(n, Bool(false))
		return
	}
	operands := append([]any{child(n, "child")}, list(elements, "children")...)
	replace(n, Node{"class": "OPERATOR", "type": "COMPARE_IN", "query_location": n["query_location"], "children": operands})
}

// literals lets the environment read string constants that are compared with columns: Postgres gives them the column's
// type, DuckDB's text of a value may be another.
func (q *Query) literals(v any, from []relationColumns, sure bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			q.literals(e, from, sure)
		}
	case Node:
		switch {
		case text(v, "class") == "SUBQUERY":
			return
		case text(v, "class") == "COMPARISON":
			q.literal(child(v, "left"), child(v, "right"), from, sure)
			q.literal(child(v, "right"), child(v, "left"), from, sure)
		case text(v, "type") == "COMPARE_IN" || text(v, "type") == "COMPARE_NOT_IN":
			operands := list(v, "children")
			for i := 1; i < len(operands); i++ {
				column, _ := operands[0].(Node)
				constant, _ := operands[i].(Node)
				q.literal(column, constant, from, sure)
			}
		}
		for _, e := range v {
			q.literals(e, from, sure)
		}
	}
}

func (q *Query) literal(column, constant Node, from []relationColumns, sure bool) {
	if text(column, "class") != "COLUMN_REF" || text(constant, "class") != "CONSTANT" {
		return
	}
	s, ok := child(constant, "value")["value"].(string)
	if !ok {
		return
	}
	if origin := resolve(list(column, "column_names"), from, sure); origin != nil {
		if value := q.env.Literal(origin, s); value != nil {
			replace(constant, value)
		}
	}
}
