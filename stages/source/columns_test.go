package source

import (
	"strings"
	"testing"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
)

// TestColumnsAreLeftOutButForTheKeys: and settings that do nothing are found.
func TestColumnsAreLeftOutButForTheKeys(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, "CREATE TABLE t (secret text, a int, price numeric, b int, PRIMARY KEY (b, a))")
	f.publish(t)
	before := f.discover(t)["public.t"].Fingerprint
	decimal := types.Type{Kind: types.Decimal, Precision: 10, Scale: 2}
	f.cfg.Columns = map[formats.TableName]ColumnSettings{
		{Schema: "public", Table: "t"}: {Exclude: []string{"secret", "a", "nowhere"}, Numeric: map[string]types.Type{"price": decimal, "b": decimal}},
		{Schema: "public", Table: "u"}: {Exclude: []string{"x"}},
	}
	table := f.discover(t)["public.t"]
	if got := columnNames(table) + " " + keyNames(table); got != "a,price,b primary:b,a" || len(table.Excluded) != 1 {
		t.Errorf("got %s without %+v", got, table.Excluded)
	}
	if got := table.Schema(types.Options{}, nil).Columns[1].Type; got.Precision != 10 || got.Scale != 2 {
		t.Errorf("price is %v", got)
	}
	if table.Fingerprint == before || !SamePublication(table.Fingerprint, before) {
		t.Errorf("the fingerprint was %q and is %q", before, table.Fingerprint)
	}
	var said []string
	for _, finding := range f.check(t) {
		said = append(said, finding.Text)
	}
	all := strings.Join(said, "\n")
	for _, want := range []string{`column "a" of public.t is part of its key`, `column "nowhere", which public.t does not have`, `gives "b" of public.t a numeric type`, "settings for public.u"} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing says %q:\n%s", want, all)
		}
	}
}
