package iceberg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/streambed/streambed/formats/lease"
)

// catalogName is the catalog's name in iceberg_tables.
const catalogName = "streambed"

// catalog is the SQL database that holds the pointers and the state.
type catalog struct {
	dialect
	// write runs the writer's transactions, one at a time; read the readers'.
	write, read *sql.DB
}

// dialect is what the SQL databases differ in. Statements use $1 for parameters and are the same for all.
type dialect interface {
	// open makes the two pools.
	open(dsn string) (write, read *sql.DB, err error)
	// lock is the clause that makes a SELECT wait for a transaction that may still be writing the row.
	lock() string
	// lockTables is the statement that keeps others from making the catalog's tables at the same time, "" for none.
	lockTables() string
	// readOnly are the options of a transaction that reads several tables at one moment.
	readOnly() *sql.TxOptions
	// busy reports whether the error, of a transaction that was not committed, says that somebody else is in the way or
	// that the catalog cannot be reached at present, so that the same may be tried again.
	busy(err error) bool
	// missing reports whether the error says that the catalog's tables have not been made yet.
	missing(err error) bool
}

// openCatalog opens a catalog, and makes its tables if asked to.
func openCatalog(ctx context.Context, dsn string, create bool) (*catalog, error) {
	scheme, _, _ := strings.Cut(dsn, "://")
	c := &catalog{}
	switch scheme {
	case "sqlite":
		c.dialect = sqlite{}
	case "postgres", "postgresql":
		c.dialect = postgres{}
	default:
		return nil, fmt.Errorf("the catalog is of the unknown kind %q: use sqlite:///path/catalog.db or postgres://user@host/database", scheme)
	}
	var err error
	if c.write, c.read, err = c.open(dsn); err != nil {
		return nil, err
	}
	if create {
		err = c.retry(ctx, func() error { return c.createTables(ctx) })
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("cannot make the catalog's tables: %w", err)
	}
	return c, nil
}

func (c *catalog) close() error { return errors.Join(c.write.Close(), c.read.Close()) }

// retryTime bounds how long a busy or absent catalog is waited for before the caller is told.
const retryTime = 30 * time.Second

// retry repeats f while the catalog is busy or away, for retryTime at most. It never repeats a transaction that may
// have been committed.
func (c *catalog) retry(ctx context.Context, f func() error) error {
	pause := 5 * time.Millisecond
	for end := time.Now().Add(retryTime); ; {
		err := f()
		var unknown *unknownOutcome
		if err == nil || errors.As(err, &unknown) || !c.busy(err) || time.Now().After(end) {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(context.Cause(ctx), err)
		case <-timer.C:
		}
		pause = min(2*pause, time.Second)
	}
}

// transact runs f in one writing transaction. An error of its COMMIT is an *unknownOutcome.
func (c *catalog) transact(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := c.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return &unknownOutcome{err}
	}
	return nil
}

// unknownOutcome says that a COMMIT was sent and its answer is missing: the transaction may have been made or not.
type unknownOutcome struct{ cause error }

func (e *unknownOutcome) Error() string {
	return "the catalog did not say whether the transaction was committed: " + e.cause.Error()
}

func (e *unknownOutcome) Unwrap() error { return e.cause }

var tables = []string{
	lease.Statement,
	`CREATE TABLE IF NOT EXISTS iceberg_tables (
		catalog_name VARCHAR(255) NOT NULL,
		table_namespace VARCHAR(255) NOT NULL,
		table_name VARCHAR(255) NOT NULL,
		metadata_location VARCHAR(1000),
		previous_metadata_location VARCHAR(1000),
		iceberg_type VARCHAR(5),
		PRIMARY KEY (catalog_name, table_namespace, table_name))`,
	`CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
		catalog_name VARCHAR(255) NOT NULL,
		namespace VARCHAR(255) NOT NULL,
		property_key VARCHAR(255) NOT NULL,
		property_value VARCHAR(1000),
		PRIMARY KEY (catalog_name, namespace, property_key))`,
	`CREATE TABLE IF NOT EXISTS streambed_state (
		pipeline TEXT PRIMARY KEY,
		epoch BIGINT NOT NULL,
		position BIGINT NOT NULL,
		checkpoint BIGINT NOT NULL,
		commit_time BIGINT NOT NULL,
		known BIGINT NOT NULL,
		identity TEXT NOT NULL,
		attempt TEXT NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS streambed_tables (
		pipeline TEXT NOT NULL,
		id TEXT NOT NULL,
		schema_name TEXT NOT NULL,
		table_name TEXT NOT NULL,
		namespace TEXT NOT NULL,
		published INTEGER NOT NULL,
		metadata_location TEXT NOT NULL,
		head TEXT NOT NULL,
		lake_schema TEXT NOT NULL,
		state TEXT NOT NULL,
		PRIMARY KEY (pipeline, id))`,
	`CREATE TABLE IF NOT EXISTS streambed_checkpoints (
		pipeline TEXT NOT NULL,
		checkpoint BIGINT NOT NULL,
		position BIGINT NOT NULL,
		commit_time BIGINT NOT NULL,
		recorded BIGINT NOT NULL,
		PRIMARY KEY (pipeline, checkpoint))`,
}

func (c *catalog) createTables(ctx context.Context) error {
	return c.transact(ctx, func(tx *sql.Tx) error {
		if lock := c.lockTables(); lock != "" {
			if _, err := tx.ExecContext(ctx, lock); err != nil {
				return err
			}
		}
		for _, statement := range tables {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// micros gives a time in microseconds since 1970, 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}
