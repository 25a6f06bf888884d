package queryd

import (
	"testing"

	"github.com/streambed/streambed/test/postgres"
)

func TestPsqlReadsTablesWithDeletedRows(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	table := l.source(db, "t", "CREATE TABLE t(id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 10) g")
	l.want("10|55", "SELECT count(*), sum(id) FROM t")
	l.remove(table, 0, 0, 9)
	l.want("8|44", "SELECT count(*), sum(id) FROM public.t")
	db.Exec(t, "INSERT INTO t SELECT g, NULL FROM generate_series(11, 12) g")
	l.add(db, table, "WHERE id > 10")
	l.want("9|v9\n11|<NULL>\n12|<NULL>", "SELECT id, v FROM public.t WHERE id > 8 ORDER BY id")
	l.want("1\n2", "SELECT 1", "SELECT 2")
	l.want("12|2", "SELECT a.id, b.id FROM t a JOIN t b ON a.id = b.id + 10 WHERE a.id = 12")
}
