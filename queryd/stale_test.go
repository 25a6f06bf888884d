package queryd

import (
	"strings"
	"testing"

	"github.com/streambed/streambed/formats"
)

func TestTableThatIsSetAsideIsNotJoinedUnasked(t *testing.T) {
	l, table, _ := history(t)
	l.number++
	l.now = l.now.Add(1e9)
	ok(t, l.lake.Commit(t.Context(), &formats.Checkpoint{Number: l.number, From: l.at, To: l.at + 100, CommitTime: l.now, Known: l.now,
		States: []formats.TableState{{Table: table.ref, Phase: formats.Live, Schema: *table.schema, SetAside: "a value does not fit; run streambedd resync --table public.t"}}}))
	l.at += 100
	l.want("1", "SELECT count(*) FROM t")
	l.want("1", "SELECT count(*) FROM t a JOIN t b USING (id)")
	out, errors := l.psql("SELECT count(*) FROM t, u")
	if !strings.Contains(errors, "a value does not fit") || !strings.Contains(errors, "streambed.allow_stale") || out != "" {
		t.Errorf("a join with a stale table says %s%s", out, errors)
	}
	l.want("1", "SET streambed.allow_stale = on", "SELECT count(*) FROM t, u")
	l.want("a value does not fit; run streambedd resync --table public.t", "SELECT set_aside FROM streambed.tables WHERE table_name = 't'")
}
