package source

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/streambed/streambed/formats"
)

// Pattern selects tables by name: "schema.table", each part an identifier. Outside double quotes * stands for any run
// of characters, none included. Inside them every character stands for itself and "" for one quote. Parts without
// quotes match names exactly as written: there is no folding to lower case.
type Pattern struct {
	text          string
	schema, table part
}

// part is one half of a pattern: match is anchored; text is the name it stands for when it is not wild.
type part struct {
	match *regexp.Regexp
	text  string
	wild  bool
}

// ParsePattern reads a pattern; the error says what is wrong with it.
func ParsePattern(text string) (Pattern, error) {
	schema, rest, err := parsePart(text, text)
	if err != nil {
		return Pattern{}, err
	}
	if !strings.HasPrefix(rest, ".") {
		return Pattern{}, fmt.Errorf("table pattern %s has no schema: write public.%s", text, text)
	}
	table, rest, err := parsePart(text, rest[1:])
	if err != nil {
		return Pattern{}, err
	}
	if rest != "" {
		return Pattern{}, fmt.Errorf(`table pattern %s has more than two parts: write a name with dots in double quotes, as in public."a.b"`, text)
	}
	return Pattern{text: text, schema: schema, table: table}, nil
}

// parsePart reads one part from the start of s, up to a dot outside quotes.
func parsePart(pattern, s string) (part, string, error) {
	var name, expr strings.Builder
	wild, quoted, i := false, false, 0
	for ; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"' && quoted && i+1 < len(s) && s[i+1] == '"':
			name.WriteByte('"')
			expr.WriteByte('"')
			i++
		case c == '"':
			quoted = !quoted
		case c == '.' && !quoted:
			p, err := newPart(pattern, name.String(), expr.String(), wild)
			return p, s[i:], err
		case c == '*' && !quoted:
			wild = true
			name.WriteByte('*')
			expr.WriteString(`.*`)
		case c < 0x80:
			name.WriteByte(c)
			expr.WriteString(regexp.QuoteMeta(string(c)))
		default: // a piece of a multi-byte character
			name.WriteByte(c)
			expr.WriteByte(c)
		}
	}
	if quoted {
		return part{}, "", fmt.Errorf("table pattern %s has a double quote without its end", pattern)
	}
	p, err := newPart(pattern, name.String(), expr.String(), wild)
	return p, "", err
}

func newPart(pattern, name, expr string, wild bool) (part, error) {
	if name == "" {
		return part{}, fmt.Errorf("table pattern %q has an empty part: write schema.table", pattern)
	}
	match, err := regexp.Compile(`^(?s:` + expr + `)$`)
	if err != nil {
		return part{}, fmt.Errorf("table pattern %q is not valid UTF-8", pattern)
	}
	return part{match: match, text: name, wild: wild}, nil
}

// String gives the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Match reports whether the pattern selects a table of that name.
func (p Pattern) Match(name formats.TableName) bool {
	return p.schema.match.MatchString(name.Schema) && p.table.match.MatchString(name.Table)
}

// Selection is a set of tables by patterns: all that match one of Tables and none of Exclude.
type Selection struct {
	Tables, Exclude []Pattern
}

// Match reports whether a table belongs to the selection.
func (s *Selection) Match(name formats.TableName) bool {
	return matchAny(s.Tables, name) && !matchAny(s.Exclude, name)
}

func matchAny(patterns []Pattern, name formats.TableName) bool {
	for _, p := range patterns {
		if p.Match(name) {
			return true
		}
	}
	return false
}
