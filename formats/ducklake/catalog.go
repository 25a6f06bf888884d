package ducklake

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/streambed/streambed/formats/types"
)

// catalog is the SQL database that holds the lake's tables and the state.
type catalog struct {
	dialect
	// write runs the writer's transactions, one at a time; read the readers'.
	write, read *sql.DB
	// statements counts those of transactions, for tests.
	statements atomic.Int64
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
	// ddl gives a statement that makes a table, written with SQLite's types, the database's own.
	ddl(statement string) string
	// timestamp makes a parameter a point in time where the target column does not tell.
	timestamp(parameter string) string
	// inlineType is the type of a column in an inlined data table, inlineValue a cell as a parameter for it, inlineCell the
	// expression that reads one.
	inlineType(t types.Type) string
	inlineValue(t types.Type, cell any) any
	inlineCell(t types.Type, column string) string
	// hasTable is the query that counts the tables of the name $1.
	hasTable() string
	// longestName is the most bytes that a column's name may have, 0 for any number.
	longestName() int
	// busy reports whether the error, of a transaction that was not committed, says that somebody else is in the way or
	// that the catalog cannot be reached at present, so that the same may be tried again.
	busy(err error) bool
	// missing reports whether the error says that the catalog's tables have not been made yet.
	missing(err error) bool
}

// openCatalog opens a catalog without making anything in it.
func openCatalog(dsn string) (*catalog, error) {
	c := &catalog{}
	switch scheme, _, _ := strings.Cut(dsn, "://"); scheme {
	case "sqlite":
		c.dialect = sqlite{}
	case "postgres", "postgresql":
		c.dialect = postgres{}
	default:
		return nil, fmt.Errorf("the catalog is of the unknown kind %q: use sqlite:///path/catalog.db or postgres://user@host/database", scheme)
	}
	var err error
	c.write, c.read, err = c.open(dsn)
	return c, err
}

func (c *catalog) close() error { return errors.Join(c.write.Close(), c.read.Close()) }

// retryTime bounds how long a busy or absent catalog is waited for before the caller is told.
const retryTime = 30 * time.Second

// retry repeats f while the catalog is busy or away, for retryTime at most. It never repeats a transaction that may have been
// committed.
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
func (c *catalog) transact(ctx context.Context, f func(tx *transaction) error) error {
	tx, err := c.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(&transaction{ctx, tx, &c.statements}); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return &unknownOutcome{err}
	}
	return nil
}

// reading runs f in a transaction that sees the catalog at one moment.
func (c *catalog) reading(ctx context.Context, f func(tx *transaction) error) error {
	tx, err := c.read.BeginTx(ctx, c.readOnly())
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return f(&transaction{ctx, tx, &c.statements})
}

// unknownOutcome says that a COMMIT was sent and its answer is missing: the transaction may have been made or not.
type unknownOutcome struct{ cause error }

func (e *unknownOutcome) Error() string {
	return "the catalog did not say whether the transaction was committed: " + e.cause.Error()
}

func (e *unknownOutcome) Unwrap() error { return e.cause }

// transaction is an open transaction with its context.
type transaction struct {
	ctx        context.Context
	tx         *sql.Tx
	statements *atomic.Int64
}

// exec runs a statement and gives the number of rows that it changed.
func (t *transaction) exec(statement string, args ...any) (int64, error) {
	t.statements.Add(1)
	result, err := t.tx.ExecContext(t.ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// run runs statements that share their parameters.
func (t *transaction) run(args []any, statements ...string) error {
	for _, statement := range statements {
		if _, err := t.exec(statement, args...); err != nil {
			return err
		}
	}
	return nil
}

// row reads one row.
func (t *transaction) row(query string, args ...any) *sql.Row {
	t.statements.Add(1)
	return t.tx.QueryRowContext(t.ctx, query, args...)
}

// each calls f for every row of a query.
func (t *transaction) each(f func(scan func(...any) error) error, query string, args ...any) error {
	t.statements.Add(1)
	rows, err := t.tx.QueryContext(t.ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// create makes the catalog's tables and first rows where they are missing, and refuses a catalog that is not ours to
// write: of another version, or for another warehouse.
func (c *catalog) create(ctx context.Context, dataPath string, now time.Time) error {
	return c.transact(ctx, func(tx *transaction) error {
		if lock := c.lockTables(); lock != "" {
			if err := tx.run(nil, lock); err != nil {
				return err
			}
		}
		for _, statement := range slices.Concat(duckLakeTables, ourTables) {
			if err := tx.run(nil, c.ddl(statement)); err != nil {
				return err
			}
		}
		var version, path string
		err := tx.row(`SELECT value FROM ducklake_metadata WHERE key = 'version' AND scope IS NULL`).Scan(&version)
		if errors.Is(err, sql.ErrNoRows) {
			return firstRows(tx, dataPath, now)
		}
		if err != nil {
			return err
		}
		if version != catalogVersion {
			return fmt.Errorf("the DuckLake catalog has version %s, Streambed writes version %s: bring the catalog to that version "+
				"with DuckDB's ducklake extension or use another catalog file", version, catalogVersion)
		}
		if err := tx.row(`SELECT value FROM ducklake_metadata WHERE key = 'data_path' AND scope IS NULL`).Scan(&path); err != nil {
			return err
		}
		if path != dataPath {
			return fmt.Errorf("the DuckLake catalog has its data under %s, the warehouse is %s: use the same warehouse or another catalog file", path, dataPath)
		}
		return nil
	})
}

func firstRows(tx *transaction, dataPath string, now time.Time) error {
	for _, pair := range [][2]string{{"version", catalogVersion}, {"created_by", "streambed"}, {"data_path", dataPath}, {"encrypted", "false"}} {
		if _, err := tx.exec(`INSERT INTO ducklake_metadata (key, value) VALUES ($1, $2)`, pair[0], pair[1]); err != nil {
			return err
		}
	}
	if _, err := tx.exec(`INSERT INTO ducklake_snapshot (snapshot_id, snapshot_time, schema_version, next_catalog_id, next_file_id)
		VALUES (0, $1, 0, 1, 0)`, snapshotTime(now)); err != nil {
		return err
	}
	if _, err := tx.exec(`INSERT INTO ducklake_snapshot_changes (snapshot_id, changes_made, author) VALUES (0, 'created_schema:"main"', 'streambed')`); err != nil {
		return err
	}
	_, err := tx.exec(`INSERT INTO ducklake_schema (schema_id, schema_uuid, begin_snapshot, schema_name, path, path_is_relative)
		VALUES (0, $1, 0, 'main', 'main/', $2)`, uuid.NewString(), true)
	return err
}

// snapshotTime is how a catalog stores a point in time: as text, which Postgres parses.
func snapshotTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000000") + "+00" }

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

func integer(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
