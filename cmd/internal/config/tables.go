package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

var tableKeys = []string{"name", "mode", "partition_by", "sort_by", "exclude_columns", "numeric"}

// tables reads the list of overrides by table.
func (d *decoder) tables(path string, n *yaml.Node) {
	d.config.Tables = nil
	if n.Kind != yaml.SequenceNode {
		d.fail(d.at(n), path, "must be a list; write\n    tables:\n      - {name: public.events, mode: dv}")
		return
	}
	for i, entry := range n.Content {
		d.table(fmt.Sprintf("%s[%d]", path, i), target(entry))
	}
}

func (d *decoder) table(path string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.fail(d.at(n), path, "must hold keys (%s), such as {name: public.events, mode: dv}", strings.Join(tableKeys, ", "))
		return
	}
	before := len(d.problems)
	var t Table
	if d.path != "" {
		t.Line = n.Line
	}
	named := false
	d.entries(path, n, func(name string, key, value *yaml.Node) {
		named = named || name == "name"
		d.tableKey(&t, path, name, key, target(value))
	})
	if !named {
		d.fail(d.at(n), path, "has no name; add name: schema.table")
	}
	if len(d.problems) > before {
		return
	}
	for _, other := range d.config.Tables {
		if other.Schema == t.Schema && other.Name == t.Name {
			d.fail(d.at(n), path, "the table %s.%s has overrides already; put all of them in one entry", t.Schema, t.Name)
			return
		}
	}
	d.config.Tables = append(d.config.Tables, t)
}

func (d *decoder) tableKey(t *Table, path, name string, key, value *yaml.Node) {
	full := join(path, name)
	scalar := func(f func(text string) error) {
		if value.Kind != yaml.ScalarNode || isNull(value) {
			d.fail(d.at(value), full, "must be a single value")
			return
		}
		d.expanded(full, value, func(text string) {
			if err := f(text); err != nil {
				d.fail(d.at(value), full, "%v", err)
			}
		})
	}
	list := func(f func(text string) error) {
		if value.Kind != yaml.SequenceNode {
			d.fail(d.at(value), full, "must be a list; write %s: [\"...\"]", name)
			return
		}
		for _, text := range d.texts(full, value) {
			if err := f(text); err != nil {
				d.fail(d.at(value), full, "%v", err)
			}
		}
	}
	switch name {
	case "name":
		scalar(func(text string) (err error) { t.Schema, t.Name, err = ParseTable(text); return err })
	case "mode":
		scalar(func(text string) error {
			return oneOf(func(*Config) *string { return &t.Mode }, "cow", "mor", "dv")(nil, text)
		})
	case "partition_by":
		list(func(text string) error { return addTo(&t.PartitionBy, parseTransform, text) })
	case "sort_by":
		list(func(text string) error { return addTo(&t.SortBy, parseSort, text) })
	case "exclude_columns":
		list(func(text string) error { return addTo(&t.ExcludeColumns, parseColumn, text) })
	case "numeric":
		d.numericColumns(t, full, value)
	default:
		said := "known are " + strings.Join(tableKeys, ", ")
		if near := nearest(name, tableKeys); near != "" {
			said = "did you mean " + near + "?"
		}
		d.fail(d.at(key), full, "unknown key; %s", said)
	}
}

func (d *decoder) numericColumns(t *Table, path string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.fail(d.at(n), path, `must map columns to types; write numeric: {price: "decimal(20,4)"}`)
		return
	}
	d.entries(path, n, func(name string, key, value *yaml.Node) {
		value = target(value)
		if value.Kind != yaml.ScalarNode {
			d.fail(d.at(value), join(path, name), "must be a single value")
			return
		}
		d.expanded(join(path, name), value, func(text string) {
			typ, err := ParseNumeric(text)
			if err != nil {
				d.fail(d.at(value), join(path, name), "%v", err)
				return
			}
			if t.Numeric == nil {
				t.Numeric = map[string]Numeric{}
			}
			t.Numeric[name] = typ
		})
	})
}

// addTo appends what parse makes of the text.
func addTo[T any](list *[]T, parse func(string) (T, error), text string) error {
	value, err := parse(text)
	if err == nil {
		*list = append(*list, value)
	}
	return err
}

// parseColumn reads a column's name, quoted where it holds something else than letters, digits and underscores.
func parseColumn(text string) (string, error) {
	part, rest, err := parsePart(strings.TrimSpace(text))
	if err != nil {
		return "", err
	}
	if rest != "" || !part.Quoted && strings.ContainsAny(part.Text, `*(), `) {
		return "", fmt.Errorf("%q is not a column's name; put a name with special characters in double quotes", text)
	}
	return part.Text, nil
}

// parseSort reads "column", "column asc" or "column desc".
func parseSort(text string) (SortField, error) {
	name, descending := strings.TrimSpace(text), false
	if cut, ok := cutWord(name, "desc"); ok {
		name, descending = cut, true
	} else if cut, ok := cutWord(name, "asc"); ok {
		name = cut
	}
	column, err := parseColumn(name)
	return SortField{Column: column, Descending: descending}, err
}

// cutWord removes a word after a blank at the end of text, in any case.
func cutWord(text, word string) (string, bool) {
	start := len(text) - len(word)
	if start < 2 || !strings.EqualFold(text[start:], word) || text[start-1] != ' ' {
		return text, false
	}
	return strings.TrimSpace(text[:start]), true
}

var transforms = []string{"identity", "bucket", "truncate", "year", "month", "day", "hour"}

// parseTransform reads "column", "day(column)", "bucket(16, column)" or "truncate(10, column)".
func parseTransform(text string) (Transform, error) {
	open := strings.IndexByte(text, '(')
	if open < 0 || strings.HasPrefix(strings.TrimSpace(text), `"`) {
		column, err := parseColumn(text)
		return Transform{Name: "identity", Column: column}, err
	}
	name := strings.ToLower(strings.TrimSpace(text[:open]))
	if !slices.Contains(transforms, name) {
		said := fmt.Sprintf("%q is not a transform; use one of %s", name, strings.Join(transforms, ", "))
		if near := nearest(name, transforms); near != "" {
			said = fmt.Sprintf("%q is not a transform; did you mean %s?", name, near)
		}
		return Transform{}, fmt.Errorf("%s", said)
	}
	inner, closed := strings.CutSuffix(strings.TrimSpace(text[open+1:]), ")")
	if !closed {
		return Transform{}, fmt.Errorf("%q lacks its closing parenthesis", text)
	}
	t := Transform{Name: name}
	if name == "bucket" || name == "truncate" {
		width, column, ok := strings.Cut(inner, ",")
		n, err := strconv.ParseInt(strings.TrimSpace(width), 10, 31)
		if !ok || err != nil || n < 1 {
			return Transform{}, fmt.Errorf("%q needs a whole number first; write %s(16, column)", text, name)
		}
		t.Width, inner = int(n), column
	}
	var err error
	t.Column, err = parseColumn(inner)
	return t, err
}
