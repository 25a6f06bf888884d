package ducklake

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/streambed/streambed/formats/types"
)

// postgres is a catalog in a Postgres database, in the schema that the connection's search path begins with.
type postgres struct{}

func (postgres) open(dsn string) (write, read *sql.DB, err error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, nil, fmt.Errorf("the catalog's address is not understood: %w", err)
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "streambed"
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	// Promise 1: what the catalog has answered must survive its crash, or the slot is acknowledged too early.
	durable := stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`)
		return err
	})
	write, read = stdlib.OpenDB(*config, durable), stdlib.OpenDB(*config)
	write.SetMaxOpenConns(2)
	read.SetMaxOpenConns(4)
	read.SetMaxIdleConns(4)
	return write, read, nil
}

func (postgres) lock() string { return " FOR UPDATE" }

func (postgres) lockTables() string { return `SELECT pg_advisory_xact_lock(5138203574429)` }

func (postgres) readOnly() *sql.TxOptions {
	return &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}
}

func (postgres) ddl(statement string) string { return strings.ReplaceAll(statement, " BLOB", " BYTEA") }

func (postgres) timestamp(parameter string) string {
	return "CAST(" + parameter + " AS TIMESTAMPTZ)"
}

func (postgres) inlineType(t types.Type) string {
	kind := inlineKinds[t.Kind][1]
	if t.Kind == types.Decimal {
		kind = fmt.Sprintf("%s(%d,%d)", kind, t.Precision, t.Scale)
	}
	return kind
}

func (postgres) inlineValue(t types.Type, cell any) any {
	if text, ok := cell.(string); ok && inlineKinds[t.Kind][1] == "BYTEA" {
		return []byte(text)
	}
	return cell
}

// inlineCell has the server write what the driver would turn into types of its own. Floating-point numbers come as they
// are: how many digits the server would write is a setting of its own.
func (postgres) inlineCell(t types.Type, column string) string {
	switch t.Kind {
	case types.Decimal, types.UUID, types.Time:
		return "CAST(" + column + " AS TEXT)"
	}
	return column
}

func (postgres) hasTable() string {
	return `SELECT count(*) FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass(quote_ident($1::text))`
}

func (postgres) longestName() int { return 63 }

// retryable are SQLSTATEs after which the same transaction may be tried again: serialization failure, deadlock, lock
// timeout, a snapshot or file id that another pipeline has taken, too many connections, shutdown, crash, starting up.
var retryable = []string{"40001", "40P01", "55P03", "23505", "53300", "57P01", "57P02", "57P03"}

// busy: a transaction that lost its connection before its COMMIT was sent has not been made.
func (postgres) busy(err error) bool {
	var answered *pgconn.PgError
	if errors.As(err, &answered) {
		return slices.Contains(retryable, answered.Code)
	}
	var network net.Error
	var connecting *pgconn.ConnectError
	return errors.As(err, &connecting) || errors.As(err, &network) || pgconn.SafeToRetry(err) ||
		slices.ContainsFunc([]error{driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, pgconn.ErrConnClosed},
			func(target error) bool { return errors.Is(err, target) })
}

func (postgres) missing(err error) bool {
	var answered *pgconn.PgError
	return errors.As(err, &answered) && answered.Code == "42P01"
}
