package iceberg

import (
	"encoding/json"
	"strings"

	"github.com/streambed/streambed/formats"
)

const namespaceMark = "__iceberg_namespace_v1__:"

// namespaceKey is how a catalog stores the namespace of a source schema. A plain name stands for itself. In one with a
// dot the dot would read as a level, and one with the mark as an encoded one, so these are JSON arrays behind the mark,
// which is iceberg-go's rule; other clients see such a namespace under that name.
func namespaceKey(schema string) string {
	if !strings.Contains(schema, ".") && !strings.Contains(schema, namespaceMark) {
		return schema
	}
	encoded, err := json.Marshal([]string{schema})
	if err != nil {
		panic(err) // a list of one string
	}
	return namespaceMark + string(encoded)
}

// formatName quotes a table's name as SQL would have it, for messages.
func formatName(name formats.TableName) string {
	return quoteIdentifier(name.Schema) + "." + quoteIdentifier(name.Table)
}

func quoteIdentifier(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_')
	}) && (s[0] < '0' || s[0] > '9')
	if plain {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}
