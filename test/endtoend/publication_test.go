package endtoend

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// says waits until the daemon's log has a line with all the words.
func (d *daemon) says(words ...string) {
	d.t.Helper()
	d.eventually(time.Minute, fmt.Sprintf("the log to say %q", words), func() (bool, string) {
		for line := range strings.Lines(d.said()) {
			found := true
			for _, word := range words {
				found = found && strings.Contains(line, word)
			}
			if found {
				return true, ""
			}
		}
		return false, ""
	})
}

const twoTables = `CREATE TABLE one (id int PRIMARY KEY, v text); INSERT INTO one SELECT g, 'v' || g FROM generate_series(1, 100) g;
	CREATE TABLE two (id int PRIMARY KEY, v text); INSERT INTO two VALUES (1, 'x')`

// TestATableTakenOutOfThePublicationAndPutBackIsCopiedAnew: what was written meanwhile never comes through the stream,
// while the daemon runs as well as while it is down.
func TestATableTakenOutOfThePublicationAndPutBackIsCopiedAnew(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.ForTest(t), twoTables)
	d := p.start()
	d.ready()
	gap := func(n int) string {
		return fmt.Sprintf(`ALTER PUBLICATION streambed_%[1]s DROP TABLE one; INSERT INTO one VALUES (%[2]d, 'unpublished');
			UPDATE one SET v = 'gap %[2]d' WHERE id = 1`, p.source.Name, n)
	}
	back := "ALTER PUBLICATION streambed_" + p.source.Name + " ADD TABLE one"
	p.source.Exec(t, gap(1001))
	p.source.Exec(t, back)
	d.says("public.one", "copied anew", "publication")
	p.same(d, "one", "two")
	p.source.Exec(t, gap(1002)) // nobody puts it back: we do
	p.same(d, "one")
	d.stop(15)
	p.source.Exec(t, gap(1003))
	p.source.Exec(t, back)
	d = p.start()
	d.says("public.one", "copied anew", "publication")
	p.same(d, "one", "two")
	d.stop(15)
	if strings.Contains(d.said(), "public.two") && strings.Contains(d.said(), `"table": "public.two", "because"`) {
		t.Errorf("the other table was copied anew too:\n%s", d.tail())
	}
}

// TestOurPublicationDroppedHealsByItself: the server cannot decode what was changed while there was none.
func TestOurPublicationDroppedHealsByItself(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.ForTest(t), twoTables)
	d := p.start()
	d.ready()
	p.source.Exec(t, "UPDATE one SET v = 'before'")
	p.same(d, "one")
	p.source.Exec(t, fmt.Sprintf("DROP PUBLICATION streambed_%s; DROP PUBLICATION streambed_%[1]s_append", p.source.Name))
	p.source.Exec(t, "UPDATE one SET v = 'unpublished'; INSERT INTO two VALUES (2, 'unpublished')")
	because := "publication was dropped"
	if version, _ := strconv.Atoi(p.source.Query(t, "SHOW server_version_num")[0][0]); version >= 180000 {
		because = "publication" // the server goes on without it, and sends nothing: the next look at its catalog tells
	}
	d.says(because, "copied anew")
	p.same(d, "one", "two")
	p.source.Exec(t, "INSERT INTO two VALUES (3, 'after')")
	p.same(d, "one", "two")
}

// TestAUsersPublicationIsHonoured: its row filter and column list hold for copy and stream alike, a change of them copies
// the table anew, and its loss is waited for rather than mended by another.
func TestAUsersPublicationIsHonoured(t *testing.T) {
	t.Parallel()
	server := postgres.ForTest(t)
	p := newPipeline(t, server, `CREATE TABLE one (id int PRIMARY KEY, region text, secret text);
		INSERT INTO one SELECT g, CASE WHEN g % 2 = 0 THEN 'eu' ELSE 'us' END, 's' FROM generate_series(1, 100) g;
		ALTER TABLE one REPLICA IDENTITY FULL;
		CREATE TABLE two (id int PRIMARY KEY, v text); CREATE TABLE three (id int PRIMARY KEY)`)
	name := "streambed_" + p.source.Name
	p.source.Exec(t, "CREATE PUBLICATION "+name+" FOR TABLE one WHERE (region = 'eu'), two (id)")
	d := p.start()
	d.ready()
	lake := func(sql string, want ...string) {
		t.Helper()
		d.eventually(time.Minute, "the lake to give "+fmt.Sprint(want), func() (bool, string) {
			got, err := rows(t.Context(), p.lakeURL(), sql)
			if err != nil {
				return false, err.Error()
			}
			return fmt.Sprint(got) == fmt.Sprint(want), fmt.Sprint(got)
		})
	}
	lake("select count(*) from one", `"50"`)
	p.source.Exec(t, "INSERT INTO one VALUES (201, 'eu', 's'), (202, 'us', 's'); UPDATE one SET region = 'eu' WHERE id = 1; UPDATE one SET region = 'us' WHERE id = 2; INSERT INTO two VALUES (1, 'not sent')")
	lake("select count(*), sum(id) from one", `"51", "2750"`)
	lake("select * from two", `"1"`)
	lake("select count(*) from information_schema.tables where table_name = 'three'", `"0"`)
	p.source.Exec(t, "ALTER PUBLICATION "+name+" SET TABLE one WHERE (region = 'us'), two")
	d.says("public.one", "copied anew", "publication")
	lake("select count(*), min(region) from one", `"51", "us"`)
	lake("select * from two", `"1", "not sent"`)
	p.source.Exec(t, "DROP PUBLICATION "+name)
	p.source.Exec(t, "INSERT INTO two VALUES (2, 'unpublished')")
	d.says("was dropped or renamed", "CREATE PUBLICATION")
	if got := p.source.Query(t, "SELECT count(*) FROM pg_publication"); got[0][0] != "0" {
		t.Error("another publication was made in its place")
	}
	p.source.Exec(t, "CREATE PUBLICATION "+name+" FOR TABLE one, two")
	p.same(d, "one", "two")
}
