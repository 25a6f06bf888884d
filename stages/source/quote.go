package source

import (
	"fmt"
	"strings"

	"github.com/streambed/streambed/formats"
)

// Quote makes an SQL identifier of any name.
func Quote(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// QuoteTable makes a schema-qualified SQL identifier.
func QuoteTable(name formats.TableName) string {
	return Quote(name.Schema) + "." + Quote(name.Table)
}

// QuoteLiteral makes an SQL string constant of any text, whatever standard_conforming_strings says.
func QuoteLiteral(text string) string {
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if strings.Contains(text, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// Show gives a table's name for people: quoted only where it would have to be in SQL (reserved words aside), so that
// different tables always look different.
func Show(name formats.TableName) string {
	return show(name.Schema) + "." + show(name.Table)
}

func show(name string) string {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r == '_'
		if !letter && (i == 0 || !(r >= '0' && r <= '9' || r == '$')) {
			return Quote(name)
		}
	}
	if name == "" {
		return `""`
	}
	return name
}

// ParseName reads a table's name "schema.table" whose parts may be quoted. Parts without quotes are taken as they are
// written, without folding to lower case.
func ParseName(text string) (formats.TableName, error) {
	p, err := ParsePattern(text)
	if err != nil {
		return formats.TableName{}, err
	}
	name := formats.TableName{Schema: p.schema.text, Table: p.table.text}
	if p.schema.wild || p.table.wild {
		return formats.TableName{}, fmt.Errorf("%s names many tables, one is needed; a * that belongs to a name is written in double quotes", text)
	}
	return name, nil
}
