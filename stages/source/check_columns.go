package source

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// checkColumns finds settings by column that have nothing to act on.
func (k *checker) checkColumns(context.Context) error {
	for name, settings := range k.cfg.Columns {
		i := slices.IndexFunc(k.tables, func(t Table) bool { return t.Name == name })
		if i < 0 {
			k.add(Warning, SubjectConfig, fmt.Sprintf("tables holds settings for %s, which is not among the tables that are followed", Show(name)))
			continue
		}
		t := &k.tables[i]
		for _, column := range settings.Exclude {
			_, found := t.places([]string{column})
			switch excluded := slices.ContainsFunc(t.Excluded, func(c Column) bool { return c.Name == column }); {
			case found:
				k.add(Warning, Show(name), fmt.Sprintf("column %s of %s is part of its key and stays in the lake, although exclude_columns names it", Quote(column), Show(name)))
			case !excluded:
				k.add(Warning, Show(name), fmt.Sprintf("exclude_columns names column %s, which %s does not have", Quote(column), Show(name)))
			}
		}
		for _, column := range slices.Sorted(maps.Keys(settings.Numeric)) {
			if places, found := t.places([]string{column}); !found || t.Columns[places[0]].Type.Resolve().Name != "numeric" {
				k.add(Warning, Show(name), fmt.Sprintf("tables gives %s of %s a numeric type, and it is no numeric column", Quote(column), Show(name)))
			}
		}
	}
	return nil
}
