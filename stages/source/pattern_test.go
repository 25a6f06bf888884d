package source

import (
	"testing"
	"unicode/utf8"

	"github.com/streambed/streambed/formats"
)

func TestPatternSelectsByExactNames(t *testing.T) {
	for _, c := range []struct {
		pattern, schema, table string
		match                  bool
	}{
		{"public.*", "public", "orders", true},
		{"public.*", "publics", "orders", false},
		{"public.*", "public", "a.b\nc", true},
		{"*.*", "x y", `"`, true},
		{"public.ord*rs", "public", "ordrs", true},
		{"public.ord*rs", "public", "orders_rs", true},
		{"public.orders", "public", "Orders", false},
		{"Public.Orders", "Public", "Orders", true},
		{`public."a.b"`, "public", "a.b", true},
		{`public."a.b"`, "public.a", "b", false},
		{`"public.a".b`, "public.a", "b", true},
		{`public."a*"`, "public", "ab", false},
		{`public."a*"*`, "public", "a*b", true},
		{`public."say ""hi"""`, "public", `say "hi"`, true},
		{"public.a(b|c)", "public", "ab", false},
		{"public.a+[b]", "public", "a+[b]", true},
		{"public.名*", "public", "名前", true},
		{"public.a", "public", "a\n", false},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if got := p.Match(formats.TableName{Schema: c.schema, Table: c.table}); got != c.match {
			t.Errorf("%s matches %q.%q: %v", c.pattern, c.schema, c.table, got)
		}
	}
}

func TestBadPatternsAreRefusedWithARemedy(t *testing.T) {
	for pattern, want := range map[string]string{
		"orders":      "table pattern orders has no schema: write public.orders",
		"a.b.c":       `table pattern a.b.c has more than two parts: write a name with dots in double quotes, as in public."a.b"`,
		`public."a`:   `table pattern public."a has a double quote without its end`,
		"public.":     `table pattern "public." has an empty part: write schema.table`,
		".t":          `table pattern ".t" has an empty part: write schema.table`,
		"":            `table pattern "" has an empty part: write schema.table`,
		"public.\xff": `table pattern "public.\xff" is not valid UTF-8`,
	} {
		if _, err := ParsePattern(pattern); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", pattern, err, want)
		}
	}
	if _, err := ParseName("public.*"); err == nil {
		t.Error("a pattern passes for a name")
	}
}

// FuzzShow proves that what Show prints names the one table, and reads back as it.
func FuzzShow(f *testing.F) {
	f.Add("public", "orders")
	f.Add(`a"b`, "c.*")
	f.Add("名", " \n")
	f.Fuzz(func(t *testing.T, schema, table string) {
		if schema == "" || table == "" || !utf8.ValidString(schema) || !utf8.ValidString(table) {
			t.Skip()
		}
		name := formats.TableName{Schema: schema, Table: table}
		got, err := ParseName(Show(name))
		if err != nil || got != name {
			t.Errorf("%+v shows as %s, which reads as %+v, %v", name, Show(name), got, err)
		}
	})
}

// FuzzParsePattern proves that no pattern makes it fall over.
func FuzzParsePattern(f *testing.F) {
	f.Add(`public."a.b"*`)
	f.Add(`"".""`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePattern(text)
		if err == nil {
			p.Match(formats.TableName{Schema: "public", Table: text})
		}
	})
}
