package catalog

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/streambed/streambed/test/postgres"
)

var rewrite = flag.Bool("rewrite", false, "write data/ anew from Postgres 15")

// These queries make the files in data/: the shape of Postgres' own catalog, and the rows of it that are the same in
// every database and that clients ask for.
var generators = map[string]string{
	"relations.tsv": `SELECT n.nspname, c.relname, c.relkind, CASE WHEN c.oid < 12000 THEN c.oid ELSE 0 END, a.attname, t.typname, a.attnotnull
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
		WHERE n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v') AND a.attnum > 0 AND NOT a.attisdropped
		ORDER BY n.nspname, c.relname, a.attnum`,
	"pg_type.tsv": `SELECT oid, typname, typnamespace, 10, typlen, typbyval, typtype, typcategory, typispreferred, typisdefined, typdelim, typrelid, typsubscript::oid, typelem, typarray,
		typinput::oid, typoutput::oid, typreceive::oid, typsend::oid, typmodin::oid, typmodout::oid, typanalyze::oid, typalign, typstorage, typnotnull, typbasetype, typtypmod, typndims, typcollation
		FROM pg_type WHERE typrelid = 0 AND typnamespace = 11 AND typtype IN ('b', 'p', 'r', 'm') AND NOT EXISTS (SELECT FROM pg_type e WHERE e.oid = pg_type.typelem AND e.typrelid <> 0) ORDER BY oid`,
	"pg_proc.tsv": `SELECT DISTINCT p.oid, p.proname, p.prorettype, p.pronargs FROM pg_proc p JOIN pg_type t ON p.oid IN (t.typinput, t.typoutput, t.typreceive, t.typsend, t.typmodin, t.typmodout)
		WHERE t.typrelid = 0 AND t.typnamespace = 11 ORDER BY p.oid`,
	"pg_am.tsv":       `SELECT oid, amname, amhandler::oid, amtype FROM pg_am ORDER BY oid`,
	"pg_range.tsv":    `SELECT rngtypid, rngsubtype, rngmultitypid, rngcollation, rngsubopc, rngcanonical::oid, rngsubdiff::oid FROM pg_range ORDER BY 1`,
	"pg_language.tsv": `SELECT oid, lanname, 10, lanispl, lanpltrusted, 0, 0, 0 FROM pg_language WHERE lanname IN ('internal', 'c', 'sql') ORDER BY oid`,
}

// TestDataIsPostgresOwn compares data/ with a real server's catalog.
func TestDataIsPostgresOwn(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	if version := db.Query(t, "SHOW server_version_num")[0][0]; !strings.HasPrefix(version, "15") {
		t.Skip("data/ is of Postgres 15, this server is " + version)
	}
	for file, query := range generators {
		var b bytes.Buffer
		for _, row := range db.Query(t, query) {
			fmt.Fprintln(&b, strings.Join(row, "\t"))
		}
		if *rewrite {
			if err := os.WriteFile("data/"+file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := data.ReadFile("data/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, b.Bytes()) {
			t.Errorf("data/%s is not what Postgres has; go test ./queryd/catalog -args -rewrite writes it anew", file)
		}
	}
}
