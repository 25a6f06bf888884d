package sqltext

import (
	"slices"
	"strings"

	"github.com/streambed/streambed/queryd/names"
)

// Folded is a query spelt so that DuckDB's parser says the names that Postgres means.
type Folded struct {
	Text string
	// edits are the replaced pieces, in order.
	edits []edit
}

// edit replaces the bytes [from, to) of a statement.
type edit struct {
	from, to int
	text     string
}

// Position gives the byte of the statement that a byte of the folded text stands for.
func (f *Folded) Position(p int) int {
	shift := 0
	for _, e := range f.edits {
		at := e.from + shift
		if p < at {
			break
		}
		if p < at+len(e.text) {
			return e.from
		}
		shift += len(e.text) - (e.to - e.from)
	}
	return p - shift
}

// Fold writes a query for DuckDB's parser, which ignores the case of every identifier: words are folded to lower case,
// quoted names are encoded (package names), words that only DuckDB reserves are quoted where they are names, and what the
// parser does not take in Postgres' spelling is respelt.
func Fold(s Statement) *Folded {
	f := &Folded{}
	for i := 0; i < len(s.Tokens); i++ {
		t := s.Tokens[i]
		switch {
		case s.keyword(i) == "operator" && s.token(i+1) == "(":
			i = f.operator(&s, i)
		case s.isOperatorPart(i):
			i = f.jsonOperator(&s, i)
			continue
		case f.anyPattern(&s, i):
		case t.Kind == Word && reservedHere[s.keyword(i)] && s.token(i+1) != "(" && (s.isNamePlace(i) || s.isAliasAt(i)) && !(s.keyword(i) == "lambda" && s.isName(i+1)):
			f.replace(t, t, `"`+lower(s.token(i))+`"`)
		case typeWords[s.keyword(i)] != "" && s.token(i+1) != "(" && s.isTypePlace(i):
			f.replace(t, t, typeWords[s.keyword(i)])
		case s.keyword(i) == "pg_catalog" && s.token(i+1) == "." && typeWords[s.keyword(i+2)] != "" && s.token(i+3) != "(" && s.isTypePlace(i):
			f.replace(t, s.Tokens[i+2], typeWords[s.keyword(i+2)])
			i += 2
			continue
		case s.keyword(i) == "pg_catalog" && s.token(i+1) == "." && s.isName(i+2) && s.isTypePlace(i):
			f.replace(t, s.Tokens[i+1], "")
			i++
			continue
		case t.Kind == Word:
			if name := names.Encode(lower(s.token(i))); name != s.token(i) {
				f.replace(t, t, name)
			}
		case t.Kind == Quoted:
			if name := Name(s.token(i)); names.Encode(name) != name {
				f.replace(t, t, `"`+strings.ReplaceAll(names.Encode(name), `"`, `""`)+`"`)
			}
		}
		if s.isName(i) && s.token(i+1) == "." && s.isName(i+2) && s.token(i+3) == "." && s.token(i+4) == "*" {
			// schema.table.*: the table is known by its own name as well.
			f.drop(t)
			f.replace(t, s.Tokens[i+1], "")
			i++
		}
	}
	f.apply(s.Text)
	return f
}

func (f *Folded) replace(first, last Token, text string) {
	f.edits = append(f.edits, edit{first.From, last.To, text})
}

// drop forgets an edit of the token.
func (f *Folded) drop(t Token) {
	f.edits = slices.DeleteFunc(f.edits, func(e edit) bool { return e.from == t.From })
}

func (f *Folded) apply(text string) {
	var b strings.Builder
	at := 0
	for _, e := range f.edits {
		b.WriteString(text[at:e.from])
		b.WriteString(e.text)
		at = e.to
	}
	b.WriteString(text[at:])
	f.Text = b.String()
}

// operator turns OPERATOR(pg_catalog.~) into the bare operator, and gives the last token of it.
func (f *Folded) operator(s *Statement, i int) int {
	end := i + 2
	for end < len(s.Tokens) && s.token(end) != ")" {
		end++
	}
	first := i + 2
	if s.keyword(first) == "pg_catalog" && s.token(first+1) == "." {
		first += 2
	}
	if end == len(s.Tokens) || first >= end {
		return i
	}
	f.replace(s.Tokens[i], s.Tokens[end], " "+s.Text[s.Tokens[first].From:s.Tokens[end-1].To]+" ")
	return end
}

// typeWords are types that DuckDB takes for others: numeric without precision for numeric(18,3), where Postgres means any
// number, and oid for a bigint.
var typeWords = map[string]string{"numeric": "numeric(38,18)", "decimal": "numeric(38,18)", "dec": "numeric(38,18)", "oid": "uinteger", "xid": "uinteger"}

// isTypePlace tells whether token i is the target type of a cast.
func (s *Statement) isTypePlace(i int) bool {
	if s.token(i-1) == ":" && s.token(i-2) == ":" {
		return true
	}
	if s.keyword(i-1) != "as" {
		return false
	}
	depth := 0
	for k := i - 1; k >= 0; k-- {
		switch s.token(k) {
		case ")":
			depth++
		case "(":
			if depth--; depth < 0 {
				word := s.keyword(k - 1)
				return word == "cast" || word == "try_cast"
			}
		}
	}
	return false
}

func (s *Statement) isName(i int) bool {
	return i >= 0 && i < len(s.Tokens) && (s.Tokens[i].Kind == Word || s.Tokens[i].Kind == Quoted)
}

// reservedHere are words that DuckDB's grammar reserves and Postgres' does not.
var reservedHere = set("describe lambda pivot pivot_longer pivot_wider qualify show summarize unpivot anti asof at by columns generated glob map positional semi struct try_cast unpack")

// beforeNames are the words that an expression or a name follows.
var beforeNames = set("select distinct all where and or not on having by when then else case between in like ilike is as from join using limit offset similar any some with set end")

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// isAliasAt tells the alias AT from the clauses that begin with the word: AT (VERSION => 1), AT TIME ZONE, AT LOCAL.
func (s *Statement) isAliasAt(i int) bool {
	next := s.keyword(i + 1)
	return i > 0 && s.keyword(i) == "at" && next != "time" && next != "local"
}

// isNamePlace tells whether a word at token i stands where a name does: after an operator, comma, point, opening
// parenthesis, or a word that an expression follows.
func (s *Statement) isNamePlace(i int) bool {
	if i == 0 {
		return false
	}
	switch before := s.Tokens[i-1]; before.Kind {
	case Symbol:
		t := s.token(i - 1)
		return t != ")" && t != "]" && t != "*"
	case Word:
		// In "GROUP BY at" the word before is BY itself; "end" closes CASE and opens nothing.
		word := s.keyword(i - 1)
		return beforeNames[word] && word != "end"
	}
	return false
}
