package source

import (
	"fmt"
	"strings"
	"testing"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
)

func describe(s formats.Schema) string {
	var parts []string
	for _, c := range s.Columns {
		required := ""
		if c.Required {
			required = "!"
		}
		parts = append(parts, fmt.Sprintf("%d:%s%s %s%s", c.ID, c.Name, required, c.Type, nested(c.Type)))
	}
	return strings.Join(parts, ", ") + fmt.Sprintf(" (%s %v, last %d)", s.KeyKind, s.Key, s.LastFieldID)
}

func nested(t types.Type) string {
	var ids []string
	for _, f := range t.Fields {
		ids = append(ids, fmt.Sprintf("%d%s", f.ID, nested(f.Type)))
	}
	if ids == nil {
		return ""
	}
	return "[" + strings.Join(ids, " ") + "]"
}

func TestSchemaKeepsFieldIDsByAttnum(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, `CREATE TYPE pair AS (a int, b text[]);
		CREATE TABLE t (id int PRIMARY KEY, p pair, n numeric(10,2), big numeric, tags text[])`)
	schema := f.discover(t)["public.t"].Schema(types.Options{}, nil)
	step := func(ddl, want string) {
		t.Helper()
		f.Exec(t, ddl)
		next := f.discover(t)["public.t"].Schema(types.Options{}, &schema)
		if got := describe(next); got != want {
			t.Errorf("after %s:\n got %s\nwant %s", ddl, got, want)
		}
		if next.ID != schema.ID+1 {
			t.Errorf("after %s: schema %d follows %d", ddl, next.ID, schema.ID)
		}
		schema = next
	}
	first := `1:id! int, 2:p struct<a: int, b: list<string>>[6 7[8]], 3:n decimal(10,2), 4:big decimal(38,18), 5:tags list<string>[9] (primary [0], last 9)`
	if got := describe(schema); got != first {
		t.Fatalf("a new table's schema is\n%s, want\n%s", got, first)
	}
	step("SELECT 1", first)
	step("ALTER TABLE t RENAME COLUMN n TO amount", strings.Replace(first, "3:n", "3:amount", 1))
	step("ALTER TABLE t ALTER amount TYPE numeric(12,2)", strings.Replace(first, "3:n decimal(10,2)", "3:amount decimal(12,2)", 1))
	step("ALTER TABLE t DROP COLUMN big; ALTER TABLE t ADD COLUMN big numeric(5,1) DEFAULT 1.5",
		`1:id! int, 2:p struct<a: int, b: list<string>>[6 7[8]], 3:amount decimal(12,2), 5:tags list<string>[9], 10:big decimal(5,1) (primary [0], last 10)`)
	if c := schema.Columns[4]; c.Default == nil || *c.Default != "1.5" {
		t.Errorf("the added column's default is %v", c.Default)
	}
	step("ALTER TABLE t ALTER id TYPE bigint", strings.Replace(describe(schema), "1:id! int", "1:id! long", 1))
	// Another type is another column.
	step("ALTER TABLE t ALTER amount TYPE text",
		`1:id! long, 2:p struct<a: int, b: list<string>>[6 7[8]], 11:amount string, 5:tags list<string>[9], 10:big decimal(5,1) (primary [0], last 11)`)
	// A key's columns may hold NULLs in older files: they stay optional.
	step("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (big)",
		`1:id long, 2:p struct<a: int, b: list<string>>[6 7[8]], 11:amount string, 5:tags list<string>[9], 10:big decimal(5,1) (primary [4], last 11)`)
	if c := schema.Columns[4]; c.Default == nil || *c.Default != "1.5" {
		t.Errorf("the default was lost: %v", c.Default)
	}
}

func TestNumericKeyIsAString(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, `CREATE TABLE t (id numeric PRIMARY KEY, n numeric)`)
	schema := f.discover(t)["public.t"].Schema(types.Options{Numeric: types.Type{Kind: types.Decimal, Precision: 20, Scale: 3}}, nil)
	if got := describe(schema); got != `1:id! string, 2:n decimal(20,3) (primary [0], last 2)` {
		t.Errorf("got %s", got)
	}
}
