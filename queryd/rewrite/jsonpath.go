package rewrite

import (
	"regexp"
	"strings"
)

// jsonTests are jsonb's operators that test for keys, as Fold spells them.
var jsonTests = map[string]string{"@&": "streambed_json_has", "@&|": "streambed_json_has_any", "@&&": "streambed_json_has_all"}

// jsonOperator gives what stands for one of jsonb's operators, as Fold spells them; nil for others.
func (q *Query) jsonOperator(n Node, name string, args []Node) (Node, error) {
	if len(args) != 2 {
		return nil, nil
	}
	switch name {
	case "@->":
		return Call("json_extract", args...), nil
	case "@->>":
		return Call("json_extract_string", args...), nil
	case "@|>":
		return q.jsonPath(n, "json_extract", args)
	case "@|>>":
		return q.jsonPath(n, "json_extract_string", args)
	}
	if test := jsonTests[name]; test != "" {
		return q.env.Expand("", test, args), nil
	}
	return nil, nil
}

// index is how Postgres reads an array's index within a path, and plainIndex how DuckDB does.
var (
	index      = regexp.MustCompile(`^\s*[-+]?[0-9]+$`)
	plainIndex = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
)

// jsonPath turns value #> path into a look-up by a JSON pointer, whose tokens are indexes in arrays and keys in objects
// as in Postgres.
func (q *Query) jsonPath(n Node, function string, args []Node) (Node, error) {
	if isNull(args[1]) {
		return Call(function, args[0], Null(SimpleType("VARCHAR"))), nil
	}
	elements, ok := elementsOf(args[1])
	if !ok {
		if HasParameters(args[1]) {
			// Only to be described: with its value the parameter is a constant.
			path := Call("array_to_string", Cast(args[1], ListType(SimpleType("VARCHAR"))), Text("/"))
			return Call(function, args[0], path), nil
		}
		return nil, refuse("0A000", n, "the path of #> and #>> must be a constant here, such as '{a,b}'")
	}
	var pointer strings.Builder
	for _, e := range elements {
		if text(e, "class") == "CAST" && text(child(e, "cast_type"), "id") == "VARCHAR" {
			e = child(e, "child")
		}
		if text(e, "class") != "CONSTANT" {
			return nil, refuse("0A000", n, "the path of #> and #>> must be a constant here, such as '{a,b}'")
		}
		if isNull(e) {
			return Call(function, args[0], Null(SimpleType("VARCHAR"))), nil
		}
		s, ok := child(e, "value")["value"].(string)
		if !ok {
			return nil, refuse("42883", n, "the path of #> and #>> is an array of text")
		}
		if index.MatchString(s) && !plainIndex.MatchString(s) {
			return nil, refuse("0A000", n, "index %q in the path of #> and #>> is not supported: write it without sign, blanks and leading zeros", s)
		}
		pointer.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(s))
	}
	return Call(function, args[0], Text(pointer.String())), nil
}

// isNull recognises NULL that is written out, of whatever type.
func isNull(n Node) bool {
	for text(n, "class") == "CAST" {
		n = child(n, "child")
	}
	return text(n, "class") == "CONSTANT" && child(n, "value")["is_null"] == true
}
