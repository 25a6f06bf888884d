package rewrite

// owner finds the table around the place of the walk that has a column, the innermost first.
func (q *Query) owner(column string) *relationColumns {
	for i := len(q.froms) - 1; i >= 0; i-- {
		var found *relationColumns
		for k := range q.froms[i] {
			for _, c := range q.froms[i][k].columns {
				if c.Name == column {
					if found != nil {
						return nil // ambiguous, or merged by USING
					}
					found = &q.froms[i][k]
				}
			}
		}
		if found != nil {
			return found
		}
	}
	return nil
}

// qualify names the table of columns in the arguments of a call that will be expanded: within the expression, whose own
// tables may have columns of the same name, they must still mean the tables around.
func (q *Query) qualify(args []Node) {
	for _, a := range args {
		each(a, func(n Node) {
			parts := list(n, "column_names")
			if text(n, "class") != "COLUMN_REF" || len(parts) != 1 || q.quoted(n) && len(q.froms) == 0 {
				return
			}
			name, _ := parts[0].(string)
			if t := q.owner(name); t != nil && t.alias != "" {
				n["column_names"] = []any{t.alias, name}
			}
		})
	}
}

// systemColumn answers the columns that every table of Postgres has, for the catalog's relations: tableoid, and xmin, which
// never changes here.
func (q *Query) systemColumn(n Node, parts []any) bool {
	name, _ := parts[len(parts)-1].(string)
	if name != "tableoid" && name != "xmin" || len(parts) > 2 || len(q.froms) == 0 {
		return false
	}
	for _, t := range q.froms[len(q.froms)-1] {
		alias, _ := parts[0].(string)
		if t.oid == 0 || len(parts) == 2 && t.alias != alias {
			continue
		}
		value := int64(t.oid)
		if name == "xmin" {
			value = 1
		}
		if text(n, "alias") == "" {
			n["alias"] = name
		}
		replace(n, Cast(Integer(value), SimpleType("UINTEGER")))
		return true
	}
	return false
}
