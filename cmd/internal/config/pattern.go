package config

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Pattern is a table pattern, checked but not compiled: matching is the source's business. Each part is an identifier in
// which, unless it is quoted, * stands for any run of characters. Case is kept: a pattern means the table whose name is
// spelt like it.
type Pattern struct {
	Schema, Table Part
}

// Part is one side of a pattern.
type Part struct {
	// Text is the identifier, without quotes.
	Text string
	// Quoted parts are taken literally.
	Quoted bool
}

// Exact reports whether the pattern means one table only.
func (p Pattern) Exact() bool { return p.Schema.exact() && p.Table.exact() }

func (p Part) exact() bool { return p.Quoted || !strings.Contains(p.Text, "*") }

// ParsePattern reads schema.table, where a part may be quoted as in SQL (public."a.b", "quo""te"), and hold * when it
// is not.
func ParsePattern(text string) (Pattern, error) {
	schema, rest, err := parsePart(text)
	if err != nil {
		return Pattern{}, err
	}
	if rest == "" {
		if schema.Text == "*" {
			return Pattern{}, fmt.Errorf("%q names no schema; write *.* for every table of every schema", text)
		}
		return Pattern{}, fmt.Errorf("%q names no schema; write schema.table, such as public.%s", text, text)
	}
	table, rest, err := parsePart(rest[1:])
	if err != nil {
		return Pattern{}, err
	}
	if rest != "" {
		return Pattern{}, fmt.Errorf("%q has more than two parts; write schema.table, and put a part that holds a dot in double quotes", text)
	}
	return Pattern{Schema: schema, Table: table}, nil
}

// ParseTable reads the name of one table, schema.table, with parts quoted where they hold a dot or a quote.
func ParseTable(text string) (schema, table string, err error) {
	p, err := ParsePattern(text)
	if err != nil {
		return "", "", err
	}
	if !p.Exact() {
		return "", "", fmt.Errorf("%q is a pattern; name one table, as schema.table", text)
	}
	return p.Schema.Text, p.Table.Text, nil
}

// parsePart reads one identifier; rest is "" or begins with the dot after it.
func parsePart(text string) (part Part, rest string, err error) {
	if !utf8.ValidString(text) {
		return Part{}, "", fmt.Errorf("%q is not valid UTF-8", text)
	}
	if quoted, ok := strings.CutPrefix(text, `"`); ok {
		var out strings.Builder
		for {
			end := strings.IndexByte(quoted, '"')
			if end < 0 {
				return Part{}, "", fmt.Errorf("%q has a double quote that is not closed", text)
			}
			out.WriteString(quoted[:end])
			quoted = quoted[end+1:]
			if !strings.HasPrefix(quoted, `"`) {
				break
			}
			out.WriteByte('"')
			quoted = quoted[1:]
		}
		part, rest = Part{Text: out.String(), Quoted: true}, quoted
		if rest != "" && rest[0] != '.' {
			return Part{}, "", fmt.Errorf("%q goes on after a closing quote; write schema.table", text)
		}
	} else {
		end := strings.IndexByte(text, '.')
		if end < 0 {
			end = len(text)
		}
		part, rest = Part{Text: text[:end]}, text[end:]
		if strings.Contains(part.Text, `"`) {
			return Part{}, "", fmt.Errorf("%q has a double quote in the middle; quote the whole part and double quotes inside it", text)
		}
	}
	switch {
	case part.Text == "":
		return Part{}, "", fmt.Errorf("an empty name; write schema.table")
	case strings.ContainsRune(part.Text, 0):
		return Part{}, "", fmt.Errorf("%q holds a zero byte, which no Postgres name can", text)
	case part.exact() && len(part.Text) > 63:
		return Part{}, "", fmt.Errorf("%q is longer than the 63 bytes of a Postgres name", part.Text)
	}
	return part, rest, nil
}
