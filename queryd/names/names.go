// Package names keeps identifiers apart that differ only by case, which DuckDB does not.
package names

import "strings"

// DuckDB compares identifiers without regard to case, even quoted ones; Postgres does not. Each capital letter of a name
// (ASCII ones, the only ones DuckDB folds) is therefore written as a mark and the small letter, which keeps different
// names different. The mark is a character of Unicode's private use area; one that stands in a name is doubled.
const mark = "\uf8fe"

// Encode gives the name that DuckDB knows an identifier by.
func Encode(name string) string {
	if !needsEncoding(name) {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c >= 'A' && c <= 'Z':
			b.WriteString(mark)
			b.WriteByte(c + 'a' - 'A')
		case strings.HasPrefix(name[i:], mark):
			b.WriteString(mark + mark)
			i += len(mark) - 1
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func needsEncoding(name string) bool {
	for i := 0; i < len(name); i++ {
		if c := name[i]; c >= 'A' && c <= 'Z' || c == mark[0] && strings.HasPrefix(name[i:], mark) {
			return true
		}
	}
	return false
}

// Decode gives the true form of all encoded names in a text: a column's name, an error message, a plan.
func Decode(text string) string {
	if !strings.Contains(text, mark) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if !strings.HasPrefix(text[i:], mark) {
			b.WriteByte(text[i])
			continue
		}
		i += len(mark)
		switch {
		case strings.HasPrefix(text[i:], mark):
			b.WriteString(mark)
			i += len(mark) - 1
		case i < len(text) && text[i] >= 'a' && text[i] <= 'z':
			b.WriteByte(text[i] - 'a' + 'A')
		default:
			i--
		}
	}
	return b.String()
}
