package source

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// checkPrimary looks at the primary of a standby that is followed: whether it is the right one, and whether what needs a
// primary can be done there. It leaves k.primary open where publications can be looked at.
func (k *checker) checkPrimary(ctx context.Context) error {
	conn, err := Connect(ctx, k.cfg.PrimaryURL, "check")
	if err != nil {
		k.add(Error, SubjectConnection, "primary: "+err.Error())
		return ctx.Err()
	}
	var role, level, system, database string
	var recovering bool
	err = conn.QueryRow(ctx, `SELECT current_user, current_setting('wal_level'), pg_is_in_recovery(), current_database(),
		(SELECT system_identifier::text FROM pg_control_system())`).Scan(&role, &level, &recovering, &database, &system)
	if err != nil {
		CloseConn(conn)
		return err
	}
	var followed string
	if err := k.conn.QueryRow(ctx, "SELECT current_database()").Scan(&followed); err != nil {
		CloseConn(conn)
		return err
	}
	wrong := ""
	switch {
	case recovering:
		wrong = "source.primary_url leads to a standby: set it to the primary"
	case k.system != nil && system != k.system.SystemIdentifier:
		wrong = "source.primary_url and source.url lead to different database clusters: set both to the same one"
	case database != followed:
		wrong = fmt.Sprintf("source.primary_url leads to database %s and source.url to database %s: set both to the same one", Quote(database), Quote(followed))
	}
	if wrong != "" {
		k.add(Error, SubjectConfig, wrong)
		CloseConn(conn)
		return nil
	}
	k.primary, k.publisher = conn, role
	if level != "logical" {
		k.add(Error, SubjectServer, fmt.Sprintf("wal_level is %s on the primary, so that its standby cannot decode changes: set it to logical there and restart the primary", level),
			"ALTER SYSTEM SET wal_level = 'logical'")
	}
	if k.version < 16 {
		return nil
	}
	var may bool
	if err := conn.QueryRow(ctx, "SELECT has_function_privilege('pg_log_standby_snapshot()', 'EXECUTE')").Scan(&may); err != nil {
		return err
	}
	if !may {
		k.add(Warning, SubjectRole, fmt.Sprintf("role %s may not have the primary log its running transactions, and a slot on the standby of an idle primary is made only when it does so by itself: grant it on the primary", Quote(role)),
			"GRANT EXECUTE ON FUNCTION pg_log_standby_snapshot() TO "+Quote(role))
	}
	return nil
}

// checkSynchronized finds standbys that the source waits for before it sends us anything, and that are not there. It is for
// a primary of version 17 and newer, whose slot of ours is a failover slot.
func (k *checker) checkSynchronized(ctx context.Context) error {
	if k.standby || k.version < 17 {
		return nil
	}
	var setting string
	var served []string
	err := k.conn.QueryRow(ctx, `SELECT current_setting('synchronized_standby_slots'),
		COALESCE((SELECT array_agg(slot_name::text) FROM pg_replication_slots WHERE slot_type = 'physical' AND active), '{}')`).Scan(&setting, &served)
	if err != nil {
		return err
	}
	var missing, kept []string
	for name := range strings.SplitSeq(setting, ",") {
		name = strings.Trim(strings.TrimSpace(name), `"`)
		switch {
		case name == "":
		case slices.Contains(served, name):
			kept = append(kept, name)
		default:
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	k.add(Warning, SubjectSlot, fmt.Sprintf("synchronized_standby_slots names %s, which no standby reads: the source sends nothing until one does, so start that standby, or take it out of the setting", strings.Join(missing, ", ")),
		"ALTER SYSTEM SET synchronized_standby_slots = "+QuoteLiteral(strings.Join(kept, ", ")), "SELECT pg_reload_conf()")
	return nil
}
