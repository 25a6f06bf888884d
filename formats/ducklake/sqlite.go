package ducklake

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/streambed/streambed/formats/types"
	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// sqlite is a catalog in a local file: write-ahead log, synced at each commit, so that a checkpoint that was answered
// survives a power loss (promise 1). The writer's pool has one connection.
type sqlite struct{}

func (sqlite) open(dsn string) (write, read *sql.DB, err error) {
	path := strings.TrimPrefix(dsn, "sqlite://")
	if !filepath.IsAbs(path) {
		return nil, nil, fmt.Errorf("catalog %q has no absolute path: write it as sqlite:///path/catalog.db", dsn)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, nil, fmt.Errorf("cannot make the folder of the catalog: %w", err)
	}
	name := (&url.URL{Scheme: "file", OmitHost: true, Path: path}).String() +
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
	if write, err = sql.Open("sqlite", name); err != nil {
		return nil, nil, err
	}
	write.SetMaxOpenConns(1)
	if read, err = sql.Open("sqlite", name); err != nil {
		write.Close()
		return nil, nil, err
	}
	read.SetMaxOpenConns(4)
	read.SetMaxIdleConns(4)
	return write, read, nil
}

func (sqlite) lock() string { return "" } // every writing transaction begins with the lock

func (sqlite) lockTables() string { return "" }

func (sqlite) readOnly() *sql.TxOptions { return &sql.TxOptions{ReadOnly: true} }

// ddl names the types that SQLite does not have as DuckDB does: its affinity rules would make numbers of texts.
func (sqlite) ddl(statement string) string { return sqliteTypes.Replace(statement) }

var sqliteTypes = strings.NewReplacer(" UUID", " VARCHAR", " TIMESTAMPTZ", " VARCHAR", " BOOLEAN", " BIGINT")

func (sqlite) timestamp(parameter string) string { return parameter }

func (sqlite) inlineType(t types.Type) string { return inlineKinds[t.Kind][0] }

func (sqlite) inlineValue(_ types.Type, cell any) any {
	if b, ok := cell.(bool); ok {
		return integer(b)
	}
	return cell
}

func (sqlite) inlineCell(_ types.Type, column string) string { return column }

func (sqlite) hasTable() string {
	return `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = $1`
}

func (sqlite) longestName() int { return 0 }

func (sqlite) busy(err error) bool {
	var e *driver.Error
	if !errors.As(err, &e) {
		return false
	}
	code := e.Code() & 0xff
	return code == lib.SQLITE_BUSY || code == lib.SQLITE_LOCKED
}

func (sqlite) missing(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && e.Code()&0xff == lib.SQLITE_ERROR && strings.Contains(e.Error(), "no such table")
}
