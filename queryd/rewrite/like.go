package rewrite

import "strings"

// likeEscapes are LIKE and its kin, by DuckDB's function that takes the escape character: Postgres has the backslash
// without being told, DuckDB has none.
var likeEscapes = map[string]string{"~~": "like_escape", "!~~": "not_like_escape", "~~*": "ilike_escape", "!~~*": "not_ilike_escape"}

// likeTemplates match a value with each pattern of a list.
var likeTemplates = map[string]string{"~~": "streambed_like", "!~~": "streambed_not_like", "~~*": "streambed_ilike", "!~~*": "streambed_not_ilike"}

// escapePattern gives LIKE the backslash as escape character, unless the pattern is known to have none.
func escapePattern(n Node, name string, args []any) {
	pattern, _ := args[1].(Node)
	if s, ok := child(pattern, "value")["value"].(string); ok && text(pattern, "class") == "CONSTANT" && !strings.Contains(s, `\`) {
		return
	}
	n["function_name"], n["is_operator"], n["children"] = likeEscapes[name], false, append(args[:2:2], Text(`\`))
}

// likesArray recognises x LIKE ANY (array) and its kin, as Fold spells them.
func likesArray(name string, args []Node) bool {
	if likeEscapes[name] == "" || len(args) != 2 || text(args[1], "class") != "FUNCTION" || text(args[1], "schema") != "" {
		return false
	}
	f := text(args[1], "function_name")
	return (f == "streambed_any" || f == "streambed_all") && len(list(args[1], "children")) == 1
}

// likeArray expands x LIKE ANY (array): patterns that are written out become comparisons of their own, which DuckDB may
// evaluate within a scan.
func (q *Query) likeArray(name string, args []Node) (Node, error) {
	value := args[0]
	array, _ := list(args[1], "children")[0].(Node)
	conjunction, of := "CONJUNCTION_OR", "streambed_any_of"
	if text(args[1], "function_name") == "streambed_all" {
		conjunction, of = "CONJUNCTION_AND", "streambed_all_of"
	}
	if patterns, ok := elementsOf(array); ok {
		// The constant is the answer for no pattern at all, and changes no other.
		matches := []any{Bool(conjunction == "CONJUNCTION_AND")}
		for _, p := range patterns {
			match := Call(name, Expand(value, nil), Cast(p, SimpleType("VARCHAR")))
			if text(p, "class") == "CONSTANT" && child(p, "value")["is_null"] == false {
				match = Call(name, Expand(value, nil), p)
			}
			match["is_operator"] = true
			matches = append(matches, match)
		}
		return Node{"class": "CONJUNCTION", "type": conjunction, "alias": "", "query_location": args[1]["query_location"], "children": matches}, nil
	}
	matches := q.env.Expand("", likeTemplates[name], []Node{value, array})
	return q.env.Expand("", of, []Node{matches}), nil
}

// elementsOf gives the elements of an array that is written out, as ARRAY[...] or as a text '{...}'.
func elementsOf(array Node) ([]Node, bool) {
	if text(array, "class") == "CAST" && text(child(array, "cast_type"), "id") == "LIST" {
		array = child(array, "child")
	}
	if l := listOfLiteral(array); l != nil {
		array = l
	}
	if text(array, "type") != "ARRAY_CONSTRUCTOR" && text(array, "function_name") != "list_value" {
		return nil, false
	}
	var elements []Node
	for _, e := range list(array, "children") {
		element, ok := e.(Node)
		if !ok {
			return nil, false
		}
		elements = append(elements, element)
	}
	return elements, true
}
