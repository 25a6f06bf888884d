package queryd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

// clientTables are what every client reflects, asks and reads whole.
const clientTables = everyType + `
CREATE TABLE lines(order_id int, line int, id int NOT NULL, note varchar(20), price numeric(10,2), PRIMARY KEY (order_id, line));
INSERT INTO lines VALUES (1, 1, 11, 'one é', 1.50), (1, 2, 12, 'two', 2.25), (2, 1, 21, NULL, NULL), (2, 2, 22, '', 0.00);
CREATE TABLE "Mixed Case"("Key" int PRIMARY KEY, "Upper" text, "sp ace" bigint);
INSERT INTO "Mixed Case" VALUES (1, 'A', 10), (2, 'B', 20);`

// longQuery runs for hours, on Postgres and here.
var longQuery = "SELECT count(*) FROM types t0" + func() (joins string) {
	for i := 1; i < 24; i++ {
		joins += fmt.Sprintf(" JOIN types t%d ON t%d.id + t%d.id <> %d", i, i, i-1, 100+i)
	}
	return joins
}()

// client is a program on a real driver. It prints what it sees; against a Postgres with the same tables it must see the
// same.
type client struct {
	name string
	// needs are the programs that must be installed.
	needs []string
	// install fetches the driver into an empty folder.
	install []string
	// run starts the program; FOLDER is the driver's, SCRIPTS that of the programs.
	run []string
	env []string
	// except are lines that may differ, each for a reason.
	except []difference
}

// enum: the lake keeps an enum's label as text.
var enum = difference{`\ben\b`, "an enum's type is text in the lake"}

// difference is a kind of line in which the lake need not say what Postgres does.
type difference struct{ line, reason string }

const python = "psycopg[binary]==3.3.9 psycopg2-binary==2.9.13 SQLAlchemy==2.0.58"

func pip(packages string) []string {
	return append([]string{"python3", "-m", "pip", "install", "--quiet", "--no-input", "--target", "FOLDER"}, strings.Fields(packages)...)
}

var clients = []client{
	{name: "psycopg", needs: []string{"python3"}, install: pip(python), run: []string{"python3", "SCRIPTS/psycopg_client.py"}, env: []string{"PYTHONPATH=FOLDER"},
		except: []difference{{`^value binary \d en `, "psycopg knows no binary format of a type that is not built in"}}},
	{name: "SQLAlchemy on psycopg", needs: []string{"python3"}, install: pip(python), run: []string{"python3", "SCRIPTS/sqlalchemy_client.py"}, env: []string{"PYTHONPATH=FOLDER", "CLIENT_DRIVER=psycopg"}, except: []difference{enum}},
	{name: "SQLAlchemy on psycopg2", needs: []string{"python3"}, install: pip(python), run: []string{"python3", "SCRIPTS/sqlalchemy_client.py"}, env: []string{"PYTHONPATH=FOLDER", "CLIENT_DRIVER=psycopg2"}, except: []difference{enum}},
	{name: "node-postgres", needs: []string{"node", "npm"}, install: []string{"npm", "install", "--silent", "--no-save", "--prefix", "FOLDER", "pg@8.23.1"}, run: []string{"node", "SCRIPTS/node_client.js"}, env: []string{"NODE_PATH=FOLDER/node_modules"}},
	{name: "pgJDBC", needs: []string{"java", "mvn"},
		install: []string{"mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy", "-Dartifact=org.postgresql:postgresql:42.7.8", "-Dmdep.stripVersion=true", "-DoutputDirectory=FOLDER"},
		run:     []string{"java", "-XX:TieredStopAtLevel=1", "-cp", "FOLDER/postgresql.jar", "SCRIPTS/JdbcClient.java"},
		except:  []difference{enum, {`^isolation `, "a statement here sees one checkpoint, and so does a transaction: repeatable read"}}},
	{name: "DuckDB's postgres scanner", needs: []string{"python3"}, install: pip("duckdb==1.5.5 duckdb-extension-postgres-scanner==1.5.5 pytz==2025.2"), run: []string{"python3", "SCRIPTS/scanner_client.py"}, env: []string{"PYTHONPATH=FOLDER"}},
}

// TestRealClientsSeeTheLakeAsTheySeePostgres runs programs on other people's drivers, over TLS and with a password.
func TestRealClientsSeeTheLakeAsTheySeePostgres(t *testing.T) {
	l, db, conninfo := secureClientLake(t)
	_, certificate, _ := strings.Cut(conninfo, "sslrootcert=")
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			folder := c.fetch(t)
			want := c.see(t, folder, "CLIENT_HOST=127.0.0.1", "CLIENT_PORT="+strconv.Itoa(db.Server.Port), "CLIENT_USER=postgres", "CLIENT_PASSWORD=none", "CLIENT_DATABASE="+db.Name, "CLIENT_CA=")
			got := c.see(t, folder, "CLIENT_HOST=localhost", "CLIENT_PORT="+strconv.Itoa(l.port), "CLIENT_USER=analyst", "CLIENT_PASSWORD=s3cret ü", "CLIENT_DATABASE=lake", "CLIENT_CA="+certificate)
			c.compare(t, want, got)
		})
	}
}

// secureLake is a lake that asks for a password and offers TLS.
func secureLake(t *testing.T) (l *testLake, certificate string) {
	t.Helper()
	certificate, key := writeCertificate(t, t.TempDir(), 1)
	settings, err := LoadTLS(certificate, key, zap.NewNop())
	ok(t, err)
	return newLake(t, func(o *Options) {
		o.Users = map[string]string{"analyst": "s3cret ü"}
		o.TLS = settings
	}), certificate
}

// fetch gives the folder with the client's driver, installing it the first time on this machine. Where it cannot be had
// the test is skipped.
func (c *client) fetch(t *testing.T) string {
	t.Helper()
	for _, program := range c.needs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s cannot be tried here: %s is not installed", c.name, program)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	what := sha256.Sum256([]byte(strings.Join(c.install, " ")))
	folder := filepath.Join(cache, "streambed", "clients", hex.EncodeToString(what[:8]))
	if _, err := os.Stat(folder); err == nil {
		return folder
	}
	ok(t, os.MkdirAll(filepath.Dir(folder), 0o755))
	fresh, err := os.MkdirTemp(filepath.Dir(folder), "new-")
	ok(t, err)
	defer os.RemoveAll(fresh)
	if err := c.installInto(t.Context(), fresh); err != nil {
		t.Skipf("%s cannot be fetched: %v", c.name, err)
	}
	// Another test may have been faster.
	if err := os.Rename(fresh, folder); err != nil && !errors.Is(err, os.ErrExist) {
		if _, there := os.Stat(folder); there != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func (c *client) installInto(ctx context.Context, folder string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	args := within(folder, c.install)
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// within puts the folders into a command's or an environment's words.
func within(folder string, words []string) []string {
	scripts, _ := filepath.Abs(filepath.Join("testdata", "clients"))
	replaced := make([]string, len(words))
	for i, w := range words {
		replaced[i] = strings.NewReplacer("FOLDER", folder, "SCRIPTS", scripts).Replace(w)
	}
	return replaced
}

// see runs the client against a server and gives what it printed.
func (c *client) see(t *testing.T, folder string, server ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args := within(folder, c.run)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), append(server, within(folder, c.env)...)...)
	cmd.Env = append(cmd.Env, "CLIENT_LONG="+longQuery, "PYTHONDONTWRITEBYTECODE=1", "PGTZ=UTC")
	var said, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &complaints
	if err := cmd.Run(); err != nil {
		t.Errorf("%s against %s: %v\n%s\n%s", c.name, server[1], err, tail(said.String(), 3), tail(complaints.String(), 30))
	}
	return strings.Split(strings.TrimSpace(said.String()), "\n")
}

// tail gives the last lines of a text.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// compare wants the same lines, in the same order, from both servers.
func (c *client) compare(t *testing.T, want, got []string) {
	t.Helper()
	drop := func(lines []string) (kept []string) {
		for _, line := range lines {
			if !c.excepted(line) {
				kept = append(kept, line)
			}
		}
		return kept
	}
	want, got = drop(want), drop(got)
	if len(want) < 20 {
		t.Errorf("%s printed only %d lines against Postgres", c.name, len(want))
	}
	for i, told := 0, 0; i < max(len(want), len(got)) && told < 20; i++ {
		var w, g string
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			told++
			t.Errorf("%s sees\n  %s\nand in Postgres\n  %s", c.name, g, w)
		}
	}
}

func (c *client) excepted(line string) bool {
	for _, d := range c.except {
		if regexp.MustCompile(d.line).MatchString(line) {
			return true
		}
	}
	return false
}
