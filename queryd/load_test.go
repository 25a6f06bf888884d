package queryd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/test/postgres"
)

// readOnlyScript is what pgbench -S asks, and a join and an aggregate beside it.
const readOnlyScript = `\set id random(1, 10000)
SELECT balance FROM accounts WHERE id = :id;
SELECT b.name, count(*), sum(a.balance) FROM accounts a JOIN branches b ON b.id = a.branch WHERE a.id BETWEEN :id AND :id + 100 GROUP BY b.name ORDER BY b.name;
`

// TestPgbenchReadsInAllItsModes runs pgbench with a read-only script through the simple and the extended protocol and
// with prepared statements.
func TestPgbenchReadsInAllItsModes(t *testing.T) {
	server := postgres.ForTest(t)
	pgbench := filepath.Join(server.Bin, "pgbench")
	if _, err := os.Stat(pgbench); err != nil {
		t.Skip("pgbench is not installed beside the Postgres server")
	}
	db := server.Database(t)
	l := newLake(t)
	l.source(db, "branches", "CREATE TABLE branches(id int PRIMARY KEY, name text); INSERT INTO branches SELECT g, 'branch ' || g FROM generate_series(1, 10) g")
	l.source(db, "accounts", "CREATE TABLE accounts(id int PRIMARY KEY, branch int, balance int); INSERT INTO accounts SELECT g, 1 + g % 10, g * 7 FROM generate_series(1, 10000) g")
	script := filepath.Join(t.TempDir(), "read.sql")
	ok(t, os.WriteFile(script, []byte(readOnlyScript), 0o600))
	const clients, transactions = 4, 25
	for _, mode := range []string{"simple", "extended", "prepared"} {
		out, err := exec.CommandContext(t.Context(), pgbench, "-h", "127.0.0.1", "-p", strconv.Itoa(l.port), "-U", "analyst", "-n", "-M", mode, "-f", script,
			"-c", strconv.Itoa(clients), "-j", "2", "-t", strconv.Itoa(transactions), "lake").CombinedOutput()
		if err != nil {
			t.Errorf("pgbench -M %s: %v: %s", mode, err, out)
			continue
		}
		if done := regexp.MustCompile(fmt.Sprintf(`actually processed: %d/%d\b`, clients*transactions, clients*transactions)); !done.Match(out) {
			t.Errorf("pgbench -M %s did not run all its transactions: %s", mode, out)
		}
	}
}

// TestFiftyClientsAreServedWithinTheMemory has many clients ask small questions and larger ones at the same time.
func TestFiftyClientsAreServedWithinTheMemory(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	const limit = 256 << 20
	l := newLake(t, func(o *Options) { o.Memory = limit })
	l.source(db, "t", "CREATE TABLE t(id int PRIMARY KEY, k int, v text); INSERT INTO t SELECT g, g % 100, md5(g::text) FROM generate_series(1, 100000) g")
	before := residentMemory(t)
	var all sync.WaitGroup
	for client := range 50 {
		conn := l.connect()
		all.Go(func() {
			for i := range 20 {
				id := 1 + (client*20+i)*97%100000
				var k, n int
				if err := conn.QueryRow(t.Context(), "SELECT k FROM t WHERE id = $1", id).Scan(&k); err != nil || k != id%100 {
					t.Errorf("row %d has %d, %v", id, k, err)
				}
				if i%5 > 0 {
					continue
				}
				if err := conn.QueryRow(t.Context(), "SELECT count(DISTINCT v) FROM t WHERE k <= $1", pgx.QueryExecModeExec, 9).Scan(&n); err != nil || n != 10000 {
					t.Errorf("%d rows, %v", n, err)
				}
			}
		})
	}
	all.Wait()
	// Beside DuckDB's limit: sessions, connections and Go's heap.
	if grown := residentMemory(t) - before; grown > limit+200<<20 {
		t.Errorf("memory grew by %d MiB, with a limit of %d", grown>>20, limit>>20)
	}
}
