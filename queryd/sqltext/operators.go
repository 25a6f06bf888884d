package sqltext

import "strings"

// operators are Postgres' operators that DuckDB's grammar lacks or gives another precedence, by the spelling that it reads
// as any other operator: Postgres gives them all that precedence. Package rewrite knows them by these spellings.
var operators = map[string]string{
	"->": "@->", "->>": "@->>", "#>": "@|>", "#>>": "@|>>", "?": "@&", "?|": "@&|", "?&": "@&&",
}

// jsonOperator respells one of the operators at token i, and gives the last token of it; i where there is none. An arrow
// is one only before a constant: before anything else it may begin the body of a lambda.
func (f *Folded) jsonOperator(s *Statement, i int) int {
	end := i
	for end+1 < len(s.Tokens) && s.isOperatorPart(end+1) && s.Tokens[end+1].From == s.Tokens[end].To {
		end++
	}
	written := s.Text[s.Tokens[i].From:s.Tokens[end].To]
	for (strings.HasSuffix(written, "-") || strings.HasSuffix(written, "+")) && end > i && !strings.ContainsAny(written, "~!@#%^&|`?") {
		// As in Postgres, a sign at its end is not the operator's.
		written = written[:len(written)-1]
		end--
	}
	spelling := operators[written]
	if spelling == "" || written == "->" && !s.isConstant(end+1) {
		return end
	}
	f.replace(s.Tokens[i], s.Tokens[end], " "+spelling+" ")
	return end
}

func (s *Statement) isOperatorPart(i int) bool {
	return s.Tokens[i].Kind == Symbol && strings.Contains("+-*/<>=~!@#%^&|`?", s.token(i))
}

func (s *Statement) isConstant(i int) bool {
	if t := s.token(i); t == "-" || t == "+" {
		i++
	}
	if i >= len(s.Tokens) {
		return false
	}
	kind := s.Tokens[i].Kind
	return kind == String || kind == Number || kind == Param
}

// anyPattern respells LIKE ANY (array) as a call, which the parser takes; package rewrite expands it.
func (f *Folded) anyPattern(s *Statement, i int) bool {
	if before := s.keyword(i - 1); before != "like" && before != "ilike" || s.token(i+1) != "(" {
		return false
	}
	switch s.keyword(i) {
	case "any", "some":
		f.replace(s.Tokens[i], s.Tokens[i], "streambed_any")
	case "all":
		f.replace(s.Tokens[i], s.Tokens[i], "streambed_all")
	default:
		return false
	}
	return true
}
