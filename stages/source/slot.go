package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/lsn"
)

var (
	// ErrSlotMissing means that there is no such slot.
	ErrSlotMissing = errors.New("the replication slot does not exist")
	// ErrSlotLost means that the source has removed WAL that the slot needed: only a resync helps.
	ErrSlotLost = errors.New("the replication slot is lost")
	// ErrSlotBusy means that another session reads the slot.
	ErrSlotBusy = errors.New("the replication slot is in use")
	// ErrSlotForeign means that a slot of that name exists but is not one of ours: other plugin, other database.
	ErrSlotForeign = errors.New("the replication slot belongs to something else")
)

// SlotState is what the source says about a slot. Fields that its version does not have are zero.
type SlotState struct {
	Name   string
	Exists bool
	Plugin string
	// Database is the slot's; "" for a physical slot. Ours tells that it is the one connected to.
	Database string
	Ours     bool
	Active   bool
	// ActivePID is the backend that reads the slot, 0 for none.
	ActivePID      int32
	Restart        lsn.LSN
	ConfirmedFlush lsn.LSN
	// Retained is the WAL that the slot keeps on the source, in bytes.
	Retained int64
	// WALStatus is reserved, extended, unreserved or lost; SafeWALSize how many bytes may still be written before the
	// slot is in danger, nil when max_slot_wal_keep_size sets no bound.
	WALStatus   string
	SafeWALSize *int64
	// Invalidation says why the slot was invalidated, in Postgres' words; "" when it was not (version 17; 16: "conflict").
	Invalidation string
	// InactiveSince is from version 17 on.
	InactiveSince    *time.Time
	Temporary        bool
	TwoPhase         bool
	Failover, Synced bool
}

// ReadSlot reads a slot's state. A slot that does not exist is no error: Exists is false.
func ReadSlot(ctx context.Context, conn *pgx.Conn, slot string) (*SlotState, error) {
	version := ServerVersion(conn.PgConn())
	pick := func(since int, column, otherwise string) string {
		if version >= since {
			return column
		}
		return otherwise
	}
	query := `SELECT COALESCE(plugin, ''), COALESCE(database, ''), COALESCE(database = current_database(), false), active,
		COALESCE(active_pid, 0), COALESCE(restart_lsn, '0/0')::text, COALESCE(confirmed_flush_lsn, '0/0')::text,
		COALESCE((CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - restart_lsn), 0)::bigint,
		COALESCE(wal_status, ''), safe_wal_size, temporary, ` +
		pick(14, "two_phase", "false") + `, ` +
		pick(17, "COALESCE(invalidation_reason, '')", pick(16, "CASE WHEN conflicting THEN 'conflict' ELSE '' END", "''")) + `, ` +
		pick(17, "inactive_since", "NULL::timestamptz") + `, ` +
		pick(17, "failover, synced", "false, false") + `
		FROM pg_replication_slots WHERE slot_name = $1`
	s := &SlotState{Name: slot}
	var restart, flushed string
	err := conn.QueryRow(ctx, query, slot).Scan(&s.Plugin, &s.Database, &s.Ours, &s.Active, &s.ActivePID, &restart, &flushed,
		&s.Retained, &s.WALStatus, &s.SafeWALSize, &s.Temporary, &s.TwoPhase, &s.Invalidation, &s.InactiveSince, &s.Failover, &s.Synced)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state of slot %s cannot be read: %w", slot, err)
	}
	s.Exists = true
	if s.Restart, err = lsn.Parse(restart); err != nil {
		return nil, err
	}
	s.ConfirmedFlush, err = lsn.Parse(flushed)
	return s, err
}

// Err tells why the slot cannot be streamed from: ErrSlotMissing, ErrSlotForeign, ErrSlotLost or ErrSlotBusy, in that
// order of weight, each with its remedy; nil when it can.
func (s *SlotState) Err() error {
	switch {
	case !s.Exists:
		return fmt.Errorf("%w: slot %s is gone from the source; what it kept cannot be had any more, run resync --all", ErrSlotMissing, s.Name)
	case s.Plugin != "pgoutput" || !s.Ours || s.Temporary:
		return fmt.Errorf("%w: slot %s has plugin %q and database %q, a lasting one of pgoutput in this database is needed; set source.slot to another name",
			ErrSlotForeign, s.Name, s.Plugin, s.Database)
	case s.WALStatus == "lost" || s.Invalidation != "":
		reason := s.Invalidation
		if reason == "" {
			reason = "wal_removed"
		}
		return fmt.Errorf("%w: slot %s was invalidated by the source (%s); run resync --all", ErrSlotLost, s.Name, reason)
	case s.Active:
		return fmt.Errorf("%w: slot %s is read by backend %d; stop what reads it", ErrSlotBusy, s.Name, s.ActivePID)
	}
	return nil
}

// EnsureSlot makes the slot if it does not exist. created tells that it did; consistent is then the position from which
// everything is decoded, else the slot's confirmed position. A slot that exists and cannot be used is reported as by
// SlotState.Err, busy ones excepted. Making a slot waits for the transactions open at the source to end; on a standby
// also for the primary to log its running transactions, which is asked for through cfg.PrimaryURL. The publications must
// exist already. ErrSlotUnsettled when tables are altered all the while.
func EnsureSlot(ctx context.Context, conn *pgx.Conn, cfg *Config) (created bool, consistent lsn.LSN, err error) {
	state, err := ReadSlot(ctx, conn, cfg.Slot)
	if err != nil {
		return false, 0, err
	}
	if state.Exists {
		if err := state.Err(); err != nil && !errors.Is(err, ErrSlotBusy) {
			return false, 0, err
		}
		return false, state.ConfirmedFlush, nil
	}
	consistent, err = makeSlot(ctx, conn, cfg)
	return err == nil, consistent, err
}

// AwaitSlot waits until nobody reads the slot any more: after a takeover, until the old walsender has ended. waiting, which
// may be nil, is told each time the reader changes. The state then is returned, missing and lost slots included.
func AwaitSlot(ctx context.Context, conn *pgx.Conn, slot string, waiting func(*SlotState)) (*SlotState, error) {
	poll := time.NewTicker(openPoll)
	defer poll.Stop()
	var reader int32
	for {
		s, err := ReadSlot(ctx, conn, slot)
		if err != nil || !s.Active {
			return s, err
		}
		if waiting != nil && s.ActivePID != reader {
			reader = s.ActivePID
			waiting(s)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-poll.C:
		}
	}
}
