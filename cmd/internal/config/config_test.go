package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

const minimal = "source: {url: 'postgres://u@h:5432/d'}\n"

// write puts a configuration into a file of its own.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipeline.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustLoad(t *testing.T, text string, env ...string) *Config {
	t.Helper()
	c, err := Load(write(t, text), env, nil)
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, text)
	}
	return c
}

// wantProblem loads a configuration that is wrong and finds all the phrases in one line of its error.
func wantProblem(t *testing.T, text string, env []string, phrases ...string) {
	t.Helper()
	path := write(t, text)
	_, err := Load(path, env, nil)
	var problems *Error
	if !errors.As(err, &problems) {
		t.Fatalf("error %v, want an *Error that says %q\nin\n%s", err, phrases, text)
	}
	for _, p := range problems.Problems {
		said, all := strings.ReplaceAll(p.String(), path, "pipeline.yaml"), true
		for _, phrase := range phrases {
			all = all && strings.Contains(said, phrase)
		}
		if all {
			return
		}
	}
	t.Errorf("no problem says all of %q:\n%v\nin\n%s", phrases, err, text)
}

func TestOnlySourceURLIsNeeded(t *testing.T) {
	c := mustLoad(t, minimal)
	want := &Config{
		Path: c.Path, Pipeline: "streambed",
		Source: Source{URL: "postgres://u@h:5432/d", Slot: "streambed_streambed", Publication: "streambed_streambed", Tables: []string{"public.*"}},
		Lake: Lake{Format: "iceberg", Mode: "cow", Warehouse: "file:///var/lib/streambed/warehouse",
			Catalog: "sqlite:///var/lib/streambed/catalog.db", TargetFileSize: 128 << 20},
		S3:          S3{Region: "us-east-1", PathStyle: "auto"},
		Flush:       Flush{Interval: 2 * time.Second, Rows: 10000, Bytes: 64 << 20},
		Parallelism: Parallelism{UploadWorkers: 4, CopyWorkers: 4, InFlight: 4},
		Memory:      1 << 30, State: "/var/lib/streambed",
		Values:    Values{Numeric: Numeric{Precision: 38, Scale: 18}},
		Retention: Retention{All: 15 * time.Minute, Minutely: 24 * time.Hour, Hourly: 168 * time.Hour, MaxSnapshots: 500},
		Query:     Query{Listen: "127.0.0.1:5433", CacheSize: 10 << 30},
		HTTP:      HTTP{Listen: "127.0.0.1:8080"}, Log: Log{Level: "info", Format: "console"},
		origins: c.origins,
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

func TestEveryKeyOfTheContractIsRead(t *testing.T) {
	secret := write(t, "from a file\n")
	c := mustLoad(t, `
pipeline: shop
source:
  url: postgres://user@host:5432/db
  primary_url: "postgres://user@primary:5432/db"
  password_file: `+secret+`
  slot: my_slot
  publication: "My Publication"
  tables: ["public.*", 'sales."a.b"']
  exclude: ["public.tmp*"]
  max_slot_wal: 10GiB
lake: {format: iceberg, mode: dv, warehouse: "s3://bucket/a/b/", catalog: "postgres://u:p@h/lake", target_file_size: 256MiB}
s3: {endpoint: "http://minio:9000", region: eu-west-1, access_key: a, secret_key_file: `+secret+`, path_style: true}
flush: {interval: 200ms, rows: 1_000, bytes: 1MB}
parallelism: {upload_workers: 2, copy_workers: 3, in_flight: 5}
memory: 512MiB
state: /srv/streambed
tables:
  - {name: public.events, mode: dv, partition_by: ["day(created_at)", "bucket(16, id)", region], sort_by: [id, "at desc"]}
  - name: sales."a.b"
    exclude_columns: [secret, '"Card No"']
    numeric: {price: "decimal(20,4)", note: string}
values: {unrepresentable: error, numeric: string}
retention: {all: 1h, minutely: 2d, hourly: 14d, max_snapshots: 50}
query: {listen: "0.0.0.0:5433", users: {analyst: {password_file: `+secret+`}, other: {password: x}}, tls: {cert: /c.pem, key: /k.pem}, cache_size: 1GiB}
http: {listen: off}
log: {level: debug, format: json}
`)
	want := &Config{
		Path: c.Path, Pipeline: "shop",
		Source: Source{URL: "postgres://user:from%20a%20file@host:5432/db", PrimaryURL: "postgres://user:from%20a%20file@primary:5432/db",
			Password: "from a file", Slot: "my_slot", Publication: "My Publication",
			Tables: []string{"public.*", `sales."a.b"`}, Exclude: []string{"public.tmp*"}, MaxSlotWAL: 10 << 30},
		Lake:        Lake{Format: "iceberg", Mode: "dv", Warehouse: "s3://bucket/a/b", Catalog: "postgres://u:p@h/lake", TargetFileSize: 256 << 20},
		S3:          S3{Endpoint: "http://minio:9000", Region: "eu-west-1", AccessKey: "a", SecretKey: "from a file", PathStyle: "true"},
		Flush:       Flush{Interval: 200 * time.Millisecond, Rows: 1000, Bytes: 1_000_000},
		Parallelism: Parallelism{UploadWorkers: 2, CopyWorkers: 3, InFlight: 5},
		Memory:      512 << 20, State: "/srv/streambed",
		Tables: []Table{
			{Schema: "public", Name: "events", Mode: "dv", Line: 19,
				PartitionBy: []Transform{{Name: "day", Column: "created_at"}, {Name: "bucket", Width: 16, Column: "id"}, {Name: "identity", Column: "region"}},
				SortBy:      []SortField{{Column: "id"}, {Column: "at", Descending: true}}},
			{Schema: "sales", Name: "a.b", Line: 20, ExcludeColumns: []string{"secret", "Card No"},
				Numeric: map[string]Numeric{"price": {Precision: 20, Scale: 4}, "note": {String: true}}},
		},
		Values:    Values{Refuse: true, Numeric: Numeric{String: true}},
		Retention: Retention{All: time.Hour, Minutely: 48 * time.Hour, Hourly: 14 * 24 * time.Hour, MaxSnapshots: 50},
		Query: Query{Listen: "0.0.0.0:5433", Users: map[string]string{"analyst": "from a file", "other": "x"},
			TLS: TLS{Cert: "/c.pem", Key: "/k.pem"}, CacheSize: 1 << 30},
		Log:     Log{Level: "debug", Format: "json"},
		origins: c.origins,
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	path := write(t, minimal+"flush: {interval: 5s, rows: 5, bytes: 5MiB}\n")
	env := []string{"STREAMBED_FLUSH_ROWS=6", "STREAMBED_FLUSH_BYTES=6MiB", "STREAMBED_SOURCE_TABLES=a.b, c.\"d,e\"",
		`STREAMBED_TABLES=[{name: a.b, mode: mor}]`}
	fs := pflag.NewFlagSet("t", pflag.ContinueOnError)
	RegisterFlags(fs)
	if err := fs.Parse([]string{"--flush-bytes", "7MiB", "--copy-workers=7"}); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path, env, fs)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Flush{Interval: 5 * time.Second, Rows: 6, Bytes: 7 << 20}); c.Flush != want {
		t.Errorf("flush is %+v, want %+v", c.Flush, want)
	}
	if c.Parallelism.CopyWorkers != 7 || c.Parallelism.UploadWorkers != 4 {
		t.Errorf("parallelism is %+v", c.Parallelism)
	}
	if want := []string{"a.b", `c."d,e"`}; !reflect.DeepEqual(c.Source.Tables, want) {
		t.Errorf("tables are %q, want %q", c.Source.Tables, want)
	}
	if len(c.Tables) != 1 || c.Tables[0].Mode != "mor" {
		t.Errorf("overrides are %+v", c.Tables)
	}
	for key, where := range map[string]string{"flush.interval": path + ":2", "flush.rows": "STREAMBED_FLUSH_ROWS",
		"flush.bytes": "--flush-bytes", "memory": ""} {
		if got := c.Where(key); got != where {
			t.Errorf("%s comes from %q, want %q", key, got, where)
		}
	}
}

func TestTheCommonFlagsExist(t *testing.T) {
	fs := pflag.NewFlagSet("t", pflag.ContinueOnError)
	RegisterFlags(fs)
	for _, name := range []string{"config", "flush-interval", "flush-rows", "flush-bytes", "upload-workers", "copy-workers", "memory"} {
		if fs.Lookup(name) == nil {
			t.Errorf("no flag --%s", name)
		}
	}
}

func TestNoTwoKeysShareAVariable(t *testing.T) {
	seen := map[string]string{}
	for _, k := range Keys() {
		if other, twice := seen[k.Env()]; twice {
			t.Errorf("%s and %s are both set by %s", other, k.Path, k.Env())
		}
		if otherVariables[k.Env()] {
			t.Errorf("%s, set by %s, has another meaning", k.Path, k.Env())
		}
		seen[k.Env()] = k.Path
	}
}

func TestEnvironmentAloneIsEnough(t *testing.T) {
	c, err := Load("", []string{"STREAMBED_SOURCE_URL=postgres://u@h/d", "STREAMBED_QUERY_LISTEN=off"}, nil)
	if err != nil || c.Source.URL != "postgres://u@h/d" || c.Query.Listen != "" {
		t.Errorf("got %+v, %v", c, err)
	}
	path := write(t, minimal+"pipeline: other")
	if c, err = Load("", []string{"STREAMBED_CONFIG=" + path}, nil); err != nil || c.Pipeline != "other" {
		t.Errorf("STREAMBED_CONFIG is not read: %+v, %v", c, err)
	}
}

func TestVariablesInValues(t *testing.T) {
	c := mustLoad(t, "source: {url: 'postgres://${USER_NAME}:${PW}@h/d', publication: 'a$${b}'}\nflush:\n  rows: ${ROWS}\n",
		"USER_NAME=me", "PW=p", "ROWS=77")
	if c.Source.URL != "postgres://me:p@h/d" || c.Source.Publication != "a${b}" || c.Flush.Rows != 77 {
		t.Errorf("got %+v %+v", c.Source, c.Flush)
	}
}

func TestReadingALakeNeedsNoSource(t *testing.T) {
	if _, err := LoadLake("", nil, nil); err != nil {
		t.Error(err)
	}
}

func TestMemoryIsNeverGivenOutTwice(t *testing.T) {
	c := mustLoad(t, minimal)
	if p, q := c.MemoryShares(); p <= 0 || q <= 0 || p+q > c.Memory {
		t.Errorf("shares %d and %d of %d", p, q, c.Memory)
	}
}
