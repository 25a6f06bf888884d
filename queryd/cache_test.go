package queryd

import (
	"testing"

	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/test/postgres"
)

// remote hides that a store's objects are local, as those of a bucket are not.
type remote struct{ storage.Store }

func (remote) Local(string) string { return "" }

func TestObjectsOfABucketAreReadThroughTheCache(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLakeOn(t, func(s storage.Store) storage.Store { return remote{s} })
	table := l.source(db, "t", "CREATE TABLE t(id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 1000) g")
	l.want("1000|500500", "SELECT count(*), sum(id) FROM t")
	l.remove(table, 0, 0)
	l.want("999|500499", "SELECT count(*), sum(id) FROM t")
	if s := l.server.engine.tables.cache.Stats(); s.Misses != 1 {
		t.Errorf("%+v: the file was fetched more than once", s)
	}
}
