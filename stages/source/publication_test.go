package source

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/test/postgres"
)

func (f *fixture) publications(t testing.TB) string {
	t.Helper()
	var lines []string
	for _, row := range f.Query(t, `SELECT pubname, pubinsert::int::text || pubupdate::int || pubdelete::int || pubtruncate::int || pubviaroot::int,
		COALESCE(string_agg(prrelid::regclass::text, ' ' ORDER BY prrelid::regclass::text), '')
		FROM pg_publication p LEFT JOIN pg_publication_rel r ON prpubid = p.oid GROUP BY 1, 2 ORDER BY 1`) {
		lines = append(lines, strings.Join(row, " "))
	}
	return strings.Join(lines, "\n")
}

func TestPublicationsAreMadeOnceAndTablesMoveWithTheirIdentity(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, "CREATE TABLE keyed (id int PRIMARY KEY); CREATE TABLE bare (id int)")
	for range 2 {
		if err := EnsurePublications(t.Context(), f.conn, f.cfg); err != nil {
			t.Fatal(err)
		}
		for _, table := range f.discover(t) {
			if err := AddTable(t.Context(), f.conn, f.cfg, table); err != nil {
				t.Fatal(err)
			}
		}
		want := "Streambed \"test\" 11111 keyed\nStreambed \"test\"_append 10011 bare"
		if got := f.publications(t); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
	f.Exec(t, "ALTER TABLE bare REPLICA IDENTITY FULL; ALTER TABLE keyed REPLICA IDENTITY NOTHING")
	for _, table := range f.discover(t) {
		if err := AddTable(t.Context(), f.conn, f.cfg, table); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := f.publications(t), "Streambed \"test\" 11111 bare\nStreambed \"test\"_append 10011 keyed"; got != want {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
	for _, table := range f.discover(t) {
		if table.Publication != table.Target {
			t.Errorf("%s is in %s and belongs in %s", Show(table.Name), table.Publication, table.Target)
		}
		for range 2 {
			if err := DropTable(t.Context(), f.conn, f.cfg, table); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, want := f.publications(t), "Streambed \"test\" 11111 \nStreambed \"test\"_append 10011 "; got != want {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
}

// Promise 5: a lock that is not to be had is given up, and the source's own statements pass us while we wait.
func TestAddingATableUnderAConflictingLockTimesOutAndBlocksNobody(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, "CREATE TABLE t (id int PRIMARY KEY)")
	if err := EnsurePublications(t.Context(), f.conn, f.cfg); err != nil {
		t.Fatal(err)
	}
	table := f.discover(t)["public.t"]
	holder := connect(t, f.URL())
	if _, err := holder.PgConn().Exec(t.Context(), "BEGIN; LOCK TABLE public.t IN SHARE UPDATE EXCLUSIVE MODE").ReadAll(); err != nil {
		t.Fatal(err)
	}
	added := make(chan error, 1)
	go func() { added <- AddTable(t.Context(), f.conn, f.cfg, table) }()
	postgres.Eventually(t, "our wait for the lock", func() bool {
		return len(f.Query(t, "SELECT 1 FROM pg_locks WHERE relation = 't'::regclass AND NOT granted")) == 1
	})
	f.Exec(t, "SET lock_timeout = '1s'; INSERT INTO t VALUES (1); UPDATE t SET id = 2; SELECT * FROM t FOR UPDATE; DELETE FROM t")
	if len(f.Query(t, "SELECT 1 FROM pg_locks WHERE relation = 't'::regclass AND NOT granted")) != 1 {
		t.Log("the wait was over before the statements were: they prove less on this machine")
	}
	mustBe(t, <-added, ErrLockTimeout)
	if f.discover(t)["public.t"].Publication != "" {
		t.Error("the table was added all the same")
	}
	if _, err := holder.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := AddTable(t.Context(), f.conn, f.cfg, table); err != nil {
		t.Fatal(err)
	}
}

func TestATableThatIsGoneOrReplacedIsNotAdded(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
	if err := EnsurePublications(t.Context(), f.conn, f.cfg); err != nil {
		t.Fatal(err)
	}
	before := f.discover(t)
	f.Exec(t, "DROP TABLE a; ALTER TABLE b RENAME TO c; CREATE TABLE b (id int)")
	mustBe(t, AddTable(t.Context(), f.conn, f.cfg, before["public.a"]), ErrTableGone)
	mustBe(t, AddTable(t.Context(), f.conn, f.cfg, before["public.b"]), ErrTableGone)
	if got, want := f.publications(t), "Streambed \"test\" 11111 \nStreambed \"test\"_append 10011 "; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAUsersOwnPublicationIsHonouredAsItIs(t *testing.T) {
	f := newFixture(t)
	own := Quote(f.cfg.Publication)
	f.Exec(t, `CREATE TABLE a (id int PRIMARY KEY, secret text, n int); CREATE TABLE b (id int PRIMARY KEY); CREATE TABLE "C c" (id int PRIMARY KEY);
		CREATE TABLE root (id int PRIMARY KEY) PARTITION BY LIST (id); CREATE TABLE leaf PARTITION OF root FOR VALUES IN (1);
		CREATE SCHEMA whole; CREATE TABLE whole.t (id int PRIMARY KEY);
		CREATE PUBLICATION `+own+` FOR TABLE a (id, n) WHERE (n > 5 AND id <> 3), root, whole.t`)
	if err := EnsurePublications(t.Context(), f.conn, f.cfg); err != nil {
		t.Fatal(err)
	}
	tables := f.discover(t)
	if len(tables) != 3 || tables["public.leaf"] == nil || tables["whole.t"] == nil {
		t.Fatalf("found %v", tables)
	}
	a := tables["public.a"]
	if columnNames(a) != "id,n" || a.Publication != f.cfg.Publication || a.Target != a.Publication || a.Fingerprint == "" {
		t.Errorf("a is %+v", a)
	}
	f.Exec(t, "INSERT INTO a VALUES (1, 'x', 6), (2, 'y', 5), (3, 'z', 7)")
	if got := f.Query(t, "SELECT id FROM a WHERE "+a.Filter); len(got) != 1 || got[0][0] != "1" {
		t.Errorf("the filter %q lets %v through", a.Filter, got)
	}
	if len(f.Query(t, "SELECT 1 FROM pg_publication")) != 1 {
		t.Error("a publication of ours was made beside the user's own")
	}
	mustBe(t, AddTable(t.Context(), f.conn, f.cfg, &Table{Name: a.Name, OID: a.OID, Target: "other"}), ErrNotOurs)
	if err := errors.Join(AddTable(t.Context(), f.conn, f.cfg, a), DropTable(t.Context(), f.conn, f.cfg, a)); err != nil {
		t.Error(err)
	}
	// Postgres has a column list and a whole schema in one publication exclude each other.
	f.Exec(t, "ALTER PUBLICATION "+own+" SET TABLE a, root; ALTER PUBLICATION "+own+" ADD TABLES IN SCHEMA whole")
	before := f.discover(t)["whole.t"].Fingerprint
	f.Exec(t, "ALTER PUBLICATION "+own+" DROP TABLES IN SCHEMA whole")
	f.Exec(t, "ALTER PUBLICATION "+own+" ADD TABLES IN SCHEMA whole")
	if f.discover(t)["whole.t"].Fingerprint == before {
		t.Error("taking the schema out and back was not told")
	}
	// With the root's names, partitions are listed no more.
	f.Exec(t, "ALTER PUBLICATION "+own+" SET (publish_via_partition_root = true, publish = 'insert')")
	if tables := f.discover(t); tables["public.root"] == nil || tables["public.leaf"] != nil || !tables["public.root"].AppendOnly {
		t.Errorf("found %v", tables)
	}
	f.Exec(t, "DROP PUBLICATION "+own+"; CREATE PUBLICATION "+own+" FOR ALL TABLES")
	if tables := f.discover(t); len(tables) != 5 || tables[`public."C c"`] == nil || tables["public.root"] != nil {
		t.Errorf("found %v", tables)
	}
	if done, err := Teardown(t.Context(), f.cfg); err != nil || len(f.Query(t, "SELECT 1 FROM pg_publication")) != 1 {
		t.Errorf("teardown removed the user's own publication: %v, %v", done, err)
	}
}

func TestAForeignAppendPublicationIsRefused(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, "CREATE PUBLICATION "+Quote(f.cfg.AppendPublication()))
	mustBe(t, EnsurePublications(t.Context(), f.conn, f.cfg), ErrNotOurs)
	if len(f.Query(t, "SELECT 1 FROM pg_publication")) != 1 {
		t.Error("one of the two was made all the same")
	}
}

func TestNewTablesAreAddedTogetherOrNotAtAll(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, `CREATE TABLE keyed (id int PRIMARY KEY); CREATE TABLE "Own, name" (id int PRIMARY KEY); CREATE TABLE bare (id int)`)
	if err := EnsurePublications(t.Context(), f.conn, f.cfg); err != nil {
		t.Fatal(err)
	}
	var tables []*Table
	for _, table := range f.discover(t) {
		tables = append(tables, table)
	}
	holder := connect(t, f.URL())
	if _, err := holder.PgConn().Exec(t.Context(), "BEGIN; LOCK TABLE public.keyed IN SHARE UPDATE EXCLUSIVE MODE").ReadAll(); err != nil {
		t.Fatal(err)
	}
	before := f.publications(t)
	added, err := AddNewTables(t.Context(), f.conn, f.cfg, tables)
	mustBe(t, err, ErrLockTimeout)
	if got := f.publications(t); added != 0 || got != before {
		t.Fatalf("%d tables were added, the publications are\n%s", added, got)
	}
	if _, err := holder.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	// One of another name would be another table: nothing is added under a name that has changed hands.
	f.Exec(t, "ALTER TABLE keyed RENAME TO other; CREATE TABLE keyed (id int PRIMARY KEY)")
	added, err = AddNewTables(t.Context(), f.conn, f.cfg, tables)
	mustBe(t, err, ErrTableGone)
	if got := f.publications(t); added != 0 || got != before {
		t.Fatalf("%d tables were added, the publications are\n%s", added, got)
	}
	f.Exec(t, "DROP TABLE keyed; ALTER TABLE other RENAME TO keyed")
	if added, err = AddNewTables(t.Context(), f.conn, f.cfg, tables); err != nil || added != 3 {
		t.Fatalf("%d tables were added, %v", added, err)
	}
	want := "Streambed \"test\" 11111 \"Own, name\" keyed\nStreambed \"test\"_append 10011 bare"
	if got := f.publications(t); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestAPoolKeepsWhatCanBeUsedAgain, and nothing else.
func TestAPoolKeepsWhatCanBeUsedAgain(t *testing.T) {
	f := newFixture(t)
	pool := NewPool(f.URL(), "pooled")
	take := func() *pgx.Conn {
		conn, err := pool.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	first, second := take(), take()
	pool.Give(first)
	if again := take(); again != first {
		t.Error("a connection was not kept")
	}
	if _, err := first.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	pool.Give(first)
	if !first.IsClosed() {
		t.Error("a connection was kept in a transaction")
	}
	third := take()
	pool.Give(second)
	pool.Close()
	pool.Give(third)
	if !second.IsClosed() || !third.IsClosed() {
		t.Error("a closed pool kept a connection")
	}
	pool = NewPool(f.URL(), "pooled")
	defer pool.Close()
	pool.Give(take())
	postgres.Eventually(t, "an idle connection to be closed", func() bool {
		return len(f.Query(t, "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'streambed pooled'")) == 0
	})
}
