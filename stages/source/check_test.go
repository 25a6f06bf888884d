package source

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/streambed/streambed/test/postgres"
)

// find gives the first finding about a subject.
func find(findings []Finding, subject string) *Finding {
	for i := range findings {
		if findings[i].Subject == subject {
			return &findings[i]
		}
	}
	return nil
}

func (f *fixture) check(t testing.TB) []Finding {
	t.Helper()
	findings, err := Check(t.Context(), f.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

// mend runs a finding's statements one by one, as psql would.
func (f *fixture) mend(t testing.TB, finding *Finding) {
	t.Helper()
	if finding == nil || finding.SQL == "" {
		t.Fatalf("there is no remedy in %+v", finding)
	}
	for statement := range strings.SplitSeq(finding.SQL, ";\n") {
		f.Exec(t, strings.TrimSuffix(statement, ";"))
	}
}

// mended proves that a finding is there, and goes away with its own SQL.
func (f *fixture) mended(t testing.TB, subject string, severity Severity, text string) {
	t.Helper()
	finding := find(f.check(t), subject)
	if finding == nil || finding.Severity != severity || !strings.Contains(finding.Text, text) {
		t.Fatalf("%s: found %+v, want %s about %q", subject, finding, severity, text)
	}
	f.mend(t, finding)
	for _, left := range f.check(t) {
		if left.Subject == subject && left.Text == finding.Text {
			t.Errorf("its own remedy left %+v", left)
		}
	}
}

func TestASourceInOrderGivesOneWarning(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, "CREATE TABLE t (id int PRIMARY KEY)")
	for _, state := range []string{"new", "published"} {
		findings := f.check(t)
		if len(findings) != 1 || findings[0].Subject != SubjectSlotSize || findings[0].Severity != Warning {
			t.Errorf("%s: %+v", state, findings)
		}
		if state == "new" {
			f.publish(t)
		}
	}
}

func TestTableFindingsGoAwayWithTheirSQL(t *testing.T) {
	for name, c := range map[string]struct{ ddl, text string }{
		"no key":      {`CREATE TABLE "T t" (a int)`, "append-only"},
		"nothing":     {`CREATE TABLE "T t" (a int PRIMARY KEY); ALTER TABLE "T t" REPLICA IDENTITY NOTHING`, "append-only"},
		"unique":      {`CREATE TABLE "T t" (a int NOT NULL, b int UNIQUE, CONSTRAINT "U u" UNIQUE (a))`, "append-only"},
		"deferrable":  {`CREATE TABLE "T t" (a int PRIMARY KEY DEFERRABLE)`, "append-only"},
		"generated":   {`CREATE TABLE "T t" (a int, g int GENERATED ALWAYS AS (a) STORED PRIMARY KEY)`, "append-only"},
		"lost index":  {`CREATE TABLE "T t" (a int NOT NULL); CREATE UNIQUE INDEX i ON "T t" (a); ALTER TABLE "T t" REPLICA IDENTITY USING INDEX i; DROP INDEX i`, "append-only"},
		"unlogged":    {`CREATE UNLOGGED TABLE "T t" (a int PRIMARY KEY)`, "unlogged"},
		"partitioned": {`CREATE TABLE "T t" (a int) PARTITION BY LIST (a); CREATE TABLE "L l" PARTITION OF "T t" FOR VALUES IN (1)`, "append-only"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if name == "generated" && ServerVersion(f.conn.PgConn()) >= 18 {
				t.Skip("from Postgres 18 on our publications publish generated columns")
			}
			f.Exec(t, c.ddl)
			f.mended(t, `public."T t"`, Warning, c.text)
			if name == "unique" && keyNames(f.discover(t)[`public."T t"`]) != "identity:a" {
				t.Error("the unique index was not proposed")
			}
			f.publish(t)
			f.Exec(t, `INSERT INTO "T t" (a) VALUES (1); UPDATE "T t" SET a = 1; DELETE FROM "T t"`)
		})
	}
}

func TestPublicationFindingsGoAwayWithTheirSQL(t *testing.T) {
	for name, c := range map[string]struct{ change, text string }{
		"publish":  {"ALTER PUBLICATION %p SET (publish = 'insert')", "does not publish what it should"},
		"leaves":   {"ALTER PUBLICATION %p SET (publish_via_partition_root = false)", "does not publish what it should"},
		"schema":   {"ALTER PUBLICATION %p ADD TABLES IN SCHEMA \"S s\"", "does not publish what it should"},
		"foreign":  {"DROP PUBLICATION %a; CREATE PUBLICATION %a", "is not ours"},
		"own ops":  {"DROP PUBLICATION %p; CREATE PUBLICATION %p FOR TABLE t WITH (publish = 'insert, update')", "does not publish deletes and truncates"},
		"own none": {"DROP PUBLICATION %p; CREATE PUBLICATION %p", "holds no table"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Exec(t, `CREATE TABLE t (id int PRIMARY KEY); CREATE SCHEMA "S s"; CREATE TABLE "S s".u (id int PRIMARY KEY)`)
			f.publish(t)
			replace := strings.NewReplacer("%p", Quote(f.cfg.Publication), "%a", Quote(f.cfg.AppendPublication()))
			for statement := range strings.SplitSeq(c.change, "; ") {
				f.Exec(t, replace.Replace(statement))
			}
			findings := f.check(t)
			i := slices.IndexFunc(findings, func(f Finding) bool { return f.Subject == SubjectPublication && strings.Contains(f.Text, c.text) })
			if i < 0 {
				t.Fatalf("nothing about %q in %+v", c.text, findings)
			}
			if findings[i].SQL == "" {
				return
			}
			f.mend(t, &findings[i])
			if slices.ContainsFunc(f.check(t), func(f Finding) bool { return strings.Contains(f.Text, c.text) }) {
				t.Errorf("its own remedy left it: %+v", f.check(t))
			}
		})
	}
}

func TestATableMissingFromAUsersOwnPublicationIsFound(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, `CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE bare (id int); CREATE TABLE part (id int) PARTITION BY LIST (id);
		CREATE TABLE leaf PARTITION OF part FOR VALUES IN (1); CREATE PUBLICATION `+Quote(f.cfg.Publication)+` FOR TABLE bare`)
	f.mended(t, "public.bare", Error, "the source refuses them")
	f.mended(t, "public.t", Warning, "is selected but not in publication")
	if finding := find(f.check(t), "public.leaf"); finding == nil {
		t.Error("nothing about the partition")
	}
}

// Every step on the way of a role that begins with nothing is told with what mends it, until the pipeline can work.
func TestTheLeastPrivilegedRoleIsLedToWhatItNeeds(t *testing.T) {
	f := newFixture(t)
	role, url := f.role(t, "NOINHERIT")
	f.Exec(t, `CREATE SCHEMA "S s"; CREATE TABLE "S s"."T t" (id int PRIMARY KEY); CREATE TABLE bare (id int);
		CREATE TABLE part (id int PRIMARY KEY) PARTITION BY LIST (id); CREATE TABLE leaf PARTITION OF part FOR VALUES IN (1)`)
	f.cfg.URL = url
	f.mended(t, SubjectRole, Error, "may not read the replication stream")
	f.mended(t, SubjectRole, Error, `may not use schema "S s"`)
	for _, table := range []string{`"S s"."T t"`, "public.part", "public.leaf"} {
		finding := find(f.check(t), Show(must(ParseName(table))))
		if finding == nil || !strings.Contains(finding.Text, "may not read") {
			t.Fatalf("%s: %+v", table, finding)
		}
		f.mend(t, finding)
	}
	f.mended(t, SubjectPublication, Error, "may not make publications in this database")
	f.Exec(t, "ALTER TABLE public.bare REPLICA IDENTITY FULL; GRANT SELECT ON bare TO "+Quote(role))
	f.mended(t, "public.bare", Error, "may not put table public.bare into publication")
	f.Exec(t, `ALTER TABLE "S s"."T t" ENABLE ROW LEVEL SECURITY`)
	f.mended(t, `"S s"."T t"`, Error, "row-level security")
	for _, left := range f.check(t) {
		if left.Severity == Error {
			t.Errorf("still %+v", left)
		}
	}
	f.conn = connect(t, url)
	f.publish(t) // as that role: all is in place, so that nothing has to be altered
	f.Exec(t, `INSERT INTO "S s"."T t" VALUES (1); INSERT INTO part VALUES (1); INSERT INTO bare VALUES (1)`)
	if got := f.relations(t); len(got) < 3 {
		t.Errorf("the stream sends %v", got)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestServerFindingsGoAwayWithTheirSQL(t *testing.T) {
	server := postgres.StartForTest(t, "wal_level=replica", "max_replication_slots=1", "max_prepared_transactions=2")
	f := fixtureOn(t, server)
	f.Exec(t, "CREATE TABLE t (id int PRIMARY KEY)")
	f.Exec(t, "SELECT pg_create_physical_replication_slot('other')")
	for _, text := range []string{"wal_level is replica", "replication slots are taken", "nothing bounds the WAL"} {
		i := slices.IndexFunc(f.check(t), func(f Finding) bool { return strings.Contains(f.Text, text) })
		if i < 0 {
			t.Fatalf("nothing about %q in %+v", text, f.check(t))
		}
		f.mend(t, &f.check(t)[i])
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(f.check(t), func(f Finding) bool { return strings.Contains(f.Text, text) }) {
			t.Errorf("its own remedy left %q", text)
		}
	}
	if findings := f.check(t); len(findings) != 0 {
		t.Errorf("still %+v", findings)
	}
}

func TestConfigFindings(t *testing.T) {
	f := newFixture(t)
	f.Exec(t, "CREATE TABLE t (id int PRIMARY KEY)")
	f.cfg.Tables = []string{"public.t", "public.T"}
	if finding := find(f.check(t), SubjectConfig); finding == nil || !strings.Contains(finding.Text, "pattern public.T,") {
		t.Errorf("a pattern that selects nothing: %+v", finding)
	}
	bad := Config{Slot: "Slot", Publication: strings.Repeat("p", 57), Tables: []string{"orders"}}
	findings, err := Check(t.Context(), &bad)
	if err != nil || len(findings) != 4 {
		t.Errorf("four mistakes give %+v, %v", findings, err)
	}
	nobody := *f.cfg
	nobody.URL = strings.Replace(f.cfg.URL, f.Name, "no_such_database", 1)
	findings, err = Check(t.Context(), &nobody)
	if err != nil || len(findings) != 1 || findings[0].Subject != SubjectConnection || !strings.Contains(findings[0].Text, "no_such_database") {
		t.Errorf("a database that is not there: %+v, %v", findings, err)
	}
}

// A pooler announces a process id of its own for a connection; everything else passes.
func TestAPoolerInBetweenIsFound(t *testing.T) {
	f := newFixture(t)
	real, err := pgx.ParseConfig(f.URL())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go pool(client, net.JoinHostPort(real.Host, itoa(uint32(real.Port))))
		}
	}()
	f.cfg.URL = strings.Replace(f.URL(), net.JoinHostPort(real.Host, itoa(uint32(real.Port))), listener.Addr().String(), 1)
	if f.cfg.URL == f.URL() {
		t.Fatalf("cannot put anything before %s", f.URL())
	}
	finding := find(f.check(t), SubjectConnection)
	if finding == nil || finding.Severity != Warning || !strings.Contains(finding.Text, "pooler") {
		t.Errorf("found %+v", finding)
	}
}

// pool passes bytes both ways and changes the process id in the server's BackendKeyData ('K', length 12, pid, key).
func pool(client net.Conn, server string) {
	defer client.Close()
	var dialer net.Dialer
	backend, err := dialer.DialContext(context.Background(), "tcp", server)
	if err != nil {
		return
	}
	defer backend.Close()
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, err := client.Read(buffer)
			if err != nil {
				_ = backend.Close()
				return
			}
			_, _ = backend.Write(buffer[:n])
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := backend.Read(buffer)
		if err != nil {
			return
		}
		if i := strings.Index(string(buffer[:n]), "K\x00\x00\x00\x0c"); i >= 0 && i+9 <= n {
			buffer[i+8] ^= 0x55
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func TestOpenTransactionsAreFoundWithWhatEndsThem(t *testing.T) {
	f := fixtureOn(t, postgres.StartForTest(t, "max_prepared_transactions=2"))
	f.Exec(t, "CREATE TABLE t (id int)")
	f.Exec(t, "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'o''brien'")
	open := connect(t, f.URL())
	if _, err := open.PgConn().Exec(t.Context(), "BEGIN; INSERT INTO public.t VALUES (2)").ReadAll(); err != nil {
		t.Fatal(err)
	}
	look := func() []Finding {
		k := &checker{cfg: f.cfg, conn: f.conn}
		if err := k.checkOpenTransactions(t.Context()); err != nil {
			t.Fatal(err)
		}
		return k.findings
	}
	findings := look()
	if len(findings) != 2 {
		t.Fatalf("found %+v", findings)
	}
	for i := range findings {
		f.mend(t, &findings[i])
	}
	postgres.Eventually(t, "both transactions to end", func() bool { return len(look()) == 0 })
}

// PgBouncer refuses a connection whose settings it does not know.
func TestAPoolerThatRefusesOurSettingsIsFound(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			backend := pgproto3.NewBackend(client, client)
			if _, err := backend.ReceiveStartupMessage(); err == nil {
				backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: bytea_output"})
				_ = backend.Flush()
			}
			_ = client.Close()
		}
	}()
	cfg := &Config{URL: "postgres://me@" + listener.Addr().String() + "/db?sslmode=disable", Slot: "s", Publication: "p"}
	findings, err := Check(t.Context(), cfg)
	if err != nil || len(findings) != 1 || findings[0].Severity != Error || !strings.Contains(findings[0].Text, "PgBouncer") {
		t.Errorf("found %+v, %v", findings, err)
	}
}
