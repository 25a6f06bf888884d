package endtoend

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
	_ "modernc.org/sqlite"
)

const arranged = `
create table events(id bigint primary key, at timestamptz, region text, body text, n int);
alter table events alter body set storage external;
insert into events select g, '2024-01-30 22:00:00+00'::timestamptz + g * interval '1 minute', case when g % 7 > 0 then 'r ' || g % 3 end,
	case when g % 10 = 0 then repeat(g::text, 2000) end, g % 100 from generate_series(1, 3000) g;
create table docs(id int primary key, kind text, n int);
alter table docs alter kind set storage external;
insert into docs select g, repeat('k', 3000), 0 from generate_series(1, 300) g;
create table twins(at date, v text);
alter table twins replica identity full;
insert into twins select '2024-02-01'::date + g % 3, 'v' || g % 5 from generate_series(1, 60) g;
`

// partitions counts, in the catalog, the live files of a table with and without a partition, and its partitions.
func (p *pipeline) partitions(table string) (with, without, distinct int) {
	p.t.Helper()
	catalog, err := sql.Open("sqlite", "file:"+filepath.Join(p.dir, "catalog.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		p.t.Fatal(err)
	}
	defer catalog.Close()
	if err := catalog.QueryRow(`WITH live AS (SELECT d.* FROM ducklake_data_file d JOIN ducklake_table t ON t.table_id = d.table_id
			WHERE t.table_name = $1 AND t.end_snapshot IS NULL AND d.end_snapshot IS NULL)
		SELECT (SELECT count(partition_id) FROM live), (SELECT count(*) - count(partition_id) FROM live),
			(SELECT count(DISTINCT v) FROM (SELECT group_concat(COALESCE(partition_value, '-')) v FROM ducklake_file_partition_value
				JOIN live USING (data_file_id) GROUP BY data_file_id))`, table).Scan(&with, &without, &distinct); err != nil {
		p.t.Fatal(err)
	}
	return with, without, distinct
}

// TestPartitionedAndSortedTablesFollowTheSource: rows that are copied, streamed, moved between partitions and compacted are
// found again, over a crash, and every file has a partition.
func TestPartitionedAndSortedTablesFollowTheSource(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, postgres.ForTest(t), arranged)
	p.edit("format: iceberg, mode: dv", "format: ducklake")
	p.edit("memory: 256MiB", `memory: 256MiB
tables:
  - {name: public.events, partition_by: ["day(at)", region], sort_by: [n desc, id]}
  - {name: public.docs, partition_by: [kind], sort_by: [n]}
  - {name: public.twins, partition_by: [at], sort_by: [v]}`)
	d := p.start()
	d.ready()
	p.same(d, "events", "twins")
	with, without, distinct := p.partitions("events")
	if with < 9 || without != 0 || distinct < 9 { // three days, three regions and rows without one
		t.Fatalf("after the copy %d files have a partition of %d, %d have none", with, distinct, without)
	}
	change := func(round int) {
		t.Helper()
		p.source.Exec(t, fmt.Sprintf(`
			update events set at = at + interval '1 day', n = n + 1 where id %% 11 = %[1]d;
			update events set region = 'r 9' where id %% 13 = %[1]d;
			delete from events where id %% 17 = %[1]d;
			insert into events select 10000 * (%[1]d + 1) + g, '2024-03-01 10:00+00', 'r ''/=' || g %% 4, repeat('x', 3000), g from generate_series(1, 300) g;
			delete from twins where ctid in (select ctid from twins where v = 'v1' limit 3);
			update twins set at = at + 1 where ctid in (select ctid from twins limit 5);
			insert into twins select '2024-02-01', 'v1' from generate_series(1, 4)`, round))
	}
	change(0)
	p.source.Exec(t, "update docs set n = id") // a large kind that did not change is not sent: it is not NULL
	p.same(d, "events", "twins", "docs")
	if with, without, _ = p.partitions("docs"); with != 0 || without == 0 {
		t.Errorf("%d files of kinds that are not known have a partition, %d have none", with, without)
	}
	change(1)
	d.kill()
	change(2)
	d = p.start()
	d.ready()
	p.same(d, "events", "twins")
	for i, task := range []string{"flush", "compact", "flush", "compact"} {
		if code, out := p.command("maintain", task); code != 0 {
			t.Fatalf("maintain %s exits with %d and says %s", task, code, out)
		}
		change(3 + i)
		p.same(d, "events", "twins")
	}
	if _, without, _ = p.partitions("events"); without != 0 {
		t.Errorf("%d files have no partition", without)
	}
	for _, table := range []string{"public.events", "public.twins"} {
		if code, out := p.command("verify", "--table", table); code != 0 || !strings.Contains(out, "equal") {
			t.Errorf("verify exits with %d and says %s", code, out)
		}
	}
	d.stop(syscall.SIGTERM)
	d = p.start()
	d.ready()
	p.source.Exec(t, "update events set body = null where id % 5 = 0; truncate twins; insert into twins values ('2024-05-05', null), (null, 'a')")
	d.eventually(time.Minute, "the rows without a body", func() (bool, string) {
		got, err := rows(t.Context(), p.lakeURL(), "select count(*) from events where id % 5 = 0 and body is not null")
		return err == nil && len(got) == 1 && got[0] == `"0"`, fmt.Sprint(got, err)
	})
	p.same(d, "events", "twins")
}
