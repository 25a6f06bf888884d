package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProblemsNameLineKeyAndRemedy(t *testing.T) {
	for _, c := range []struct {
		text    string
		phrases []string
	}{
		{"", []string{"source.url", "missing", "pipeline.yaml", "STREAMBED_SOURCE_URL"}},
		{"# nothing\n", []string{"source.url", "missing"}},
		{"just text", []string{"pipeline.yaml:1", "holds no keys"}},
		{"- a\n", []string{"holds no keys"}},
		{minimal + "flush: {intervall: 2s}", []string{"pipeline.yaml:2", "flush.intervall", "did you mean flush.interval?"}},
		{minimal + "\ninterval: 2s", []string{"pipeline.yaml:3", "did you mean flush.interval?"}},
		{minimal + "flsh: {interval: 2s}", []string{"did you mean flush?"}},
		{minimal + "zzzzzz: 1", []string{"unknown key", "known are pipeline, source, lake"}},
		{minimal + "flush: {zzzzzzzz: 1}", []string{"known below flush are interval, rows, bytes"}},
		{minimal + "flush: {interval: 2}", []string{"pipeline.yaml:2", "flush.interval", `"2" has no unit`, "write 2s"}},
		{minimal + "flush: {interval: -2s}", []string{"flush.interval", "out of range", "10ms"}},
		{minimal + "flush: {interval: soon}", []string{"flush.interval", "not a duration"}},
		{minimal + "flush: {interval: }", []string{"flush.interval", "has no value"}},
		{minimal + "flush: {interval: [2s]}", []string{"flush.interval", "single value"}},
		{minimal + "flush: 2s", []string{"flush", "must hold keys (interval, rows, bytes)"}},
		{minimal + "flush: {rows: 0}", []string{"flush.rows", "out of range"}},
		{minimal + "flush: {rows: many}", []string{"flush.rows", "not a whole number"}},
		{minimal + "flush: {rows: 1.5}", []string{"flush.rows", "not a whole number"}},
		{minimal + "flush: {bytes: 64M}", []string{"flush.bytes", "64MiB", "64MB"}},
		{minimal + "memory: 1", []string{"memory", "out of range", "64MiB"}},
		{minimal + "memory: 1 elephant", []string{"memory", "unknown unit"}},
		{minimal + "memory: 1e99TiB", []string{"memory"}},
		{minimal + "memory: 99999999999999TiB", []string{"memory", "too large"}},
		{minimal + "flush: {rows: 1}\nflush: {rows: 2}", []string{"pipeline.yaml:3", "flush", "stands twice", "line 2"}},
		{minimal + "state: relative/folder", []string{"state", "relative path"}},
		{minimal + "state: /", []string{"state", "root"}},
		{minimal + "lake: {warehouse: /data}", []string{"lake.warehouse", "write file:///data"}},
		{minimal + "lake: {warehouse: 'file://data'}", []string{"lake.warehouse", "relative path"}},
		{minimal + "lake: {warehouse: data}", []string{"lake.warehouse", "file:///absolute/folder"}},
		{minimal + "lake: {warehouse: 'gs://x'}", []string{"lake.warehouse", `"gs" is unknown`}},
		{minimal + "lake: {warehouse: 's3://'}", []string{"lake.warehouse", "no bucket"}},
		{minimal + "lake: {catalog: 'sqlite://catalog.db'}", []string{"lake.catalog", "relative path"}},
		{minimal + "lake: {catalog: 'sqlite:///var/lib/'}", []string{"lake.catalog", "folder"}},
		{minimal + "lake: {catalog: 'mysql://x'}", []string{"lake.catalog", `"mysql" is unknown`}},
		{minimal + "lake: {catalog: 'rest://h'}", []string{"lake.catalog", "http://h"}},
		{minimal + "lake: {catalog: 'duckdb:///x.db'}", []string{"lake.catalog", "ducklake tables only"}},
		{minimal + "lake: {warehouse: 'file:///w', catalog: 'sqlite:///w/c.db'}", []string{"lake.catalog", "inside the warehouse"}},
		{minimal + "lake: {warehouse: 'file:///w'}\nstate: /w/state", []string{"pipeline.yaml:3", "state", "inside the warehouse"}},
		{minimal + "lake: {format: ducklake, mode: cow}", []string{"pipeline.yaml:2", "lake.mode", "ducklake", "remove"}},
		{minimal + "lake: {format: ducklake, catalog: 'http://h'}", []string{"lake.catalog", "REST"}},
		{minimal + "lake: {format: iceburg}", []string{"lake.format", "did you mean iceberg?"}},
		{minimal + "lake: {mode: fast}", []string{"lake.mode", "cow, mor, dv"}},
		{minimal + "s3: {access_key: x}", []string{"s3", "only one of access_key and secret_key"}},
		{minimal + "s3: {endpoint: 'minio:9000'}", []string{"s3.endpoint", "http://host:9000"}},
		{minimal + "s3: {endpoint: 'http://h/bucket'}", []string{"s3.endpoint", "lake.warehouse"}},
		{minimal + "query: {listen: 5433}", []string{"query.listen", "host:port"}},
		{minimal + "query: {listen: '127.0.0.1:99999'}", []string{"query.listen", "65535"}},
		{minimal + "query: {listen: '0.0.0.0:5433'}", []string{"query.listen", "other machines", "query.users"}},
		{minimal + "query: {listen: '127.0.0.1:8080'}", []string{"query server's address too"}},
		{minimal + "query: {tls: {cert: /c}}", []string{"query.tls", "only one"}},
		{minimal + "query: {users: [a]}", []string{"query.users", "must map names"}},
		{minimal + "query: {users: {a: {}}}", []string{"query.users.a", "no password"}},
		{minimal + "query: {users: {a: {pasword: x}}}", []string{"query.users.a.pasword", "did you mean password?"}},
		{minimal + "query: {users: {a: {password: x, password_file: /nowhere/at/all}}}", []string{"/nowhere/at/all does not exist"}},
		{minimal + "http: {listen: x}", []string{"http.listen", "host:port"}},
		{minimal + "log: {level: warning}", []string{"log.level", "did you mean warn?"}},
		{minimal + "retention: {all: 2h, minutely: 1h}", []string{"retention.minutely", "shorter than retention.all"}},
		{minimal + "retention: {hourly: 1h}", []string{"retention.hourly", "shorter"}},
		{minimal + "values: {numeric: 'decimal(39,2)'}", []string{"values.numeric", "1 <= p <= 38"}},
		{minimal + "values: {unrepresentable: drop}", []string{"values.unrepresentable", "keep, error"}},
		{minimal + "pipeline: My-Shop", []string{"pipeline", "lower-case"}},
		{minimal + "pipeline: " + strings.Repeat("x", 47), []string{"pipeline", "longer than 46"}},
		{minimal + "tables: {name: a.b}", []string{"tables", "must be a list"}},
		{minimal + "tables:\n  - mode: dv", []string{"pipeline.yaml:3", "tables[0]", "has no name"}},
		{minimal + "tables: [{name: a.b, mod: dv}]", []string{"tables[0].mod", "did you mean mode?"}},
		{minimal + "tables: [{name: a.*}]", []string{"tables[0].name", "pattern"}},
		{minimal + "tables:\n- {name: a.b}\n- {name: a.b}", []string{"pipeline.yaml:4", "already"}},
		{minimal + "tables: [{name: a.b, partition_by: [dy(x)]}]", []string{"partition_by", "did you mean day?"}},
		{minimal + "tables: [{name: a.b, partition_by: [bucket(x)]}]", []string{"bucket(16, column)"}},
		{minimal + "tables: [{name: a.b, numeric: {x: money}}]", []string{"tables[0].numeric.x", "decimal(p,s)"}},
		{minimal + "lake: {format: ducklake}\ntables: [{name: a.b, mode: dv}]", []string{"pipeline.yaml:3", "no meaning with format ducklake"}},
		{minimal + "---\n" + minimal, []string{"pipeline.yaml:2", "second document"}},
		{minimal + "\tx: 1", []string{"not valid YAML", "pipeline.yaml:2"}},
		{"source: {url: '${NOT_SET_AT_ALL}'}", []string{"pipeline.yaml:1", "source.url", "NOT_SET_AT_ALL is not set"}},
		{minimal + "flush: {rows: ${ROWS}}", []string{"pipeline.yaml:2", "not valid YAML", `"${NAME}"`}},
		{"source: {url: '${1x}'}", []string{"source.url", "not a variable's name"}},
		{"source: {url: '${X'}", []string{"source.url", "closing brace"}},
		{"source:\n  url: postgres://u@h/d\n  tables: [*.*]", []string{"pipeline.yaml:3", `"*.*"`}},
		{"source: {url: 'postgres://u@h/d', tables: [orders]}", []string{"source.tables", "public.orders"}},
		{"source: {url: 'postgres://u@h/d', tables: [a.b.c]}", []string{"source.tables", "double quotes"}},
		{"source: {url: 'postgres://u@h/d', tables: ['a.\"b']}", []string{"source.tables", "not closed"}},
		{"source: {url: 'postgres://u@h/d', tables: 'public.*'}", []string{"source.tables", "must be a list"}},
		{"source: {url: 'postgres://u@h/d', tables: []}", []string{"source.tables", "names no table"}},
		{"source: {url: 'postgres://u@h/d', tables: [[x]]}", []string{"source.tables", "not a plain value"}},
		{"source: {url: 'postgres://u@h/d', slot: Shop}", []string{"source.slot", "lower-case"}},
		{"source: {url: 'mysql://h'}", []string{"source.url", "not a Postgres URL"}},
		{"source: {url: 'postgres://h/d'}", []string{"source.url", "no user"}},
		{"source: {url: 'postgres://u@h'}", []string{"source.url", "no database"}},
		{"source: {url: 'postgres://u@/d'}", []string{"source.url", "no host"}},
		{"source: {url: 'postgres://u@h:x/d'}", []string{"source.url", "port is not a number"}},
		{"source: {url: 'postgres://u@h/d?sslmode=maybe'}", []string{"source.url", "sslmode=maybe", "verify-full"}},
		{"source: {url: 'postgres://u@h/d', url_file: /etc/x}", []string{"source.url", "beside", "remove one"}},
		{"source: {url_file: relative}", []string{"source.url_file", "relative path"}},
		{"source: {url_file: /nowhere/at/all}", []string{"source.url_file", "does not exist"}},
	} {
		wantProblem(t, c.text, nil, c.phrases...)
	}
}

func TestProblemsOfTheEnvironmentNameTheVariable(t *testing.T) {
	wantProblem(t, minimal, []string{"STREAMBED_FLUSH_INTERVAL=2"}, "STREAMBED_FLUSH_INTERVAL", "no unit")
	wantProblem(t, minimal, []string{"STREAMBED_FLUSH_INTERVALL=2s"}, "STREAMBED_FLUSH_INTERVALL", "did you mean STREAMBED_FLUSH_INTERVAL?")
	wantProblem(t, minimal, []string{"STREAMBED_TABLES={{{"}, "STREAMBED_TABLES", "not valid YAML")
	wantProblem(t, minimal, []string{"STREAMBED_SOURCE_TABLES=orders"}, "STREAMBED_SOURCE_TABLES", "public.orders")
}

func TestVariablesOfAContainerPlatformOnlyWarn(t *testing.T) {
	c := mustLoad(t, minimal, "STREAMBED_SERVICE_HOST=10.0.0.1", "STREAMBED_PORT_8080_TCP=tcp://10.0.0.1:8080", "STREAMBED_KEEP=1")
	if len(c.Warnings) != 2 || !strings.Contains(c.Warnings[0], "STREAMBED_SERVICE_HOST") {
		t.Errorf("warnings are %q", c.Warnings)
	}
}

func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	_, err := Load(write(t, "flush: {interval: x, rows: y}\nnope: 1\n"), nil, nil)
	if got := strings.Count(err.Error(), "\n") + 1; got != 4 {
		t.Errorf("%d problems, want 4:\n%v", got, err)
	}
}

func TestPasswordsAreNeverShown(t *testing.T) {
	for _, url := range []string{"postgres://u:hunter2@h:x/d", "postgres://u:hunter2%@h/d", "postgres://u:hunter2@/d", "mysql://u:hunter2@h/d", "postgres://u:hunter2@h/d?sslmode=no"} {
		for _, text := range []string{"source: {url: '" + url + "'}", minimal + "lake: {catalog: '" + url + "'}"} {
			_, err := Load(write(t, text), nil, nil)
			if err == nil {
				t.Errorf("%s is accepted", text)
			} else if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows the password: %v", err)
			}
		}
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	folder := t.TempDir()
	for path, phrase := range map[string]string{filepath.Join(folder, "none.yaml"): "does not exist", folder: "is a folder"} {
		if _, err := Load(path, nil, nil); err == nil || !strings.Contains(err.Error(), phrase) || !strings.Contains(err.Error(), path) {
			t.Errorf("Load(%s): %v, want %q", path, err, phrase)
		}
	}
}

func TestSecretsOfTheWrongKindAreRefused(t *testing.T) {
	folder := t.TempDir()
	empty, huge := filepath.Join(folder, "empty"), filepath.Join(folder, "huge")
	for path, size := range map[string]int{empty: 0, huge: maxSecret + 1} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, phrase := range map[string]string{folder: "is a folder", empty: "is empty", huge: "too large"} {
		wantProblem(t, "source: {url: 'postgres://u@h/d', password_file: "+path+"}", nil, "source.password_file", phrase)
	}
}

func TestWhatThisVersionCannotDoIsSaid(t *testing.T) {
	c := mustLoad(t, minimal+"lake: {mode: dv}\n")
	if got := c.Unsupported(); len(got) != 0 {
		t.Errorf("a supported configuration is refused: %q", got)
	}
	c = mustLoad(t, minimal+`
lake: {mode: mor, warehouse: "s3://b", catalog: "postgres://u@h/d"}
tables: [{name: a.b, mode: dv, sort_by: [x]}]
query: {users: {a: {password: x}}}
`)
	if got := c.Unsupported(); len(got) != 1 {
		t.Errorf("%d findings, want 1: %q", len(got), got)
	}
	c = mustLoad(t, minimal+"lake: {format: ducklake}\ntables: [{name: a.b, partition_by: [day(x), 'bucket(4, y)', z], sort_by: [x desc]}]\n")
	if got := c.Unsupported(); len(got) != 0 {
		t.Errorf("a supported configuration is refused: %q", got)
	}
	c = mustLoad(t, minimal+"lake: {format: ducklake}\ntables: [{name: a.b, partition_by: ['truncate(4, x)']}]\n")
	if got := c.Unsupported(); len(got) != 1 || !strings.Contains(got[0], "truncate") {
		t.Errorf("truncate of a DuckLake table: %q", got)
	}
}
