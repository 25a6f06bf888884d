package source

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// connectionFailed explains why no ordinary connection could be made.
func (k *checker) connectionFailed(err error) {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "08P01" && strings.Contains(pg.Message, "startup parameter") {
		k.add(Error, SubjectConnection, "a connection pooler (PgBouncer) stands between and refuses our session settings: set source.url to the server itself")
		return
	}
	k.add(Error, SubjectConnection, err.Error())
}

// checkSession looks at the ordinary connection.
func (k *checker) checkSession(ctx context.Context) error {
	var pid uint32
	var encoding string
	err := k.conn.QueryRow(ctx, `SELECT pg_backend_pid(), current_user, rolsuper, pg_is_in_recovery(), current_setting('server_encoding')
		FROM pg_roles WHERE rolname = current_user`).Scan(&pid, &k.role, &k.super, &k.standby, &encoding)
	if err != nil {
		return err
	}
	if !k.standby {
		k.primary, k.publisher = k.conn, k.role
	}
	// A server announces its backend's process id when a connection begins; a pooler announces one of its own.
	if pid != k.conn.PgConn().PID() {
		k.add(Warning, SubjectConnection, "a connection pooler stands between: one that shares connections between transactions loses our lock, so set source.url to the server itself")
	}
	if k.version > 18 {
		k.add(Info, SubjectServer, fmt.Sprintf("the source is Postgres %d: Streambed is made for 13 to 18", k.version))
	}
	if encoding == "SQL_ASCII" {
		k.add(Warning, SubjectServer, "the database's encoding is SQL_ASCII: text that is not UTF-8 cannot be kept in the lake and is treated as unrepresentable")
	}
	return nil
}

// checkReplication tries a replication connection.
func (k *checker) checkReplication(ctx context.Context) error {
	system, err := Identify(ctx, k.cfg.URL)
	if err == nil {
		k.system = system
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "42501" {
		k.add(Error, SubjectConnection, err.Error()+": allow this role a replication connection, through no pooler")
		return nil
	}
	grant := "ALTER ROLE " + Quote(k.role) + " REPLICATION"
	var rds bool
	if err := k.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'rds_replication')").Scan(&rds); err != nil {
		return err
	}
	if rds {
		grant = "GRANT rds_replication TO " + Quote(k.role)
	}
	k.add(Error, SubjectRole, fmt.Sprintf("role %s may not read the replication stream", Quote(k.role)), grant)
	return nil
}

// checkSettings looks at the server's settings.
func (k *checker) checkSettings(ctx context.Context) error {
	var level string
	var maxSlots, slots, maxSenders, senders, keep int64
	var exists bool
	err := k.conn.QueryRow(ctx, `SELECT current_setting('wal_level'),
		current_setting('max_replication_slots')::bigint, (SELECT count(*) FROM pg_replication_slots),
		current_setting('max_wal_senders')::bigint, (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'),
		(SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size'),
		EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1)`, k.cfg.Slot).
		Scan(&level, &maxSlots, &slots, &maxSenders, &senders, &keep, &exists)
	if err != nil {
		return err
	}
	if level != "logical" {
		k.add(Error, SubjectServer, fmt.Sprintf("wal_level is %s, so that changes cannot be decoded: set it to logical and restart the server", level),
			"ALTER SYSTEM SET wal_level = 'logical'")
	}
	if !exists && slots >= maxSlots {
		k.add(Error, SubjectServer, fmt.Sprintf("all %d replication slots are taken: raise max_replication_slots and restart the server", maxSlots),
			fmt.Sprintf("ALTER SYSTEM SET max_replication_slots = %d", maxSlots+5))
	}
	if senders >= maxSenders {
		k.add(Error, SubjectServer, fmt.Sprintf("all %d WAL senders are taken: raise max_wal_senders and restart the server", maxSenders),
			fmt.Sprintf("ALTER SYSTEM SET max_wal_senders = %d", maxSenders+5))
	}
	if keep < 0 {
		k.add(Warning, SubjectSlotSize, "nothing bounds the WAL that a slot keeps: while Streambed is away it may fill the source's disk, so set a bound (past it the slot is lost and the tables are copied anew)",
			"ALTER SYSTEM SET max_slot_wal_keep_size = '64GB'", "SELECT pg_reload_conf()")
	}
	return k.checkIdleTimeout(ctx)
}

func (k *checker) checkIdleTimeout(ctx context.Context) error {
	if k.version < 18 {
		return nil
	}
	var timeout string
	if err := k.conn.QueryRow(ctx, "SELECT current_setting('idle_replication_slot_timeout')").Scan(&timeout); err != nil {
		return err
	}
	if digits := strings.TrimRight(timeout, "abcdefghijklmnopqrstuvwxyz"); digits != "0" {
		k.add(Warning, SubjectSlot, fmt.Sprintf("idle_replication_slot_timeout is %s: once Streambed has been away for longer, the slot is lost and the tables are copied anew", timeout),
			"ALTER SYSTEM SET idle_replication_slot_timeout = 0", "SELECT pg_reload_conf()")
	}
	return nil
}

// checkStandby looks at what only matters where the source is a standby.
func (k *checker) checkStandby(ctx context.Context) error {
	if !k.standby {
		return nil
	}
	if k.version < 16 {
		k.add(Error, SubjectServer, fmt.Sprintf("the source is a standby, and Postgres %d decodes changes only on a primary: set source.url to the primary", k.version))
	}
	var feedback bool
	var slot string
	if err := k.conn.QueryRow(ctx, "SELECT current_setting('hot_standby_feedback')::bool, current_setting('primary_slot_name')").Scan(&feedback, &slot); err != nil {
		return err
	}
	if !feedback {
		k.add(Warning, SubjectServer, "hot_standby_feedback is off on the standby: the primary may remove catalog rows that the slot still needs, which loses the slot",
			"ALTER SYSTEM SET hot_standby_feedback = on", "SELECT pg_reload_conf()")
	}
	if slot == "" {
		k.add(Warning, SubjectServer, "the standby follows its primary without a physical slot: while the two are apart the primary may remove catalog rows that our slot still needs, which loses it (run the first statement on the primary, the others on the standby)",
			"SELECT pg_create_physical_replication_slot('streambed_standby', true)", "ALTER SYSTEM SET primary_slot_name = 'streambed_standby'", "SELECT pg_reload_conf()")
	}
	if k.cfg.PrimaryURL == "" {
		k.add(Warning, SubjectConfig, "the source is a standby and source.primary_url is empty: publications can only be made on the primary")
		return nil
	}
	return k.checkPrimary(ctx)
}

// checkSlot looks at the slot, if it exists.
func (k *checker) checkSlot(ctx context.Context) error {
	s, err := ReadSlot(ctx, k.conn, k.cfg.Slot)
	if err != nil || !s.Exists {
		return err
	}
	drop := "SELECT pg_drop_replication_slot(" + QuoteLiteral(s.Name) + ")"
	switch err := s.Err(); {
	case errors.Is(err, ErrSlotBusy):
		k.add(Info, SubjectSlot, fmt.Sprintf("slot %s is being read by backend %d", s.Name, s.ActivePID))
	case errors.Is(err, ErrSlotLost):
		k.add(Error, SubjectSlot, err.Error(), drop)
	case err != nil:
		k.add(Error, SubjectSlot, err.Error())
	case s.WALStatus == "unreserved":
		k.add(Warning, SubjectSlot, fmt.Sprintf("slot %s keeps %d MiB of WAL, more than max_slot_wal_keep_size, and will be lost at the next checkpoint: start Streambed now", s.Name, s.Retained>>20))
	}
	return nil
}

// checkOpenTransactions lists transactions that a new slot and every copy would wait for.
func (k *checker) checkOpenTransactions(ctx context.Context) error {
	now, err := TakeSnapshot(ctx, k.conn)
	if err != nil {
		return err
	}
	open, err := holders(ctx, k.conn, now)
	if err != nil {
		return err
	}
	for _, h := range open {
		if h.Age < k.long {
			continue
		}
		sql := "SELECT pg_terminate_backend(" + strconv.Itoa(int(h.PID)) + ")"
		if h.PID == 0 {
			sql = "ROLLBACK PREPARED " + QuoteLiteral(h.Application)
		}
		k.add(Warning, SubjectServer, "a new slot and every copy wait for "+h.String()+"; they begin once it has ended", sql)
	}
	return nil
}
