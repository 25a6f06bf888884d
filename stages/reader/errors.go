package reader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The kinds of failure that Run's error wraps. Retryable sorts all of them.
var (
	// ErrConnectionLost: the source cannot be reached, or the connection ended. Try again.
	ErrConnectionLost = errors.New("connection lost")
	// ErrSlotBusy: another session reads from the slot, perhaps our own former walsender. Try again.
	ErrSlotBusy = errors.New("replication slot in use")
	// ErrSlotMissing: there is no such slot. Only a resync helps.
	ErrSlotMissing = errors.New("replication slot missing")
	// ErrSlotLost: Postgres has invalidated the slot, its WAL is gone. Only a resync helps.
	ErrSlotLost = errors.New("replication slot lost")
	// ErrSlotAhead: the slot was acknowledged past the position to start at, so changes are gone. Only a resync helps.
	ErrSlotAhead = errors.New("replication slot ahead of the lake")
	// ErrSlotForeign: the slot is not a pgoutput slot of this database.
	ErrSlotForeign = errors.New("replication slot of another kind")
	// ErrPublicationMissing: a publication named in the configuration does not exist at the position being read.
	ErrPublicationMissing = errors.New("publication missing")
	// ErrUndecodable: the server's decoding fails at a place that it will come to again each time: the slot was made while
	// a transaction altered the catalog. Only another slot helps, and with it a resync.
	ErrUndecodable = errors.New("replication slot cannot be decoded")
	// ErrRefused: the source refuses us for a reason that stays: credentials, privileges, settings.
	ErrRefused = errors.New("refused by the source")
	// ErrProtocol: the server sent what the replication protocol does not know.
	ErrProtocol = errors.New("replication protocol violated")

	errEnded = errors.New("the server ended the stream")
)

// Retryable reports whether running again later may succeed without anybody's doing.
func Retryable(err error) bool {
	return errors.Is(err, ErrConnectionLost) || errors.Is(err, ErrSlotBusy)
}

func malformed(what string) error {
	return fmt.Errorf("the replication stream holds %s: %w", what, ErrProtocol)
}

// permanent lists SQLSTATEs that no waiting mends.
var permanent = []string{
	"28000", "28P01", // invalid authorization, password
	"3D000",                            // no such database
	"42501",                            // insufficient privilege
	"0A000", "42601", "22023", "42704", // unsupported feature, syntax, parameter or object
	"58P01", // WAL file removed
}

// connecting names the kind of a failure to connect.
func connecting(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var fault *pgconn.PgError
	if errors.As(err, &fault) && slices.Contains(permanent, fault.Code) {
		return fmt.Errorf("the source refuses a replication connection: %w: %w", err, ErrRefused)
	}
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		return fmt.Errorf("the source's connection string cannot be used: %w: %w", err, ErrRefused)
	}
	return fmt.Errorf("cannot connect to the source: %w: %w", err, ErrConnectionLost)
}

// streaming names the kind of a failure of a running stream, or of its start.
func (r *Reader) streaming(err error) error {
	slot := r.config.Slot
	var fault *pgconn.PgError
	switch {
	case errors.Is(err, ErrProtocol):
		return err
	case errors.Is(err, errEnded):
		return fmt.Errorf("the source ended the stream of slot %q (it may be shutting down): %w", slot, ErrConnectionLost)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the source closed the connection of slot %q after %v: %w", slot, r.Received(), ErrConnectionLost)
	case !errors.As(err, &fault):
		return fmt.Errorf("the connection of slot %q broke after %v: %w: %w", slot, r.Received(), err, ErrConnectionLost)
	}
	switch fault.Code {
	case "55006":
		return fmt.Errorf("slot %q is read by another session: %w: %w", slot, err, ErrSlotBusy)
	case "55000":
		return fmt.Errorf("slot %q can no longer be read: %w: %w", slot, err, ErrSlotLost)
	case "58P01":
		return fmt.Errorf("the WAL that slot %q needs is gone: %w: %w", slot, err, ErrSlotLost)
	case "42704":
		// From the slot's start this names the slot; later, the publication.
		if r.started.Load() {
			return fmt.Errorf("slot %q cannot be read because a publication does not exist at its position: %w: %w", slot, err, ErrPublicationMissing)
		}
		return r.slotMissing()
	}
	// An internal error of the server, which is never translated.
	if fault.Code == "XX000" && strings.Contains(fault.Message, "could not map filenode") {
		return fmt.Errorf("Postgres cannot decode its log for slot %q beyond %v, since the slot was made while a table was created or altered; run `streambedd resync --all`, which makes another slot and copies every table anew: %w: %w", slot, r.Received(), err, ErrUndecodable)
	}
	if slices.Contains(permanent, fault.Code) {
		return fmt.Errorf("the source refuses to stream from slot %q: %w: %w", slot, err, ErrRefused)
	}
	return fmt.Errorf("the source broke off the stream of slot %q after %v: %w: %w", slot, r.Received(), err, ErrConnectionLost)
}

func (r *Reader) slotMissing() error {
	return fmt.Errorf("slot %q does not exist on the source: what was committed since %v cannot be read any more, and the tables need a resync: %w", r.config.Slot, r.config.Start, ErrSlotMissing)
}
