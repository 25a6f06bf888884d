package rewrite

import (
	"fmt"
	"strings"
)

// translate gives calls and operators that DuckDB lacks, or understands otherwise, the meaning that they have in
// Postgres. It changes the node in place; names of functions are Postgres' before and DuckDB's after.
func (q *Query) translate(n Node) error {
	name := text(n, "function_name")
	args := list(n, "children")
	switch {
	case name == "regexp_full_match" && q.isMatchOperator(n):
		// Postgres' ~ looks for a match anywhere, DuckDB's matches the whole.
		n["function_name"] = "regexp_matches"
	case name == "regexp_full_match" && q.isSimilarTo(n) && len(args) == 2:
		if pattern, ok := args[1].(Node); ok {
			if value := child(pattern, "value"); value != nil {
				if s, ok := value["value"].(string); ok {
					value["value"] = similarPattern(s)
				}
			}
		}
	case likeEscapes[name] != "" && len(args) == 2:
		escapePattern(n, name, args)
	case name == "~*" && len(args) == 2:
		matchIgnoringCase(n, args)
	case name == "!~*" && len(args) == 2:
		inner := Node{}
		for k, v := range n {
			inner[k] = v
		}
		matchIgnoringCase(inner, args)
		replace(n, Node{"class": "OPERATOR", "type": "OPERATOR_NOT", "query_location": n["query_location"], "children": []any{inner}})
	case name == "date_trunc" && len(args) == 3:
		// date_trunc(field, timestamptz, zone): truncated as the zone's clock shows it.
		field, moment, zone := args[0].(Node), args[1].(Node), args[2].(Node)
		local := Call("date_trunc", field, Call("timezone", zone, Cast(moment, SimpleType("TIMESTAMP WITH TIME ZONE"))))
		replace(n, Call("timezone", zone, local))
	case (name == "+" || name == "-" || name == "*" || name == "/" || name == "%") && len(args) == 2:
		parameterBesideConstant(args)
		if name == "/" || name == "%" {
			q.guardDivisor(args)
		}
	case name == "mod" && len(args) == 2:
		q.guardDivisor(args)
	case (name == "to_timestamp" || name == "to_date") && len(args) == 2:
		parseDate(n, name, args)
	case name == "pg_typeof" && len(args) == 1:
		n["function_name"] = "typeof"
	case name == "to_char":
		toChar(n, args)
	case renames[name] != "":
		n["function_name"] = renames[name]
	}
	return nil
}

// parameterBesideConstant gives a parameter without a type that of the constant it is computed with, as Postgres does:
// DuckDB finds $1 + 100 ambiguous.
func parameterBesideConstant(args []any) {
	for i := range args {
		p, _ := args[i].(Node)
		other, _ := args[1-i].(Node)
		if text(p, "class") != "PARAMETER" || text(other, "class") != "CONSTANT" {
			continue
		}
		switch id := text(child(child(other, "value"), "type"), "id"); id {
		case "INTEGER", "BIGINT", "DOUBLE":
			args[i] = Cast(p, SimpleType(id))
		case "INTEGER_LITERAL":
			args[i] = Cast(p, SimpleType("INTEGER"))
		case "DECIMAL":
			args[i] = Cast(p, DecimalType(38, 18))
		}
	}
}

// guardDivisor makes a division by zero an error, as it is in Postgres. What is divided by a parameter is looked at when
// that has its value.
func (q *Query) guardDivisor(args []any) {
	divisor, _ := args[1].(Node)
	if divisor == nil || HasParameters(divisor) {
		return
	}
	if text(divisor, "class") == "CONSTANT" {
		if s := fmt.Sprint(child(divisor, "value")["value"]); strings.Trim(s, "0.") != "" {
			return
		}
	}
	if guarded := q.env.Expand("", "streambed_divisor", []Node{divisor}); guarded != nil {
		args[1] = guarded
	}
}

func matchIgnoringCase(n Node, args []any) {
	n["function_name"], n["is_operator"] = "regexp_matches", false
	n["children"] = append(args[:2:2], Text("i"))
}

// placeNegated gives the match within !~ and NOT SIMILAR TO the place of the whole: the parser gives it none, and only the
// text tells the two apart.
func placeNegated(n Node) {
	inner := list(n, "children")
	if len(inner) != 1 {
		return
	}
	if f, ok := inner[0].(Node); ok && text(f, "function_name") == "regexp_full_match" && place(f) < 0 {
		f["query_location"] = n["query_location"]
	}
}

// isMatchOperator tells the operators ~ and !~ from SIMILAR TO, which the parser gives the same node.
func (q *Query) isMatchOperator(n Node) bool {
	p := place(n)
	return p >= 0 && p < len(q.text) && (strings.HasPrefix(q.text[p:], "~") || strings.HasPrefix(q.text[p:], "!~"))
}

func (q *Query) isSimilarTo(n Node) bool {
	p := place(n)
	if p < 0 {
		// Within the catalog's own functions nothing has a place, and SIMILAR TO is meant.
		return true
	}
	rest := strings.ToLower(q.text[p:])
	return strings.HasPrefix(rest, "similar") || strings.HasPrefix(rest, "not")
}

// similarPattern turns a pattern of SIMILAR TO into a regular expression.
func similarPattern(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '%':
			b.WriteString(".*")
		case '_':
			b.WriteByte('.')
		case '\\':
			b.WriteByte(c)
			if i+1 < len(s) {
				i++
				b.WriteByte(s[i])
			}
		case '.', '^', '$':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
