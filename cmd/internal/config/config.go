// Package config turns pipeline.yaml, STREAMBED_* variables and flags into one checked Config. It is the only place
// that knows YAML, and it knows nothing of the pipeline's stages: what comes out is plain data.
//
// A value is looked for in the flags, then the environment, then the file, then the defaults. Unknown keys and bad
// values are errors that name file, line, key and remedy; all of them are reported at once.
package config

import (
	"time"

	"github.com/streambed/streambed/formats"
)

// Config is a pipeline's complete configuration: every field is set, by its default at least, and within its bounds.
type Config struct {
	// Path is the file that was read; "" when there was none.
	Path string
	// Pipeline names slot, publication and the pipeline's row in the catalog: lower-case letters, digits, underscores.
	Pipeline    string
	Source      Source
	Lake        Lake
	S3          S3
	Flush       Flush
	Parallelism Parallelism
	// Memory is the budget in bytes of pipeline and query server together; see MemoryShares.
	Memory int64
	// State is the absolute path of the local folder for key index, cache and spill.
	State     string
	Tables    []Table
	Values    Values
	Retention Retention
	Query     Query
	HTTP      HTTP
	Log       Log

	// Warnings are findings that do not keep the configuration from being used, each a sentence.
	Warnings []string

	origins map[string]origin
}

// Source says which Postgres to follow and what of it.
type Source struct {
	// URL and PrimaryURL are postgres:// URLs with the password, if one was given; PrimaryURL may be "".
	URL        string
	PrimaryURL string
	// Password is the one given apart from the URL; it is part of the URLs already.
	Password    string
	Slot        string
	Publication string
	// Tables and Exclude are valid patterns (see ParsePattern).
	Tables  []string
	Exclude []string
	// MaxSlotWAL is the size in bytes of retained WAL above which the slot is given up; 0 for never.
	MaxSlotWAL int64
}

// Lake says where and how tables are written.
type Lake struct {
	// Format is iceberg or ducklake.
	Format string
	// Mode is cow, mor or dv with iceberg; "" with ducklake.
	Mode string
	// Warehouse is a file:///absolute/folder or s3://bucket/prefix URI without a slash at its end.
	Warehouse string
	// Catalog is a sqlite, postgres, http, https or duckdb URI.
	Catalog string
	// TargetFileSize is in bytes.
	TargetFileSize int64
}

// S3 says how to reach an s3:// warehouse.
type S3 struct {
	// Endpoint is an http or https URL; "" for Amazon's own.
	Endpoint  string
	Region    string
	AccessKey string
	SecretKey string
	// PathStyle is auto, true or false.
	PathStyle string
}

// Flush says when changes become visible: at the first transaction end at which one of them is reached.
type Flush struct {
	Interval time.Duration
	Rows     int64
	Bytes    int64
}

// Parallelism bounds workers and cuts in flight.
type Parallelism struct {
	UploadWorkers int
	CopyWorkers   int
	InFlight      int
}

// Table overrides settings of one table.
type Table struct {
	// Schema and Name are the table's names as Postgres has them, without quotes.
	Schema, Name string
	// Mode is cow, mor, dv or "" for the lake's.
	Mode        string
	PartitionBy []Transform
	SortBy      []SortField
	// ExcludeColumns are left out of the lake.
	ExcludeColumns []string
	// Numeric are lake types of numeric columns without precision, by column.
	Numeric map[string]Numeric
	// Line is where the override stands in its file; 0 when it came from elsewhere.
	Line int
}

// Transform is one field of a table's partitioning, SortField one of its order.
type (
	Transform = formats.Transform
	SortField = formats.SortField
)

// Values are the choices about values that the lake's types cannot hold.
type Values struct {
	// Refuse sets a table aside at such a value instead of bending it.
	Refuse  bool
	Numeric Numeric
}

// Numeric is the lake type of a numeric column without precision: a string, or a decimal of Precision and Scale.
type Numeric struct {
	String           bool
	Precision, Scale int
}

// Retention says which snapshots are kept: all of the newest, then thinned.
type Retention struct {
	All, Minutely, Hourly time.Duration
	MaxSnapshots          int
}

// Query is the query server's.
type Query struct {
	// Listen is host:port; "" when there is no query server.
	Listen string
	// Users maps names to passwords; empty when no password is asked for.
	Users map[string]string
	TLS   TLS
	// CacheSize bounds the disk cache in bytes.
	CacheSize int64
}

// TLS names the files of a certificate and its key, absolute paths; both or neither.
type TLS struct {
	Cert, Key string
}

// HTTP is the status page's.
type HTTP struct {
	// Listen is host:port; "" when there is none.
	Listen string
}

// Log says what is logged and how.
type Log struct {
	// Level is debug, info, warn or error; Format console or json.
	Level, Format string
}

// MemoryShares splits Memory, in bytes: what the pipeline admits from its source, and what DuckDB may use. The rest
// is for encoders, the key index' cache and the garbage collector's headroom.
func (c *Config) MemoryShares() (pipeline, query int64) {
	if c.Query.Listen == "" {
		return c.Memory / 2, 0
	}
	return c.Memory / 3, c.Memory / 3
}
