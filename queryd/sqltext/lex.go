// Package sqltext reads SQL as far as a server must before it asks a parser: tokens, statements, and the commands that
// are not queries (SET, BEGIN, COPY, cursors). Queries themselves are parsed by DuckDB.
package sqltext

import (
	"fmt"
	"strings"
)

// Kind is the kind of a token.
type Kind uint8

// The kinds of tokens. A Word is a keyword or an unquoted identifier.
const (
	Word Kind = iota + 1
	Quoted
	String
	Number
	Param
	Symbol
)

// Token is a piece of a statement: the bytes [From, To) of the text it was read from.
type Token struct {
	Kind     Kind
	From, To int
}

// Error is a mistake in a statement's text.
type Error struct {
	// State is the SQLSTATE.
	State   string
	Message string
	// Position is the byte offset in the text; -1 when unknown.
	Position int
}

func (e *Error) Error() string { return e.Message }

func syntaxError(position int, format string, args ...any) error {
	return &Error{"42601", fmt.Sprintf(format, args...), position}
}

// Lex splits a text into tokens by Postgres' lexical rules; comments and spaces are left out.
func Lex(s string) ([]Token, error) {
	var tokens []Token
	for i := 0; i < len(s); {
		c := s[i]
		next, kind := 0, Symbol
		var err error
		switch {
		case isSpace(c):
			i++
			continue
		case c == '-' && strings.HasPrefix(s[i:], "--"):
			if end := strings.IndexAny(s[i:], "\r\n"); end >= 0 {
				i += end
			} else {
				i = len(s)
			}
			continue
		case c == '/' && strings.HasPrefix(s[i:], "/*"):
			if i, err = endOfComment(s, i); err != nil {
				return nil, err
			}
			continue
		case c == '\'':
			kind = String
			next, err = endOfString(s, i, i, false)
		case c == '"':
			kind = Quoted
			next, err = endOfIdentifier(s, i)
		case isPrefixedString(s, i):
			kind = String
			next, err = endOfString(s, i, i+strings.IndexByte(s[i:], '\''), c|0x20 == 'e')
		case isWordStart(c):
			kind, next = Word, i+1
			for next < len(s) && isWordPart(s[next]) {
				next++
			}
		case c >= '0' && c <= '9', c == '.' && i+1 < len(s) && isDigit(s[i+1]):
			kind, next = Number, endOfNumber(s, i)
		case c == '$' && i+1 < len(s) && isDigit(s[i+1]):
			kind, next = Param, i+1
			for next < len(s) && isDigit(s[next]) {
				next++
			}
		case c == '$':
			kind = String
			next, err = endOfDollarString(s, i)
			if next == i+1 {
				kind = Symbol
			}
		default:
			next = i + 1
		}
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, Token{kind, i, next})
		i = next
	}
	return tokens, nil
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'
}
func isDigit(c byte) bool     { return c >= '0' && c <= '9' }
func isWordStart(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c >= 0x80 }
func isWordPart(c byte) bool  { return isWordStart(c) || isDigit(c) || c == '$' }

// isPrefixedString recognises E”, B”, X”, N” and U&”.
func isPrefixedString(s string, i int) bool {
	rest := s[i:]
	if len(rest) > 1 && rest[1] == '\'' {
		return strings.IndexByte("eEbBxXnN", rest[0]) >= 0
	}
	return len(rest) > 2 && rest[0]|0x20 == 'u' && rest[1] == '&' && rest[2] == '\''
}

func endOfComment(s string, start int) (int, error) {
	depth := 0
	for i := start; i < len(s)-1; i++ {
		switch s[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			i++
			if depth--; depth == 0 {
				return i + 1, nil
			}
		}
	}
	return 0, syntaxError(start, "unterminated /* comment")
}

func endOfString(s string, start, quote int, escapes bool) (int, error) {
	for i := quote + 1; i < len(s); i++ {
		switch {
		case escapes && s[i] == '\\':
			i++
		case s[i] == '\'':
			if i+1 < len(s) && s[i+1] == '\'' {
				i++
				continue
			}
			return i + 1, nil
		}
	}
	return 0, syntaxError(start, "unterminated quoted string")
}

func endOfIdentifier(s string, start int) (int, error) {
	for i := start + 1; i < len(s); i++ {
		if s[i] != '"' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '"' {
			i++
			continue
		}
		if i == start+1 {
			return 0, syntaxError(start, "zero-length delimited identifier")
		}
		return i + 1, nil
	}
	return 0, syntaxError(start, "unterminated quoted identifier")
}

func endOfDollarString(s string, start int) (int, error) {
	end := start + 1
	for end < len(s) && isWordPart(s[end]) && s[end] != '$' {
		end++
	}
	if end >= len(s) || s[end] != '$' {
		return start + 1, nil
	}
	tag := s[start : end+1]
	stop := strings.Index(s[end+1:], tag)
	if stop < 0 {
		return 0, syntaxError(start, "unterminated dollar-quoted string")
	}
	return end + 1 + stop + len(tag), nil
}

func endOfNumber(s string, i int) int {
	for i < len(s) && (isDigit(s[i]) || s[i] == '.' || s[i] == '_') {
		i++
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if j < len(s) && isDigit(s[j]) {
			for i = j; i < len(s) && isDigit(s[i]); i++ {
			}
		}
	}
	return i
}

// Statement is one statement of a text.
type Statement struct {
	// Text is the statement without the semicolon; Offset is where it stands in the whole, in bytes.
	Text   string
	Offset int
	// Tokens point into Text.
	Tokens []Token
}

// Split cuts a text at its semicolons; empty statements are left out.
func Split(s string) ([]Statement, error) {
	tokens, err := Lex(s)
	if err != nil {
		return nil, err
	}
	var statements []Statement
	first := 0
	for i := 0; i <= len(tokens); i++ {
		if i < len(tokens) && s[tokens[i].From:tokens[i].To] != ";" {
			continue
		}
		if i > first {
			from, to := tokens[first].From, tokens[i-1].To
			part := Statement{s[from:to], from, make([]Token, i-first)}
			for k, t := range tokens[first:i] {
				part.Tokens[k] = Token{t.Kind, t.From - from, t.To - from}
			}
			statements = append(statements, part)
		}
		first = i + 1
	}
	return statements, nil
}

// token gives the text of token i, "" past the end.
func (s *Statement) token(i int) string {
	if i < 0 || i >= len(s.Tokens) {
		return ""
	}
	return s.Text[s.Tokens[i].From:s.Tokens[i].To]
}

// keyword gives token i in lower case if it is a word, else "".
func (s *Statement) keyword(i int) string {
	if i < 0 || i >= len(s.Tokens) || s.Tokens[i].Kind != Word {
		return ""
	}
	return strings.ToLower(s.token(i))
}

// from gives the statement that begins at token i of s.
func (s *Statement) from(i int) Statement {
	if i >= len(s.Tokens) {
		return Statement{Offset: s.Offset + len(s.Text)}
	}
	start := s.Tokens[i].From
	part := Statement{s.Text[start:], s.Offset + start, make([]Token, len(s.Tokens)-i)}
	for k, t := range s.Tokens[i:] {
		part.Tokens[k] = Token{t.Kind, t.From - start, t.To - start}
	}
	return part
}

// between gives the statement made of the tokens [i, j).
func (s *Statement) between(i, j int) Statement {
	part := *s
	part.Tokens = s.Tokens[:j]
	if j > 0 {
		part.Text = s.Text[:s.Tokens[j-1].To]
	}
	return part.from(i)
}

// Name reads an identifier as Postgres does: unquoted ones are folded to lower case (ASCII letters only), quoted ones
// keep theirs.
func Name(token string) string {
	if strings.HasPrefix(token, `"`) {
		return strings.ReplaceAll(token[1:len(token)-1], `""`, `"`)
	}
	return lower(token)
}

func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// Unquote gives the value of a string constant.
func Unquote(token string) string {
	quote := strings.IndexByte(token, '\'')
	if strings.HasPrefix(token, "$") {
		end := strings.IndexByte(token[1:], '$') + 2
		return token[end : len(token)-end]
	}
	if quote < 0 {
		return token
	}
	body := strings.ReplaceAll(token[quote+1:len(token)-1], "''", "'")
	if quote == 1 && token[0]|0x20 == 'e' {
		return unescape(body)
	}
	return body
}

func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
