package rewrite

import "github.com/streambed/streambed/queryd/names"

// A column that a query only passes on is shown as its source's type (json, varchar(20)), which DuckDB's types do not
// tell. Here such columns are followed from the tables to the result, through subqueries, common table expressions and
// unions. Wherever the way is not sure, the column has no origin: a plainer type is then shown, never a wrong one.

// outputs are the columns of a query or table reference; nil means unknown.
type outputs []Column

// known is the chain of common table expressions with their columns.
type known struct {
	name    string
	columns outputs
	outer   *known
}

func (k *known) find(name string) (outputs, bool) {
	for ; k != nil; k = k.outer {
		if k.name == name {
			return k.columns, true
		}
	}
	return nil, false
}

// relationColumns is a table reference in FROM, under its alias.
type relationColumns struct {
	alias   string
	columns outputs
	// oid is of a catalog relation.
	oid uint32
	// hidden are columns that a star leaves out: those of USING come once.
	hidden map[string]bool
}

// origins follows the columns of a query node. Names in the tree are encoded by now.
func (q *Query) origins(n Node, k *known) outputs {
	for _, e := range list(child(n, "cte_map"), "map") {
		entry, _ := e.(Node)
		value := child(entry, "value")
		inner := child(child(value, "query"), "node")
		var columns outputs
		if text(inner, "type") != "RECURSIVE_CTE_NODE" {
			columns = rename(q.origins(inner, k), list(value, "aliases"))
		}
		k = &known{text(entry, "key"), columns, k}
	}
	switch text(n, "type") {
	case "SELECT_NODE":
		return q.selected(n, k)
	case "SET_OPERATION_NODE":
		return q.united(n, k)
	}
	return nil
}

// united keeps the origins that all sides share.
func (q *Query) united(n Node, k *known) outputs {
	var sides []Node
	for _, key := range []string{"left", "right"} {
		if c := child(n, key); c != nil {
			sides = append(sides, c)
		}
	}
	for _, c := range list(n, "children") {
		if c, ok := c.(Node); ok {
			sides = append(sides, c)
		}
	}
	var all outputs
	for i, side := range sides {
		columns := q.origins(side, k)
		if columns == nil || i > 0 && len(columns) != len(all) {
			return nil
		}
		if i == 0 {
			all = columns
			continue
		}
		for c := range all {
			if all[c].Origin != columns[c].Origin {
				all[c].Origin = nil
			}
		}
	}
	return all
}

func (q *Query) selected(n Node, k *known) outputs {
	from, sure := q.sources(child(n, "from_table"), k)
	q.literals(n["where_clause"], from, sure)
	var out outputs
	for _, e := range list(n, "select_list") {
		item, _ := e.(Node)
		switch text(item, "class") {
		case "STAR":
			columns := star(item, from, sure)
			if columns == nil {
				return nil
			}
			out = append(out, columns...)
		case "COLUMN_REF":
			c := Column{Name: text(item, "alias"), Origin: resolve(list(item, "column_names"), from, sure)}
			if parts := list(item, "column_names"); c.Name == "" && len(parts) > 0 {
				c.Name, _ = parts[len(parts)-1].(string)
			}
			out = append(out, c)
		default:
			if text(item, "alias") == "" {
				return nil // may stand for several columns
			}
			out = append(out, Column{Name: text(item, "alias"), Origin: q.castOrigin(item)})
		}
	}
	return out
}

// castOrigin is the origin of a cast to numeric without precision.
func (q *Query) castOrigin(n Node) any {
	if text(n, "class") == "CAST" && isNumeric(child(n, "cast_type")) {
		return q.env.Numeric()
	}
	return nil
}

// star expands a plain star, of all tables or of one.
func star(n Node, from []relationColumns, sure bool) outputs {
	if columns, _ := n["columns"].(bool); columns || n["expr"] != nil || !sure {
		return nil
	}
	for _, key := range []string{"exclude_list", "replace_list", "rename_list", "qualified_exclude_list"} {
		if len(list(n, key)) > 0 {
			return nil
		}
	}
	only := text(n, "relation_name")
	out := outputs{}
	for _, r := range from {
		if only != "" && r.alias != only {
			continue
		}
		if r.columns == nil {
			return nil
		}
		for _, c := range r.columns {
			if only != "" || !r.hidden[c.Name] {
				out = append(out, c)
			}
		}
	}
	return out
}

// resolve finds the column that a reference means; nil when it is not sure.
func resolve(parts []any, from []relationColumns, sure bool) any {
	if len(parts) == 0 || len(parts) > 2 {
		return nil
	}
	name, _ := parts[len(parts)-1].(string)
	var origin any
	found := 0
	for _, r := range from {
		if alias, _ := parts[0].(string); len(parts) == 2 && r.alias != alias {
			continue
		}
		if r.columns == nil {
			return nil
		}
		for _, c := range r.columns {
			if c.Name == name && (len(parts) == 2 || !r.hidden[name]) {
				origin = c.Origin
				found++
			}
		}
	}
	if found != 1 || !sure && len(parts) == 1 {
		return nil
	}
	return origin
}

// sources lists the table references of FROM. sure is false when there is one whose columns are not known.
func (q *Query) sources(n Node, k *known) (from []relationColumns, sure bool) {
	alias := text(n, "alias")
	switch text(n, "type") {
	case "EMPTY", "":
		return nil, true
	case "BASE_TABLE":
		name := text(n, "table_name")
		if r := q.relations[[2]string{text(n, "schema_name"), name}]; r != nil {
			columns := make(outputs, len(r.Columns))
			for i, c := range r.Columns {
				columns[i] = Column{names.Encode(c.Name), c.Origin}
			}
			columns = rename(columns, list(n, "column_name_alias"))
			return []relationColumns{{alias: alias, columns: columns, oid: r.OID}}, true
		}
		columns, _ := k.find(name)
		if alias == "" {
			alias = name
		}
		columns = rename(columns, list(n, "column_name_alias"))
		return []relationColumns{{alias: alias, columns: columns}}, columns != nil
	case "SUBQUERY":
		columns := rename(q.origins(child(child(n, "subquery"), "node"), k), list(n, "column_name_alias"))
		return []relationColumns{{alias: alias, columns: columns}}, columns != nil
	case "JOIN":
		return q.joined(n, k)
	}
	return []relationColumns{{alias: alias}}, false
}

func (q *Query) joined(n Node, k *known) ([]relationColumns, bool) {
	left, sureLeft := q.sources(child(n, "left"), k)
	right, sureRight := q.sources(child(n, "right"), k)
	sure := sureLeft && sureRight
	switch text(n, "join_type") {
	case "SEMI", "ANTI":
		return left, sureLeft
	case "INNER", "LEFT":
	default:
		// The merged column of an outer join's USING is neither side's.
		sure = sure && len(list(n, "using_columns")) == 0
	}
	if text(n, "ref_type") != "REGULAR" && text(n, "ref_type") != "CROSS" {
		sure = false
	}
	for _, c := range list(n, "using_columns") {
		name, _ := c.(string)
		for i := range right {
			if right[i].hidden == nil {
				right[i].hidden = map[string]bool{}
			}
			right[i].hidden[name] = true
		}
	}
	return append(left, right...), sure
}

// rename gives columns other names, in order; the rest keep theirs.
func rename(columns outputs, to []any) outputs {
	if columns == nil || len(to) > len(columns) {
		return nil
	}
	out := append(outputs{}, columns...)
	for i, n := range to {
		out[i].Name, _ = n.(string)
	}
	return out
}
