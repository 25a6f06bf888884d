// Package lease keeps files from being deleted under those who read them, also in another process (promise 9). A reading
// process writes one row into the catalog every few seconds, however many queries it runs: since when the oldest of them
// reads. Maintenance asks for the oldest of all processes: a file that left the last retained snapshot before that moment
// is needed by nobody.
//
// All moments are of the catalog's clock, so that the clocks of the machines need not agree.
package lease

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Statement makes the table of leases where there is none; it belongs to those that the writer makes when it claims a
// pipeline. since and heartbeat are microseconds since 1970 of the catalog's clock.
const Statement = `CREATE TABLE IF NOT EXISTS streambed_leases (pipeline TEXT NOT NULL, holder TEXT NOT NULL, checkpoint BIGINT NOT NULL,
	since BIGINT NOT NULL, heartbeat BIGINT NOT NULL, PRIMARY KEY (pipeline, holder))`

// The catalogs' clocks, as SQL expressions.
const (
	SQLiteClock   = `CAST((julianday('now') - 2440587.5) * 86400000000.0 AS BIGINT)`
	PostgresClock = `CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)`
)

const (
	// Interval is the time between two heartbeats of a process.
	Interval = 5 * time.Second
	// Expiry is how long a lease lasts without a heartbeat: its holder is then taken for dead.
	Expiry = time.Minute
	// margin covers what passes between reading our clock and the catalog's while a heartbeat is written.
	margin = 5 * time.Second
)

// Source is a lake or a reader whose catalog keeps leases.
type Source interface {
	Leases() *Table
}

// Table is the table of leases of a pipeline. It is safe for concurrent use.
type Table struct {
	// Write and Read are the catalog's connections; they belong to the catalog.
	Write, Read *sql.DB
	Pipeline    string
	// Clock is the catalog's clock: SQLiteClock or PostgresClock.
	Clock string
	// Missing reports whether an error says that the catalog's tables have not been made yet.
	Missing func(error) bool
}

// Oldest is what the leases of a pipeline say together.
type Oldest struct {
	// Holders is the number of processes with a lease that has not expired.
	Holders int
	// Since is the moment from which the oldest query reads, or is the present when there are no holders: what had left
	// all retained snapshots before it may be deleted. It is of the catalog's clock, in microseconds since 1970.
	Since int64
	// Now is the catalog's present.
	Now int64
	// Checkpoint is the oldest one read, for people; 0 without holders.
	Checkpoint int64
}

// Oldest forgets the leases that have expired and reads the others. It blocks on the catalog. A caller that records when a
// file left the last snapshot takes that moment from Oldest.Now too.
func (t *Table) Oldest(ctx context.Context) (o Oldest, err error) {
	_, err = t.Write.ExecContext(ctx, `DELETE FROM streambed_leases WHERE pipeline = $1 AND heartbeat < `+t.Clock+` - CAST($2 AS BIGINT)`, t.Pipeline, Expiry.Microseconds())
	if err != nil {
		return o, err
	}
	var since, checkpoint sql.NullInt64
	err = t.Read.QueryRowContext(ctx, `SELECT `+t.Clock+`, count(*), min(since), min(checkpoint) FROM streambed_leases WHERE pipeline = $1`, t.Pipeline).
		Scan(&o.Now, &o.Holders, &since, &checkpoint)
	o.Since, o.Checkpoint = o.Now, checkpoint.Int64
	if since.Valid {
		o.Since = min(o.Now, since.Int64)
	}
	return o, err
}

// beat writes a holder's lease. age is how long ago its oldest query began to read.
func (t *Table) beat(ctx context.Context, holder string, checkpoint int64, age time.Duration) error {
	_, err := t.Write.ExecContext(ctx, `INSERT INTO streambed_leases (pipeline, holder, checkpoint, since, heartbeat)
		VALUES ($1, $2, $3, `+t.Clock+` - CAST($4 AS BIGINT), `+t.Clock+`)
		ON CONFLICT (pipeline, holder) DO UPDATE SET checkpoint = excluded.checkpoint, since = excluded.since, heartbeat = excluded.heartbeat`,
		t.Pipeline, holder, checkpoint, (age + margin).Microseconds())
	return err
}

// errNothingYet says that the pipeline's writer has not made the table.
var errNothingYet = errors.New("the catalog has no table of leases yet")

func (t *Table) write(ctx context.Context, holder string, checkpoint int64, age time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, margin)
	defer cancel()
	err := t.beat(ctx, holder, checkpoint, age)
	if err != nil && t.Missing(err) {
		return errNothingYet
	}
	return err
}

func (t *Table) remove(ctx context.Context, holder string) error {
	_, err := t.Write.ExecContext(ctx, `DELETE FROM streambed_leases WHERE pipeline = $1 AND holder = $2`, t.Pipeline, holder)
	return err
}
