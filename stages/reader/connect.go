package reader

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/streambed/streambed/lsn"
)

// pinned are the session settings on which the text form of values depends.
var pinned = map[string]string{
	"TimeZone":           "UTC",
	"DateStyle":          "ISO, MDY",
	"IntervalStyle":      "iso_8601",
	"extra_float_digits": "3",
	"bytea_output":       "hex",
	// For our own queries.
	"standard_conforming_strings": "on",
}

// connect opens the replication connection, looks at the slot, and starts the stream. The connection it gives holds
// nothing unread but the stream itself.
func (r *Reader) connect(ctx context.Context) (net.Conn, error) {
	config, err := r.connectConfig()
	if err != nil {
		return nil, connecting(ctx, err)
	}
	pg, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, connecting(ctx, err)
	}
	if err := r.inspect(ctx, pg); err != nil {
		_ = pg.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	r.inProgress = r.config.Streaming && canStream(pg.ParameterStatus("server_version"))
	if err := pg.SyncConn(ctx); err != nil {
		_ = pg.Close(context.WithoutCancel(ctx))
		return nil, connecting(ctx, err)
	}
	hijacked, err := pg.Hijack()
	if err != nil {
		return nil, connecting(ctx, err)
	}
	conn := hijacked.Conn
	tune(plain(conn))
	if err := r.start(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func (r *Reader) connectConfig() (*pgconn.Config, error) {
	var config *pgconn.Config
	if r.config.Connect != nil {
		config = r.config.Connect.Copy()
	} else {
		var err error
		if config, err = pgconn.ParseConfig(r.config.ConnString); err != nil {
			return nil, err
		}
	}
	if config.RuntimeParams == nil {
		config.RuntimeParams = map[string]string{}
	}
	maps.Copy(config.RuntimeParams, pinned)
	config.RuntimeParams["replication"] = "database"
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = r.config.Slot
	}
	return config, nil
}

// plain gives the socket under TLS.
func plain(conn net.Conn) net.Conn {
	if secured, ok := conn.(*tls.Conn); ok {
		return secured.NetConn()
	}
	return conn
}

// inspect looks at the slot before it is used, so that what is wrong with it can be said in words, and sets the interval
// of status updates below the server's patience.
func (r *Reader) inspect(ctx context.Context, pg *pgconn.PgConn) error {
	results, err := pg.Exec(ctx, fmt.Sprintf(`
SELECT slot_type, coalesce(plugin, ''), coalesce(database = current_database(), false), coalesce(active_pid, 0),
       coalesce(wal_status, ''), coalesce(confirmed_flush_lsn, '0/0')
FROM pg_replication_slots WHERE slot_name = %s;
SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'`, literal(r.config.Slot))).ReadAll()
	if err != nil {
		return connecting(ctx, err)
	}
	if len(results) != 2 || len(results[1].Rows) != 1 {
		return malformed("an unexpected answer to a query about the slot")
	}
	r.interval = r.config.StatusInterval
	if patience, err := strconv.Atoi(string(results[1].Rows[0][0])); err == nil && patience > 0 {
		r.interval = min(r.interval, time.Duration(patience)*time.Millisecond/4)
	}
	if len(results[0].Rows) == 0 {
		return r.slotMissing()
	}
	return r.judge(results[0].Rows[0])
}

func (r *Reader) judge(row [][]byte) error {
	kind, plugin, ours, pid, walStatus := string(row[0]), string(row[1]), string(row[2]) == "t", string(row[3]), string(row[4])
	confirmed, err := lsn.Parse(string(row[5]))
	if err != nil {
		return malformed(err.Error())
	}
	slot := r.config.Slot
	switch {
	case kind != "logical" || plugin != "pgoutput" || !ours:
		return fmt.Errorf("slot %q is a %s slot (plugin %q) that does not belong to Streambed in this database: name another in source.slot: %w", slot, kind, plugin, ErrSlotForeign)
	case walStatus == "lost":
		return fmt.Errorf("Postgres has invalidated slot %q: what was committed since %v cannot be read any more, and the tables need a resync: %w", slot, r.config.Start, ErrSlotLost)
	case pid != "0":
		return fmt.Errorf("slot %q is read by the session with process id %s: %w", slot, pid, ErrSlotBusy)
	case r.config.Start != 0 && confirmed > r.config.Start:
		return fmt.Errorf("slot %q was acknowledged up to %v but the lake holds the source only up to %v: the changes between are gone, and the tables need a resync: %w", slot, confirmed, r.config.Start, ErrSlotAhead)
	}
	return nil
}

// start sends START_REPLICATION and waits for the server to agree. It reads no byte beyond that answer.
func (r *Reader) start(ctx context.Context, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	request, err := (&pgproto3.Query{String: r.command()}).Encode(nil)
	if err != nil {
		return err
	}
	err = func() error {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		for {
			kind, body, err := readFrame(conn)
			if err != nil {
				return err
			}
			if kind == 'W' {
				return nil
			}
			if err := other(kind, body); err != nil {
				return err
			}
		}
	}()
	if err == nil && !stop() {
		err = context.Cause(ctx) // the deadline may be set already
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return r.streaming(err)
	}
	r.started.Store(true)
	return nil
}

// readFrame reads one frame and not a byte more. It is for the few frames before the stream.
func readFrame(conn io.Reader) (kind byte, body []byte, err error) {
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(conn, header); err != nil {
		return 0, nil, err
	}
	size, err := frameSize(header)
	if err != nil {
		return 0, nil, err
	}
	if size > 1<<20 {
		return 0, nil, malformed(fmt.Sprintf("an answer of %d bytes to START_REPLICATION", size))
	}
	body = make([]byte, size-headerSize)
	if _, err := io.ReadFull(conn, body); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		return 0, nil, err
	}
	return header[0], body, nil
}

// canStream reports whether a server of this version sends transactions in progress: 14 and later do.
func canStream(version string) bool {
	digits := strings.TrimLeft(version, "0123456789")
	major, err := strconv.Atoi(strings.TrimSuffix(version, digits))
	return err == nil && major >= 14
}

func (r *Reader) command() string {
	names := make([]string, len(r.config.Publications))
	for i, name := range r.config.Publications {
		names[i] = identifier(name)
	}
	protocol := "1"
	if r.inProgress {
		protocol = "2"
	}
	options := []string{`"proto_version" ` + literal(protocol), `"publication_names" ` + literal(strings.Join(names, ","))}
	if r.inProgress {
		options = append(options, `"streaming" 'on'`)
	}
	if r.config.Binary {
		options = append(options, `"binary" 'true'`)
	}
	return fmt.Sprintf("START_REPLICATION SLOT %s LOGICAL %v (%s)", identifier(r.config.Slot), r.config.Start, strings.Join(options, ", "))
}

func identifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// literal quotes a string for SQL (with standard_conforming_strings, which is pinned) and for replication commands alike.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
