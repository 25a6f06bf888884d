package source

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Severity says how much a finding matters.
type Severity string

// The severities: an Error keeps the pipeline, or a table, from working; a Warning endangers something or leaves
// something out; Info is good to know.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// The subjects of findings that are not a table's name.
const (
	SubjectConfig      = "config"
	SubjectConnection  = "connection"
	SubjectServer      = "server"
	SubjectRole        = "role"
	SubjectPublication = "publication"
	SubjectSlot        = "slot"
	// SubjectSlotSize is the finding that nothing bounds the WAL a slot keeps; a configuration may accept it.
	SubjectSlotSize = "max_slot_wal_keep_size"
)

// Finding is one thing that check has to say.
type Finding struct {
	Severity Severity `json:"severity"`
	// Subject is one of the constants, or a table's name as Show gives it.
	Subject string `json:"subject"`
	// Text is one sentence: what is the matter, and what follows from it.
	Text string `json:"text"`
	// SQL are the statements that mend it, each on a line of its own with a semicolon at its end, to be run one by one by
	// somebody who may; "" when SQL cannot.
	SQL string `json:"sql,omitempty"`
}

// checker gathers findings.
type checker struct {
	cfg     *Config
	conn    *pgx.Conn // to cfg.URL
	system  *System   // nil when no replication connection could be made
	catalog *catalog
	tables  []Table
	version int
	role    string
	super   bool
	standby bool
	// primary is where publications are made, as the role publisher: conn, or the primary of a standby; nil when that
	// cannot be asked.
	primary   *pgx.Conn
	publisher string
	// long is from what age on an open transaction is worth a finding.
	long     time.Duration
	findings []Finding
}

// Check examines everything that the pipeline needs of the source and returns all findings at once, by subject in the
// order in which they would stop it. It changes nothing. The error is for a source that broke off while it was examined:
// one that cannot be reached at all is a finding.
func Check(ctx context.Context, cfg *Config) ([]Finding, error) {
	k := &checker{cfg: cfg, long: time.Minute}
	if err := cfg.Validate(); err != nil {
		for line := range strings.Lines(err.Error()) {
			k.add(Error, SubjectConfig, strings.TrimSpace(line))
		}
		return k.findings, nil
	}
	var err error
	if k.conn, err = Connect(ctx, cfg.URL, "check"); err != nil {
		k.connectionFailed(err)
		return k.findings, nil
	}
	defer CloseConn(k.conn)
	defer k.closePrimary()
	if k.version = ServerVersion(k.conn.PgConn()); k.version < 13 {
		k.add(Error, SubjectServer, fmt.Sprintf("the source is Postgres %d, and Streambed reads 13 and newer: upgrade it", k.version))
		return k.findings, nil
	}
	for _, step := range []func(context.Context) error{
		k.checkSession, k.checkReplication, k.checkSettings, k.checkStandby, k.checkSlot, k.checkSynchronized,
		k.discover, k.checkPublications, k.checkTables, k.checkColumns, k.checkPatterns, k.checkOpenTransactions,
	} {
		if err := step(ctx); err != nil {
			return k.findings, fmt.Errorf("check of the source broke off: %w", err)
		}
	}
	return k.findings, nil
}

func (k *checker) closePrimary() {
	if k.primary != nil && k.primary != k.conn {
		CloseConn(k.primary)
	}
}

func (k *checker) add(s Severity, subject, text string, sql ...string) {
	for i, statement := range sql {
		sql[i] = statement + ";"
	}
	k.findings = append(k.findings, Finding{Severity: s, Subject: subject, Text: text, SQL: strings.Join(sql, "\n")})
}

func (k *checker) discover(ctx context.Context) (err error) {
	k.catalog, k.tables, err = discover(ctx, k.conn, k.cfg)
	return err
}
