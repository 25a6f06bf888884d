package ducklake

import (
	"maps"
	"slices"
	"strings"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
)

// nameSet hands out names that differ for DuckDB, whose identifiers ignore the case of ASCII letters even when quoted.
type nameSet map[string]bool

// take gives name, or an encoded form of it when a name that differs by case only is in use already.
func (s nameSet) take(name string) string {
	free := name
	for encoded := storage.EncodeName(name); s[fold(free)]; encoded += "_" {
		free = encoded
	}
	s[fold(free)] = true
	return free
}

func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// formatName quotes a table's name as SQL would have it, for messages.
func formatName(name formats.TableName) string {
	return quoteUnlessPlain(name.Schema) + "." + quoteUnlessPlain(name.Table)
}

func quoteUnlessPlain(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_')
	}) && (s[0] < '0' || s[0] > '9')
	if plain {
		return s
	}
	return quote(s)
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
