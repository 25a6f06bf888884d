package source

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/lsn"
)

// System is what a source server says about itself.
type System struct {
	formats.Identity
	// Version is the major version: 13 to 18.
	Version int
	// InRecovery tells that the server is a standby.
	InRecovery bool
	// Flushed is the end of its durable (on a standby: replayed) WAL.
	Flushed  lsn.LSN
	Database string
}

// Identify asks the source who it is, over a replication connection of its own: it also proves that one can be made. It
// blocks for a few round trips.
func Identify(ctx context.Context, url string) (*System, error) {
	conn, err := connectReplication(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	row, err := one(ctx, conn, "IDENTIFY_SYSTEM", 4)
	if err != nil {
		return nil, err
	}
	s := &System{Version: ServerVersion(conn), Database: row[3]}
	s.SystemIdentifier = row[0]
	timeline, err := strconv.ParseUint(row[1], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("source's timeline %q is not a number", row[1])
	}
	s.Timeline = uint32(timeline)
	if s.Flushed, err = lsn.Parse(row[2]); err != nil {
		return nil, err
	}
	row, err = one(ctx, conn, "SELECT oid, pg_is_in_recovery() FROM pg_database WHERE datname = current_database()", 2)
	if err != nil {
		return nil, err
	}
	oid, err := strconv.ParseUint(row[0], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("source's database oid %q is not a number", row[0])
	}
	s.DatabaseOID = uint32(oid)
	s.InRecovery = row[1] == "t"
	return s, nil
}

// ForkedAt gives the position at which the source's history left the given timeline for the one it is on now. It is
// an error when that timeline is no ancestor of the current one.
func ForkedAt(ctx context.Context, url string, from, current uint32) (lsn.LSN, error) {
	conn, err := connectReplication(ctx, url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	row, err := one(ctx, conn, fmt.Sprintf("TIMELINE_HISTORY %d", current), 2)
	if err != nil {
		return 0, err
	}
	return parseHistory(row[1], from, current)
}

// parseHistory finds in a timeline history file where the given timeline was left. Its lines are
// "timeline <tab> switch point <tab> reason"; # begins a comment.
func parseHistory(history string, from, current uint32) (lsn.LSN, error) {
	for line := range strings.Lines(history) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		timeline, err := strconv.ParseUint(fields[0], 10, 32)
		if err != nil {
			return 0, fmt.Errorf("history of timeline %d has the line %q, which does not begin with a number", current, strings.TrimSpace(line))
		}
		if uint32(timeline) == from {
			return lsn.Parse(fields[1])
		}
	}
	return 0, fmt.Errorf("timeline %d of the source does not descend from timeline %d, which the lake has followed: run resync --all", current, from)
}

func connectReplication(ctx context.Context, url string) (*pgconn.PgConn, error) {
	cfg, err := ReplicationConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["application_name"] = "streambed identify"
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("source does not let us open a replication connection: %w", err)
	}
	return conn, nil
}

// one runs a command on a replication connection and gives its only row as text.
func one(ctx context.Context, conn *pgconn.PgConn, command string, columns int) ([]string, error) {
	results, err := conn.Exec(ctx, command).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("source refused %s: %w", command, err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) < columns {
		return nil, fmt.Errorf("source answered %s in a way we do not know", command)
	}
	row := make([]string, columns)
	for i := range row {
		row[i] = string(bytes.Clone(results[0].Rows[0][i]))
	}
	return row, nil
}
