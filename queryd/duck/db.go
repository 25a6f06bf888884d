// Package duck is a thin layer over DuckDB's C interface: one in-memory database without a way out, connections whose
// statements end with their context, results streamed chunk by chunk and read from DuckDB's own memory without boxing.
package duck

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"

	bindings "github.com/duckdb/duckdb-go-bindings"
)

// Config says what a database may use.
type Config struct {
	// Memory bounds DuckDB's buffers, in bytes; 0 leaves DuckDB's default (most of the machine).
	Memory int64
	// Threads is the number of worker threads; 0 means one a core.
	Threads int
	// TempDir is the folder that operators spill to, TempLimit its bound in bytes (0: ten times Memory). "" forbids
	// spilling.
	TempDir   string
	TempLimit int64
	// Directories are the only folders whose files can be read.
	Directories []string
	// Setup are statements that every connection runs first.
	Setup []string
}

// DB is an in-memory database. It is safe for concurrent use.
type DB struct {
	config  Config
	db      bindings.Database
	Deletes Deletes

	mu     sync.Mutex
	idle   []*Conn
	closed bool
}

// Open makes a database that can read files of Config.Directories and reach nothing else: no other file, no network, no
// extension (promise 12). What it locks cannot be unlocked by SQL.
func Open(c Config) (*DB, error) {
	if c.Threads == 0 {
		c.Threads = runtime.GOMAXPROCS(0)
	}
	settings := map[string]string{
		"threads":                      strconv.Itoa(c.Threads),
		"temp_directory":               c.TempDir,
		"autoinstall_known_extensions": "false",
		"autoload_known_extensions":    "false",
		"allow_community_extensions":   "false",
		"allow_persistent_secrets":     "false",
	}
	if c.Memory > 0 {
		settings["memory_limit"] = strconv.FormatInt(c.Memory, 10) + "B"
		if c.TempLimit == 0 {
			c.TempLimit = 10 * c.Memory
		}
	}
	if c.TempLimit > 0 && c.TempDir != "" {
		settings["max_temp_directory_size"] = strconv.FormatInt(c.TempLimit, 10) + "B"
	}
	var config bindings.Config
	if bindings.CreateConfig(&config) == bindings.StateError {
		return nil, errors.New("DuckDB could not make a configuration")
	}
	defer bindings.DestroyConfig(&config)
	for name, value := range settings {
		if bindings.SetConfig(config, name, value) == bindings.StateError {
			return nil, fmt.Errorf("DuckDB does not know the setting %s = %q", name, value)
		}
	}
	d := &DB{config: c}
	var message string
	if bindings.OpenExt("", &d.db, config, &message) == bindings.StateError {
		return nil, fmt.Errorf("DuckDB did not open: %s", message)
	}
	if err := d.confine(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func (d *DB) confine() error {
	conn, err := d.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := registerFunctions(conn.conn); err != nil {
		return err
	}
	quoted := make([]string, len(d.config.Directories))
	for i, dir := range d.config.Directories {
		quoted[i] = Literal(dir)
	}
	for _, sql := range []string{
		"SET GLOBAL allowed_directories = [" + strings.Join(quoted, ", ") + "]",
		"SET GLOBAL enable_external_access = false",
	} {
		if err := conn.Exec(context.Background(), sql); err != nil {
			return fmt.Errorf("confining DuckDB to the lake's folders: %w", err)
		}
	}
	return nil
}

// Conn gives a connection, a used one where there is one. The caller gives it back with Release. It does not wait.
func (d *DB) Conn(ctx context.Context) (*Conn, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, errors.New("the query engine is closed")
	}
	if n := len(d.idle); n > 0 {
		c := d.idle[n-1]
		d.idle = d.idle[:n-1]
		d.mu.Unlock()
		return c, nil
	}
	d.mu.Unlock()
	c := &Conn{db: d}
	if bindings.Connect(d.db, &c.conn) == bindings.StateError {
		return nil, errors.New("DuckDB gave no further connection")
	}
	for _, sql := range d.config.Setup {
		if err := c.Exec(ctx, sql); err != nil {
			c.Discard()
			return nil, fmt.Errorf("preparing a connection with %q: %w", sql, err)
		}
	}
	return c, nil
}

// Close ends the database. Connections that are in use must have been released before.
func (d *DB) Close() {
	d.mu.Lock()
	idle := d.idle
	d.idle, d.closed = nil, true
	d.mu.Unlock()
	for _, c := range idle {
		c.Discard()
	}
	bindings.Close(&d.db)
}

// maxIdle bounds the connections kept for reuse.
const maxIdle = 32

func (d *DB) put(c *Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || len(d.idle) >= maxIdle {
		return false
	}
	d.idle = append(d.idle, c)
	return true
}

// Literal quotes a string constant.
func Literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Identifier quotes a name.
func Identifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
