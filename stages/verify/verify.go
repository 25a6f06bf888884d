// Package verify compares a lake table with its source, by key and value, while the source goes on and the daemon runs or
// not. It proves promises 1 to 4 from outside the pipeline: it shares with it only the decoding of values.
//
// Both sides are read once and summed up by buckets of their keys, in fixed memory. The rows of buckets that differ are
// read again to find the keys that do; these alone are then looked at in rounds: the source, the lake once it holds what
// the source held then, and the source again. A row that the source left alone meanwhile, and that the lake holds
// otherwise in two rounds, differs for certain.
package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/source"
)

// Options say what to compare.
type Options struct {
	Source source.Config
	Reader formats.Reader
	Store  storage.Store
	Table  formats.TableName
	// Values must be the pipeline's: what it bends is bent here too.
	Values types.Options
	// Limit bounds the differences that are told (default 100).
	Limit int
	// Wait bounds how long the lake is waited for to hold what the source held (default 30 s; negative: not at all). An
	// idle pipeline moves its position every 10 s.
	Wait time.Duration
	// Rounds bounds how often rows that change meanwhile are looked at again (default 5, at least 2).
	Rounds int
	// Memory bounds the bytes held for rows that may differ (default 64 MiB).
	Memory int64
	// Progress, which may be nil, is told what is being done, in a sentence without an end.
	Progress func(string)
}

// Result is what a comparison found.
type Result struct {
	Table string `json:"table"`
	// SourceRows are those of the source at SourcePosition, LakeRows those of the lake at LakePosition (and Checkpoint),
	// when both were first read.
	SourceRows     int64   `json:"source_rows"`
	LakeRows       int64   `json:"lake_rows"`
	SourcePosition lsn.LSN `json:"source_position"`
	LakePosition   lsn.LSN `json:"lake_position"`
	Checkpoint     int64   `json:"checkpoint"`
	// CaughtUp tells that the lake held, in the end, all that the source held when its rows were looked at. Where it is
	// false the daemon does not run or is far behind: Behind are the bytes of WAL that it lacks, and differences may be
	// nothing but that.
	CaughtUp bool  `json:"caught_up"`
	Behind   int64 `json:"behind"`
	Rounds   int   `json:"rounds"`
	// Differences are certain, where CaughtUp is true, and at most Options.Limit; More tells that there are others.
	Differences []Difference `json:"differences"`
	More        bool         `json:"more,omitempty"`
	// Undecided counts the rows that changed at the source in every round.
	Undecided int64 `json:"undecided,omitempty"`
	// Notes are sentences about what was compared, and what was not.
	Notes []string `json:"notes,omitempty"`
}

// Equal reports whether every row was compared and none differs.
func (r *Result) Equal() bool { return len(r.Differences) == 0 && !r.More && r.Undecided == 0 }

// Kind says how a row differs.
type Kind string

// The kinds of differences. Count is a row that both sides hold, in different numbers: for a table with a key, the lake
// holds its key more than once.
const (
	Missing Kind = "missing in the lake"
	Extra   Kind = "only in the lake"
	Changed Kind = "different"
	Count   Kind = "held in different numbers"
)

// Difference is one row that differs.
type Difference struct {
	Kind Kind `json:"kind"`
	// Key is the row's key as "column=value, ..."; the whole row where the table has none.
	Key string `json:"key"`
	// SourceRows and LakeRows count the rows with this key (without one: of these values).
	SourceRows int64 `json:"source_rows"`
	LakeRows   int64 `json:"lake_rows"`
	// Columns are those that differ, for Changed.
	Columns []ColumnDifference `json:"columns,omitempty"`
}

// ColumnDifference is one value on both sides, as text, shortened; "NULL" for NULL.
type ColumnDifference struct {
	Column string `json:"column"`
	Source string `json:"source"`
	Lake   string `json:"lake"`
}

// ErrNotComparable means that the table cannot be compared now: it is not in the lake, not published, or its columns do
// not fit any more.
var ErrNotComparable = errors.New("the table cannot be compared")

func (o *Options) defaults() {
	if o.Limit <= 0 {
		o.Limit = 100
	}
	if o.Wait == 0 {
		o.Wait = 30 * time.Second
	}
	if o.Rounds == 0 {
		o.Rounds = 5
	}
	o.Rounds = max(2, o.Rounds)
	if o.Memory <= 0 {
		o.Memory = 64 << 20
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
}

// verifier is one comparison.
type verifier struct {
	o      Options
	conn   *pgx.Conn // for positions and short reads
	table  *source.Table
	view   *formats.View
	shape  *shape
	result *Result
	// stalled tells that the lake did not move while it was waited for.
	stalled bool
}

// Verify compares one table. It blocks until both sides have been read, and for the waits that Options allow. At the
// source it holds one snapshot for the time of its first reading, and no lock for longer than a chunk takes (promise 5).
func Verify(ctx context.Context, o Options) (*Result, error) {
	o.defaults()
	v := &verifier{o: o, result: &Result{Table: source.Show(o.Table), CaughtUp: true}}
	var err error
	if v.conn, err = source.Connect(ctx, o.Source.URL, "verify"); err != nil {
		return nil, err
	}
	defer closeConn(v.conn)
	if err := v.prepare(ctx); err != nil {
		return nil, err
	}
	if err := v.compare(ctx); err != nil {
		return nil, fmt.Errorf("comparison of table %s broke off: %w", v.result.Table, err)
	}
	return v.result, nil
}

// prepare finds the table on both sides.
func (v *verifier) prepare(ctx context.Context) error {
	tables, err := source.Discover(ctx, v.conn, &v.o.Source)
	if err != nil {
		return err
	}
	for i := range tables {
		if tables[i].Name == v.o.Table {
			v.table = &tables[i]
		}
	}
	if v.table == nil {
		return fmt.Errorf("%w: %s is not among the tables that the source publishes for this pipeline", ErrNotComparable, v.result.Table)
	}
	view, err := v.o.Reader.Current(ctx)
	if err != nil {
		return err
	}
	held := find(view, v.o.Table)
	if held == nil {
		return fmt.Errorf("%w: the lake does not show table %s yet; wait until its copy is done", ErrNotComparable, v.result.Table)
	}
	if held.SetAside != "" {
		v.note("the table is set aside and does not follow its source: %s", held.SetAside)
	}
	if v.table.AppendOnly {
		v.note("the table is append-only in the lake: rows that the source updated or deleted are expected to differ")
	}
	return v.shapeOf(&held.Schema)
}

func (v *verifier) note(format string, values ...any) {
	v.result.Notes = append(v.result.Notes, fmt.Sprintf(format, values...))
}

func find(view *formats.View, name formats.TableName) *formats.ViewTable {
	for i := range view.Tables {
		if view.Tables[i].Name == name {
			return &view.Tables[i]
		}
	}
	return nil
}

// caughtUp waits until the lake holds the position, and gives its newest view; reached is false when it does not within
// Options.Wait. A lake that did not move at all in that time is not waited for again.
func (v *verifier) caughtUp(ctx context.Context, position lsn.LSN) (view *formats.View, reached bool, err error) {
	wait := max(0, v.o.Wait)
	if v.stalled {
		wait = 0
	}
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for first := lsn.LSN(0); ; {
		if view, err = v.o.Reader.Current(ctx); err != nil {
			return nil, false, err
		}
		if view.Position >= position {
			v.result.CaughtUp, v.result.Behind, v.stalled = true, 0, false
			return view, true, nil
		}
		if first == 0 {
			first = view.Position
			v.o.Progress(fmt.Sprintf("waiting until the lake, at %s, holds %s", view.Position, position))
		}
		select {
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case <-deadline.C:
			v.result.CaughtUp, v.result.Behind = false, int64(position-view.Position)
			v.stalled = view.Position == first
			return view, false, nil
		case <-poll.C:
		}
	}
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
