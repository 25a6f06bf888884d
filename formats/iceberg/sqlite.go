package iceberg

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// sqlite is a catalog in a local file: write-ahead log, synced at each commit, so that a checkpoint that was answered
// survives a power loss.
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

func (sqlite) busy(err error) bool {
	var e *driver.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return true
	}
	return false
}

func (sqlite) missing(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && e.Code()&0xff == lib.SQLITE_ERROR && strings.Contains(e.Error(), "no such table")
}
