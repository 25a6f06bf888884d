package source

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// connectTimeout bounds one attempt to connect where the URL does not say otherwise.
const connectTimeout = 15 * time.Second

// pinned are session settings that would otherwise change what values look like, or let rows go missing, by server,
// database or role. Startup parameters outrank all of those (promise 4).
var pinned = map[string]string{
	"TimeZone":           "UTC",
	"DateStyle":          "ISO",
	"IntervalStyle":      "iso_8601",
	"extra_float_digits": "3",
	"bytea_output":       "hex",
	"client_encoding":    "UTF8",
	// Names in output (regclass, row filters) are then always qualified, the same in copy and stream.
	"search_path": "pg_catalog",
	// A policy that would hide rows from the copy is an error instead.
	"row_security": "off",
	// A role's limit for people's statements must not end a copy.
	"statement_timeout":                   "0",
	"idle_in_transaction_session_timeout": "0",
}

// Connect opens a connection with the pinned settings; it shows as "streambed <purpose>" in pg_stat_activity. It blocks
// until connected, for at most 15 s an address unless the URL has a connect_timeout. The caller closes it.
func Connect(ctx context.Context, url, purpose string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("source URL cannot be read: %w", err)
	}
	pin(&cfg.Config, purpose)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("source does not let us connect: %w", err)
	}
	return conn, nil
}

// closePatience is how long a server is waited for when a connection ends.
const closePatience = time.Second

// CloseConn ends a connection on purpose, without waiting long for a server that does not answer.
func CloseConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	_ = conn.Close(ctx)
}

// ReplicationConfig gives the settings of a logical replication connection, pinned in the same way, for
// pgconn.ConnectConfig.
func ReplicationConfig(url string) (*pgconn.Config, error) {
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("source URL cannot be read: %w", err)
	}
	pin(cfg, "stream")
	cfg.RuntimeParams["replication"] = "database"
	return cfg, nil
}

func pin(cfg *pgconn.Config, purpose string) {
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	for name := range cfg.RuntimeParams {
		for ours := range pinned {
			if strings.EqualFold(name, ours) && name != ours { // settings' names ignore case: ours must be the only one
				delete(cfg.RuntimeParams, name)
			}
		}
	}
	for name, value := range pinned {
		cfg.RuntimeParams[name] = value
	}
	cfg.RuntimeParams["application_name"] = "streambed " + purpose
	// A peer that vanished without a word is noticed within a minute.
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}}
	cfg.DialFunc = dialer.DialContext
}

// ServerVersion gives the server's major version (13, 18), as it told when the connection was made; 0 when it cannot be
// read.
func ServerVersion(conn *pgconn.PgConn) int {
	text := conn.ParameterStatus("server_version")
	end := 0
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	major, _ := strconv.Atoi(text[:end])
	return major
}
