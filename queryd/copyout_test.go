package queryd

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/streambed/streambed/test/postgres"
)

// TestCopySendsPostgresBytes compares what COPY TO STDOUT sends, byte by byte, in every format.
func TestCopySendsPostgresBytes(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	l := newLake(t)
	l.source(db, "types", everyType)
	read := func(url, sql string) ([]byte, string) {
		conn, err := pgconn.Connect(t.Context(), url)
		ok(t, err)
		defer conn.Close(t.Context())
		ok(t, conn.Exec(t.Context(), "SET timezone = 'UTC'").Close())
		var b bytes.Buffer
		tag, err := conn.CopyTo(t.Context(), &b, sql)
		if err != nil {
			t.Errorf("%s: %v", sql, err)
		}
		return b.Bytes(), tag.String()
	}
	for _, sql := range []string{
		"COPY (SELECT * FROM types ORDER BY id) TO STDOUT", "COPY (SELECT * FROM types ORDER BY id) TO STDOUT (FORMAT csv, HEADER)", "COPY (SELECT * FROM types ORDER BY id) TO STDOUT WITH CSV FORCE QUOTE *",
		"COPY (SELECT * FROM types ORDER BY id) TO STDOUT (FORMAT csv, DELIMITER ';', NULL 'none', QUOTE '''', ESCAPE '\\')", "COPY (SELECT * FROM types ORDER BY id) TO STDOUT (DELIMITER '|', NULL '')",
		"COPY (SELECT * FROM types ORDER BY id) TO STDOUT (FORMAT binary)", `COPY (SELECT * FROM types WHERE id < 0) TO STDOUT (FORMAT "binary")`, "COPY (SELECT * FROM types WHERE id < 0) TO STDOUT CSV HEADER",
		"COPY (SELECT id, t FROM types WHERE id = 1) TO STDOUT", "COPY types (id, vc) TO STDOUT BINARY", "COPY public.types (id, ta, na) TO STDOUT",
	} {
		want, wantTag := read(db.URL(), sql)
		got, gotTag := read(l.url(), sql)
		if wantTag != gotTag {
			t.Errorf("%s ends with %q, in Postgres with %q", sql, gotTag, wantTag)
		}
		if !bytes.Equal(want, got) {
			at := 0
			for at < min(len(want), len(got)) && want[at] == got[at] {
				at++
			}
			t.Errorf("%s differs at byte %d of %d:\n%q\nPostgres\n%q", sql, at, len(want), got[max(0, at-20):min(len(got), at+60)], want[max(0, at-20):min(len(want), at+60)])
		}
	}
}
