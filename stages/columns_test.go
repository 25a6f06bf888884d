package stages

import (
	"testing"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages/source"
)

// TestColumnsThatMayBeOthersAreNotFollowed: held has the columns of attnums 1 and 2; the transaction is number 100.
func TestColumnsThatMayBeOthersAreNotFollowed(t *testing.T) {
	held := &formats.TableState{Schema: formats.Schema{Columns: []formats.Column{{Attnum: 1}, {Attnum: 2}}}}
	column := func(attnum int16, xmin uint32) source.Column { return source.Column{Attnum: attnum, Xmin: xmin} }
	for _, c := range []struct {
		name    string
		columns []source.Column
		sure    bool
		follows bool
	}{
		{"nothing new", []source.Column{column(1, 500), column(2, 500)}, false, true},
		{"added before", []source.Column{column(1, 5), column(2, 5), column(3, 99)}, false, true},
		{"added by the transaction itself", []source.Column{column(1, 5), column(2, 5), column(3, 100)}, false, true},
		{"added before the ids wrapped around", []source.Column{column(1, 5), column(2, 5), column(3, 4294967290)}, false, true},
		{"added or altered since", []source.Column{column(1, 5), column(2, 5), column(3, 101)}, true, false},
		{"dropped", []source.Column{column(1, 5)}, false, true},
		{"one dropped and one added at once", []source.Column{column(1, 5), column(3, 99)}, true, true},
		{"one dropped and one added, and rows between them", []source.Column{column(1, 5), column(3, 99)}, false, false},
	} {
		now := &source.Table{Columns: c.columns}
		if err := followable(held, now, 100, c.sure); (err == nil) != c.follows {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
