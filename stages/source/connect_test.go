package source

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// What a value looks like must not depend on the server's, database's or role's settings (promise 4).
func TestSettingsArePinnedOverRolesAndURLs(t *testing.T) {
	f := newFixture(t)
	role, url := f.role(t, "REPLICATION")
	for _, set := range []string{"TimeZone = 'Asia/Kolkata'", "DateStyle = 'SQL, DMY'", "IntervalStyle = 'sql_standard'",
		"extra_float_digits = 0", "bytea_output = 'escape'", "client_encoding = 'LATIN1'", "statement_timeout = '1ms'",
		"search_path = 'information_schema'", "row_security = on"} {
		f.Exec(t, "ALTER ROLE "+Quote(role)+" SET "+set)
	}
	const query = `SELECT '2024-02-01 12:00:00+00'::timestamptz, '1 year 2 days'::interval, 0.1::float8 + 0.2::float8,
		'\x00ff'::bytea, 'ä', pg_sleep(0.05), 'information_schema.columns'::regclass, current_setting('row_security')`
	const want = `2024-02-01 12:00:00+00|P1Y2D|0.30000000000000004|\x00ff|ä||information_schema.columns|off`
	for _, extra := range []string{"", " timezone=Europe/Berlin options='-c datestyle=German'"} {
		conn := connect(t, url+extra)
		replication, err := ReplicationConfig(url + extra)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := pgconn.ConnectConfig(t.Context(), replication)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]*pgconn.PgConn{"ordinary": conn.PgConn(), "replication": stream} {
			results, err := c.Exec(t.Context(), query).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			var row []string
			for _, v := range results[0].Rows[0] {
				row = append(row, string(v))
			}
			if got := strings.Join(row, "|"); got != want {
				t.Errorf("%s connection with %q:\n got %s\nwant %s", name, extra, got, want)
			}
		}
		_ = stream.Close(t.Context())
	}
	var application string
	if err := f.conn.QueryRow(t.Context(), "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()").Scan(&application); err != nil || application != "streambed test" {
		t.Errorf("shows as %q, %v", application, err)
	}
}

func TestRowSecurityIsAnErrorAndNeverFewerRows(t *testing.T) {
	f := newFixture(t)
	role, url := f.role(t, "")
	f.Exec(t, `CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2); ALTER TABLE t ENABLE ROW LEVEL SECURITY;
		CREATE POLICY half ON t USING (id = 1); GRANT SELECT ON t TO `+Quote(role))
	if _, err := connect(t, url).PgConn().Exec(t.Context(), "COPY (SELECT * FROM public.t) TO STDOUT").ReadAll(); err == nil {
		t.Error("a copy under row-level security went through")
	}
}
