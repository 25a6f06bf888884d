package iceberg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
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

func (postgres) lockTables() string { return `SELECT pg_advisory_xact_lock(5138203574428)` }

func (postgres) readOnly() *sql.TxOptions {
	return &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}
}

// busy: a transaction that lost its connection before its COMMIT was sent has not been made.
func (postgres) busy(err error) bool {
	var answered *pgconn.PgError
	if errors.As(err, &answered) {
		switch answered.Code {
		case "40001", "40P01", "55P03", // serialization failure, deadlock, lock timeout
			"53300", "57P01", "57P02", "57P03": // too many connections, shutdown, crash, starting up
			return true
		}
		return false
	}
	var network net.Error
	var connecting *pgconn.ConnectError
	return errors.As(err, &connecting) || errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed) || pgconn.SafeToRetry(err)
}

func (postgres) missing(err error) bool {
	var answered *pgconn.PgError
	return errors.As(err, &answered) && answered.Code == "42P01"
}
