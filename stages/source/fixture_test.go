package source

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/test/postgres"
)

// fixture is a database of its own with a connection as a pipeline has it.
type fixture struct {
	*postgres.Database
	cfg  *Config
	conn *pgx.Conn
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return fixtureOn(t, postgres.ForTest(t))
}

func fixtureOn(t testing.TB, server *postgres.Server) *fixture {
	t.Helper()
	db := server.Database(t)
	cfg := &Config{URL: db.URL(), Slot: "slot_" + db.Name, Publication: `Streambed "test"`, Tables: []string{"*.*"}}
	return &fixture{Database: db, cfg: cfg, conn: connect(t, db.URL())}
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := Connect(t.Context(), url, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { CloseConn(conn) })
	return conn
}

// discover gives the tables by the names that Show gives them.
func (f *fixture) discover(t testing.TB) map[string]*Table {
	t.Helper()
	tables, err := Discover(t.Context(), f.conn, f.cfg)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*Table{}
	for i := range tables {
		byName[Show(tables[i].Name)] = &tables[i]
	}
	return byName
}

// publish does what a pipeline does at its start: publications, tables, slot.
func (f *fixture) publish(t testing.TB) {
	t.Helper()
	if err := EnsurePublications(t.Context(), f.conn, f.cfg); err != nil {
		t.Fatal(err)
	}
	for _, table := range f.discover(t) {
		if err := AddTable(t.Context(), f.conn, f.cfg, table); err != nil {
			t.Fatal(err)
		}
	}
	created, _, err := EnsureSlot(t.Context(), f.conn, f.cfg)
	if err != nil || !created {
		t.Fatalf("slot was not made: created %v, %v", created, err)
	}
}

// relations gives the Relation messages that the slot holds, by table name, the newest of each.
func (f *fixture) relations(t testing.TB) map[string]*pglogrepl.RelationMessage {
	t.Helper()
	names := QuoteLiteral(Quote(f.cfg.Publication))
	if len(f.Query(t, "SELECT 1 FROM pg_publication WHERE pubname = "+QuoteLiteral(f.cfg.AppendPublication()))) > 0 {
		names = QuoteLiteral(Quote(f.cfg.Publication) + "," + Quote(f.cfg.AppendPublication()))
	}
	rows, err := f.conn.Query(t.Context(), `SELECT data FROM pg_logical_slot_peek_binary_changes($1, NULL, NULL,
		'proto_version', '1', 'publication_names', `+names+`)`, f.cfg.Slot)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*pglogrepl.RelationMessage{}
	var data []byte
	_, err = pgx.ForEachRow(rows, []any{&data}, func() error {
		message, err := pglogrepl.Parse(data)
		if r, ok := message.(*pglogrepl.RelationMessage); ok {
			found[Show(formats.TableName{Schema: r.Namespace, Table: r.RelationName})] = r
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// role makes a login role that nobody else uses and gives its name and a URL to connect as it.
func (f *fixture) role(t testing.TB, attributes string) (name, url string) {
	t.Helper()
	name = "Role " + f.Name
	f.Exec(t, "CREATE ROLE "+Quote(name)+" LOGIN "+attributes)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		conn, err := pgconn.Connect(ctx, f.URL())
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, "DROP OWNED BY "+Quote(name)+" CASCADE; DROP ROLE "+Quote(name)).ReadAll()
		if err != nil {
			t.Error(err)
		}
	})
	cfg, err := pgx.ParseConfig(f.URL())
	if err != nil {
		t.Fatal(err)
	}
	return name, "host=" + cfg.Host + " port=" + strconv.Itoa(int(cfg.Port)) + " dbname=" + cfg.Database + " user='" + name + "' sslmode=disable"
}

func mustBe(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want one that is %q", err, want)
	}
}

// deadline gives a context that ends long after what is waited for should have happened.
func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func columnNames(t *Table) string {
	var names []string
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	return strings.Join(names, ",")
}

func keyNames(t *Table) string {
	var names []string
	for _, i := range t.Key {
		names = append(names, t.Columns[i].Name)
	}
	return string(t.KeyKind) + ":" + strings.Join(names, ",")
}

func itoa(n uint32) string { return strconv.Itoa(int(n)) }
