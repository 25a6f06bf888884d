package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Key describes one key of the configuration.
type Key struct {
	// Path is dotted: flush.interval.
	Path string
	// Flag is its command-line flag without dashes; "" when it has none.
	Flag string
	// Default is the value when nothing sets the key, as a file would have it; "" for none.
	Default string
	// Help is one phrase.
	Help string

	// Exactly one of them is set: scalar reads a plain value, list one item of a sequence, tree a whole node.
	scalar func(c *Config, text string) error
	list   func(c *Config) *[]string
	item   func(text string) error
	tree   func(d *decoder, path string, n *yaml.Node)
	// secret values may come from a file named by <path>_file, and are never shown.
	secret bool
}

// Env is the variable that sets the key: STREAMBED_FLUSH_INTERVAL.
func (k *Key) Env() string {
	return "STREAMBED_" + strings.ToUpper(strings.ReplaceAll(k.Path, ".", "_"))
}

// Keys lists every key in the order of the documentation.
func Keys() []Key { return slices.Clone(keys) }

var keys []Key

// keys is filled here since decoding a tree refers back to it.
func init() {
	keys = slices.Concat(sourceKeys(), lakeKeys(), flowKeys(), serverKeys())
	for _, k := range keys {
		if k.secret {
			keys = append(keys, fileKey(k))
		}
	}
}

// fileKey is the twin of a secret's key that names a file holding the value.
func fileKey(k Key) Key {
	return Key{
		Path: k.Path + "_file", Help: "file that holds " + k.Path,
		scalar: func(c *Config, text string) error {
			secret, err := readSecret(text)
			if err != nil {
				return err
			}
			return k.scalar(c, secret)
		},
	}
}

func sourceKeys() []Key {
	patterns := func(text string) error { _, err := ParsePattern(text); return err }
	return []Key{
		{Path: "pipeline", Flag: "pipeline", Default: "streambed", Help: "name of the pipeline: names slot, publication and state",
			scalar: parsed(parsePipeline, func(c *Config) *string { return &c.Pipeline })},
		{Path: "source.url", Help: "Postgres to follow, postgres://user@host:5432/database; required", secret: true,
			scalar: parsed(parsePostgres, func(c *Config) *string { return &c.Source.URL })},
		{Path: "source.primary_url", Help: "the primary, when source.url is a standby", secret: true,
			scalar: parsed(parsePostgres, func(c *Config) *string { return &c.Source.PrimaryURL })},
		{Path: "source.password", Help: "password for source.url and source.primary_url", secret: true,
			scalar: parsed(anything, func(c *Config) *string { return &c.Source.Password })},
		{Path: "source.slot", Help: "replication slot; default streambed_ and the pipeline's name",
			scalar: parsed(parseSlot, func(c *Config) *string { return &c.Source.Slot })},
		{Path: "source.publication", Help: "publication; default streambed_ and the pipeline's name",
			scalar: parsed(parsePublication, func(c *Config) *string { return &c.Source.Publication })},
		{Path: "source.tables", Default: `["public.*"]`, Help: "patterns of the tables to follow; * stands for any characters, quoted parts are literal",
			list: func(c *Config) *[]string { return &c.Source.Tables }, item: patterns},
		{Path: "source.exclude", Help: "patterns of tables to leave out",
			list: func(c *Config) *[]string { return &c.Source.Exclude }, item: patterns},
		{Path: "source.max_slot_wal", Help: "retained WAL above which the slot is given up; default never",
			scalar: optional(size(64<<20, 1<<50, func(c *Config) *int64 { return &c.Source.MaxSlotWAL }))},
	}
}

func lakeKeys() []Key {
	return []Key{
		{Path: "lake.format", Default: "iceberg", Help: "iceberg or ducklake",
			scalar: oneOf(func(c *Config) *string { return &c.Lake.Format }, "iceberg", "ducklake")},
		{Path: "lake.mode", Default: "cow", Help: "how Iceberg tables take updates and deletes: cow, mor or dv",
			scalar: oneOf(func(c *Config) *string { return &c.Lake.Mode }, "cow", "mor", "dv")},
		{Path: "lake.warehouse", Flag: "warehouse", Default: "file:///var/lib/streambed/warehouse", Help: "folder or bucket of the tables",
			scalar: parsed(parseWarehouse, func(c *Config) *string { return &c.Lake.Warehouse })},
		{Path: "lake.catalog", Flag: "catalog", Default: "sqlite:///var/lib/streambed/catalog.db", Help: "catalog of the tables and the pipeline's state", secret: true,
			scalar: parsed(parseCatalog, func(c *Config) *string { return &c.Lake.Catalog })},
		{Path: "lake.target_file_size", Default: "128MiB", Help: "size at which a data file is closed",
			scalar: size(1<<20, 8<<30, func(c *Config) *int64 { return &c.Lake.TargetFileSize })},
		{Path: "s3.endpoint", Help: "S3 server, when it is not Amazon's",
			scalar: parsed(parseEndpoint, func(c *Config) *string { return &c.S3.Endpoint })},
		{Path: "s3.region", Default: "us-east-1", Help: "region of the bucket",
			scalar: parsed(anything, func(c *Config) *string { return &c.S3.Region })},
		{Path: "s3.access_key", Help: "access key", secret: true,
			scalar: parsed(anything, func(c *Config) *string { return &c.S3.AccessKey })},
		{Path: "s3.secret_key", Help: "secret key", secret: true,
			scalar: parsed(anything, func(c *Config) *string { return &c.S3.SecretKey })},
		{Path: "s3.path_style", Default: "auto", Help: "bucket in the path instead of the host name: auto, true or false",
			scalar: oneOf(func(c *Config) *string { return &c.S3.PathStyle }, "auto", "true", "false")},
	}
}

func flowKeys() []Key {
	return []Key{
		{Path: "flush.interval", Flag: "flush-interval", Default: "2s", Help: "longest time until changes become visible",
			scalar: duration(10*time.Millisecond, 24*time.Hour, func(c *Config) *time.Duration { return &c.Flush.Interval })},
		{Path: "flush.rows", Flag: "flush-rows", Default: "10000", Help: "changed rows after which they become visible",
			scalar: count(1, 1<<32, func(c *Config) *int64 { return &c.Flush.Rows })},
		{Path: "flush.bytes", Flag: "flush-bytes", Default: "64MiB", Help: "bytes of changes after which they become visible",
			scalar: size(1<<10, 64<<30, func(c *Config) *int64 { return &c.Flush.Bytes })},
		{Path: "parallelism.upload_workers", Flag: "upload-workers", Default: "4", Help: "files encoded and stored at once",
			scalar: count(1, 256, func(c *Config) *int { return &c.Parallelism.UploadWorkers })},
		{Path: "parallelism.copy_workers", Flag: "copy-workers", Default: "4", Help: "connections of an initial copy",
			scalar: count(1, 64, func(c *Config) *int { return &c.Parallelism.CopyWorkers })},
		{Path: "parallelism.in_flight", Default: "4", Help: "cuts under way between decoding and commit",
			scalar: count(1, 256, func(c *Config) *int { return &c.Parallelism.InFlight })},
		{Path: "memory", Flag: "memory", Default: "1GiB", Help: "budget of pipeline and query server together",
			scalar: size(64<<20, 16<<40, func(c *Config) *int64 { return &c.Memory })},
		{Path: "state", Flag: "state", Default: "/var/lib/streambed", Help: "local folder for key index, cache and spill",
			scalar: parsed(absolute, func(c *Config) *string { return &c.State })},
		{Path: "tables", Help: "overrides by table: name, mode, partition_by, sort_by, exclude_columns, numeric",
			tree: (*decoder).tables},
		{Path: "values.unrepresentable", Default: "keep", Help: "values the lake's type cannot hold: keep (bend and count) or error (set the table aside)",
			scalar: func(c *Config, text string) error {
				var choice string
				err := oneOf(func(*Config) *string { return &choice }, "keep", "error")(c, text)
				c.Values.Refuse = choice == "error"
				return err
			}},
		{Path: "values.numeric", Default: "decimal(38,18)", Help: "type of numeric columns without precision: string or decimal(p,s)",
			scalar: parsed(ParseNumeric, func(c *Config) *Numeric { return &c.Values.Numeric })},
	}
}

func serverKeys() []Key {
	const forever = 100 * 365 * 24 * time.Hour
	return []Key{
		{Path: "retention.all", Default: "15m", Help: "age up to which every snapshot is kept",
			scalar: duration(0, forever, func(c *Config) *time.Duration { return &c.Retention.All })},
		{Path: "retention.minutely", Default: "24h", Help: "age up to which one snapshot a minute is kept",
			scalar: duration(0, forever, func(c *Config) *time.Duration { return &c.Retention.Minutely })},
		{Path: "retention.hourly", Default: "168h", Help: "age up to which one snapshot an hour is kept",
			scalar: duration(0, forever, func(c *Config) *time.Duration { return &c.Retention.Hourly })},
		{Path: "retention.max_snapshots", Default: "500", Help: "most snapshots kept of a table",
			scalar: count(1, 1_000_000, func(c *Config) *int { return &c.Retention.MaxSnapshots })},
		{Path: "query.listen", Flag: "query-listen", Default: "127.0.0.1:5433", Help: "address of the query server, or off",
			scalar: parsed(parseListen, func(c *Config) *string { return &c.Query.Listen })},
		{Path: "query.users", Help: "who may query: {name: {password_file: ...}}",
			tree: (*decoder).users},
		{Path: "query.tls.cert", Help: "certificate file (PEM) of the query server",
			scalar: parsed(absoluteFile, func(c *Config) *string { return &c.Query.TLS.Cert })},
		{Path: "query.tls.key", Help: "its key file (PEM)",
			scalar: parsed(absoluteFile, func(c *Config) *string { return &c.Query.TLS.Key })},
		{Path: "query.cache_size", Default: "10GiB", Help: "disk cache for objects read from S3",
			scalar: size(0, 1<<50, func(c *Config) *int64 { return &c.Query.CacheSize })},
		{Path: "http.listen", Flag: "http-listen", Default: "127.0.0.1:8080", Help: "address of status page, metrics and health checks, or off",
			scalar: parsed(parseListen, func(c *Config) *string { return &c.HTTP.Listen })},
		{Path: "log.level", Flag: "log-level", Default: "info", Help: "debug, info, warn or error",
			scalar: oneOf(func(c *Config) *string { return &c.Log.Level }, "debug", "info", "warn", "error")},
		{Path: "log.format", Default: "console", Help: "console or json",
			scalar: oneOf(func(c *Config) *string { return &c.Log.Format }, "console", "json")},
	}
}

// parsed stores what parse makes of the text.
func parsed[T any](parse func(string) (T, error), field func(*Config) *T) func(*Config, string) error {
	return func(c *Config, text string) error {
		value, err := parse(text)
		if err == nil {
			*field(c) = value
		}
		return err
	}
}

func anything(text string) (string, error) { return text, nil }

// optional lets an empty value stand for the default.
func optional(parse func(*Config, string) error) func(*Config, string) error {
	return func(c *Config, text string) error {
		if text == "" {
			return nil
		}
		return parse(c, text)
	}
}

func oneOf(field func(*Config) *string, choices ...string) func(*Config, string) error {
	return func(c *Config, text string) error {
		if slices.Contains(choices, text) {
			*field(c) = text
			return nil
		}
		said := fmt.Sprintf("%q is not one of %s", text, strings.Join(choices, ", "))
		if near := nearest(text, choices); near != "" {
			said += "; did you mean " + near + "?"
		}
		return fmt.Errorf("%s", said)
	}
}

func size(low, high int64, field func(*Config) *int64) func(*Config, string) error {
	return func(c *Config, text string) error {
		n, err := ParseSize(text)
		if err != nil {
			return err
		}
		if n < low || n > high {
			return fmt.Errorf("%s is out of range; choose between %s and %s", text, FormatSize(low), FormatSize(high))
		}
		*field(c) = n
		return nil
	}
}

func duration(low, high time.Duration, field func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, text string) error {
		d, err := ParseDuration(text)
		if err != nil {
			return err
		}
		if d < low || d > high {
			return fmt.Errorf("%s is out of range; choose between %s and %s", text, low, high)
		}
		*field(c) = d
		return nil
	}
}

func count[T int | int64](low, high int64, field func(*Config) *T) func(*Config, string) error {
	return func(c *Config, text string) error {
		n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number; write one between %d and %d", text, low, high)
		}
		if n < low || n > high {
			return fmt.Errorf("%d is out of range; choose between %d and %d", n, low, high)
		}
		*field(c) = T(n)
		return nil
	}
}

// absolute checks the path of a folder.
func absolute(text string) (string, error) {
	if !filepath.IsAbs(text) {
		return "", fmt.Errorf("%q is a relative path, which would depend on where the program is started; write an absolute one", text)
	}
	clean := filepath.Clean(text)
	if clean == "/" {
		return "", fmt.Errorf("%q is the root of the file system; name a folder", text)
	}
	return clean, nil
}

// absoluteFile checks the path of a file that may be left out.
func absoluteFile(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	return absolute(text)
}
