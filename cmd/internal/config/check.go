package config

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
)

// derive fills in what other values decide.
func (d *decoder) derive() {
	c := d.config
	if c.Source.Slot == "" {
		c.Source.Slot = "streambed_" + c.Pipeline
	}
	if c.Source.Publication == "" {
		c.Source.Publication = "streambed_" + c.Pipeline
	}
	if c.Source.Password != "" {
		for _, u := range []*string{&c.Source.URL, &c.Source.PrimaryURL} {
			if *u != "" && !hasPassword(*u) {
				*u = withPassword(*u, c.Source.Password)
			}
		}
	}
	if c.Lake.Format == "ducklake" {
		if at, given := c.origins["lake.mode"]; given {
			d.fail(at, "lake.mode", "has no meaning with format ducklake, which has one way to delete; remove the key")
		}
		c.Lake.Mode = ""
	}
}

// check looks at values that must fit one another.
func (d *decoder) check(needSource bool) {
	c := d.config
	if c.Source.URL == "" && needSource && !d.unread && !d.reported("source.url", "source.url_file") {
		d.fail(origin{}, "source.url", "%s", missingSource(c))
	}
	if len(c.Source.Tables) == 0 && !d.reported("source.tables") {
		d.fail(c.origins["source.tables"], "source.tables", "names no table; write a pattern, such as [\"public.*\"]")
	}
	d.checkLake()
	d.checkServers()
	r := c.Retention
	if r.Minutely > 0 && r.Minutely < r.All {
		d.fail(d.newer("retention.minutely", "retention.all"), "retention.minutely", "%s is shorter than retention.all (%s); give it at least as long, or 0 for none", r.Minutely, r.All)
	}
	if r.Hourly > 0 && r.Hourly < r.Minutely {
		d.fail(d.newer("retention.hourly", "retention.minutely"), "retention.hourly", "%s is shorter than retention.minutely (%s); give it at least as long, or 0 for none", r.Hourly, r.Minutely)
	}
}

func missingSource(c *Config) string {
	where := "set STREAMBED_SOURCE_URL, or name a file with --config"
	if c.Path != "" {
		where = "add it to " + c.Path + ", or set STREAMBED_SOURCE_URL"
	}
	return "is missing: the one key that has no default; " + where + ", to postgres://user@host:5432/database"
}

func (d *decoder) checkLake() {
	c := d.config
	scheme, rest, _ := strings.Cut(c.Lake.Catalog, "://")
	at := d.newer("lake.catalog", "lake.format")
	switch {
	case c.Lake.Format == "iceberg" && scheme == "duckdb":
		d.fail(at, "lake.catalog", "a duckdb catalog holds ducklake tables only; use sqlite:///, postgres:// or a REST URL with format iceberg")
	case c.Lake.Format == "ducklake" && (scheme == "http" || scheme == "https"):
		d.fail(at, "lake.catalog", "a REST catalog holds iceberg tables only; use sqlite:///, duckdb:/// or postgres:// with format ducklake")
	}
	if warehouse, local := strings.CutPrefix(c.Lake.Warehouse, "file://"); local {
		if (scheme == "sqlite" || scheme == "duckdb") && within(rest, warehouse) {
			d.fail(at, "lake.catalog", "%s lies inside the warehouse, where only table files belong; put it beside", rest)
		}
		if c.State == warehouse || within(c.State, warehouse) {
			d.fail(d.newer("state", "lake.warehouse"), "state", "%s lies inside the warehouse, where only table files belong; choose another folder", c.State)
		}
	}
	if (c.S3.AccessKey == "") != (c.S3.SecretKey == "") && !d.reported("s3.access_key", "s3.secret_key", "s3.access_key_file", "s3.secret_key_file") {
		d.fail(d.newer("s3.access_key", "s3.secret_key"), "s3", "has only one of access_key and secret_key; give both, or none to use the machine's own role")
	}
	for _, t := range c.Tables {
		if t.Mode != "" && c.Lake.Format == "ducklake" {
			d.fail(origin{file: c.Path, line: t.Line}, "tables", "mode of %s.%s has no meaning with format ducklake; remove it", t.Schema, t.Name)
		}
	}
}

func (d *decoder) checkServers() {
	c := d.config
	if (c.Query.TLS.Cert == "") != (c.Query.TLS.Key == "") {
		d.fail(d.newer("query.tls.cert", "query.tls.key"), "query.tls", "has only one of cert and key; give both, or none for no TLS")
	}
	if _, port, err := net.SplitHostPort(c.Query.Listen); err == nil && port != "0" && c.Query.Listen == c.HTTP.Listen {
		d.fail(d.newer("http.listen", "query.listen"), "http.listen", "%s is the query server's address too; choose another port", c.HTTP.Listen)
	}
	if c.Query.Listen != "" && !Loopback(c.Query.Listen) && len(c.Query.Users) == 0 && !d.reported("query.users") {
		d.fail(c.origins["query.listen"], "query.listen", "%s can be reached from other machines, and no user has a password; add query.users, or listen on 127.0.0.1", c.Query.Listen)
	}
}

// within reports whether path lies below folder.
func within(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != "." && rel != ".." && !strings.HasPrefix(rel, "../")
}

// newer is the origin of the first of the keys that was given at all.
func (d *decoder) newer(paths ...string) origin {
	for _, p := range paths {
		if at, given := d.config.origins[p]; given {
			return at
		}
	}
	return origin{}
}

// reported tells whether a problem of one of the keys has been found already.
func (d *decoder) reported(paths ...string) bool {
	for _, p := range d.problems {
		for _, path := range paths {
			if p.Key == path {
				return true
			}
		}
	}
	return false
}

// Unsupported names what the configuration asks for and this version cannot do, each a sentence with its remedy. A
// setting is never accepted and then ignored.
func (c *Config) Unsupported() []string {
	var out []string
	add := func(key, format string, args ...any) {
		p := Problem{Where: c.Where(key), Key: key, Text: fmt.Sprintf(format, args...)}
		out = append(out, p.String())
	}
	if !strings.HasPrefix(c.Lake.Catalog, "sqlite://") && !strings.HasPrefix(c.Lake.Catalog, "postgres://") && !strings.HasPrefix(c.Lake.Catalog, "postgresql://") {
		add("lake.catalog", "this version keeps its catalog in SQLite or Postgres; use sqlite:///absolute/catalog.db or postgres://user@host/database")
	}
	for _, t := range c.Tables {
		name := t.Schema + "." + t.Name
		if c.Lake.Format == "iceberg" && (len(t.PartitionBy) > 0 || len(t.SortBy) > 0) {
			add("tables", "partition_by and sort_by of %s: this version writes unpartitioned Iceberg tables only; remove them, or use format ducklake", name)
		}
		if c.Lake.Format == "ducklake" && slices.ContainsFunc(t.PartitionBy, func(f Transform) bool { return f.Name == "truncate" }) {
			add("tables", "partition_by of %s: DuckLake does not know truncate; use the column itself or bucket", name)
		}
	}
	return out
}
