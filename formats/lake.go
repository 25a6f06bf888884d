package formats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/lsn"
)

var (
	// ErrFenced means that another writer has claimed the pipeline: this one must stop without further writes.
	ErrFenced = errors.New("another Streambed has taken over this pipeline")
	// ErrForeignWrite means that something else moved a table that only we write.
	ErrForeignWrite = errors.New("table was changed by another writer")
	// ErrCatalogLost means that the warehouse knows more of the pipeline than the catalog, which is empty or an old copy.
	ErrCatalogLost = errors.New("the lake's catalog has been lost")
	// ErrNoSuchTable means that no table of that name is visible at the asked checkpoint.
	ErrNoSuchTable = errors.New("no such table")
	// ErrNotYetKnown means that the lake does not yet hold the asked position or time.
	ErrNotYetKnown = errors.New("the lake does not hold that position yet")
	// ErrGivenUp means that maintenance has failed without touching the lake.
	ErrGivenUp = errors.New("maintenance was given up")
	// ErrExpired means that the asked checkpoint is older than what is kept.
	ErrExpired = errors.New("that checkpoint is no longer kept")
)

// TableError is a failure to change one table that lies in the change itself: the same checkpoint without that table's
// change may succeed, so the table can be set aside (promise 7).
type TableError struct {
	Table TableRef
	Err   error
}

// Error tells which table and why.
func (e *TableError) Error() string {
	return fmt.Sprintf("table %q.%q cannot be changed: %v", e.Table.Name.Schema, e.Table.Name.Table, e.Err)
}

// Unwrap gives the cause.
func (e *TableError) Unwrap() error { return e.Err }

// Lake is a table format together with its catalog and store, for one pipeline and one writer.
type Lake interface {
	// Claim raises the pipeline's epoch, which fences every earlier writer, and returns the state. It creates the state
	// of a new pipeline at position 0. It blocks on the catalog.
	Claim(ctx context.Context) (*State, error)
	// SetIdentity stores the source's identity.
	SetIdentity(ctx context.Context, id Identity) error
	// NewTable gives a fresh incarnation of a table its ID and location; nothing is stored.
	NewTable(name TableName) TableRef
	// Files lists the live data files of an incarnation and the highest sequence number. It is empty for one that is not
	// created yet. Of the deleted rows it tells all those that snapshots after since deleted, and of those before since
	// what costs nothing: with since 0 it tells all, for which a lake that deletes by key reads its data files.
	Files(ctx context.Context, table TableRef, since int64) (files []LiveFile, sequence int64, err error)
	// Exists reports whether the incarnation has been created, from memory.
	Exists(table TableRef) bool
	// Sequence is the highest sequence number of an incarnation, from memory and cheap; zero before its first snapshot.
	Sequence(table TableRef) int64
	// Commit makes a checkpoint durable: all of it or nothing (promises 1 and 3). Data files in it are stored already.
	// It retries what can be retried within ctx, and resolves a commit whose answer was lost. ErrFenced and
	// ErrForeignWrite are final. After any other error the lake is as before, and the same checkpoint may be sent again.
	// Only one call may be under way. The maps and slices of the checkpoint belong to the lake afterwards.
	Commit(ctx context.Context, cp *Checkpoint) error
	// Close releases connections; it does not give up the claim.
	Close() error
}

// KeyDeleter is a Lake that stores deletes of some tables by key.
type KeyDeleter interface {
	// DeletesByKey reports whether changes of a table of this schema should carry Keys, from memory.
	DeletesByKey(name TableName, schema *Schema) bool
}

// Reader is the reading side of a lake: it needs no claim and may live in another process than the writer. Its methods
// are safe for concurrent use.
type Reader interface {
	// Current reads the newest checkpoint with all visible tables in one catalog transaction.
	Current(ctx context.Context) (*View, error)
	// At gives the tables of view as of an older point: the newest checkpoint that is not after it.
	// ErrNotYetKnown when the point is after what the lake is known to hold, ErrExpired when it is before what is kept.
	// A table that did not exist then is reported by Plan (ErrNoSuchTable).
	At(ctx context.Context, view *View, at Point) (*View, error)
	// Plan lists what has to be read of one table at a view.
	Plan(ctx context.Context, view *View, name TableName) (*ScanPlan, error)
	// Snapshots lists the kept snapshots of a table, oldest first.
	Snapshots(ctx context.Context, name TableName) ([]SnapshotInfo, error)
	Close() error
}

// Point is a place in a lake's history; exactly one field is set.
type Point struct {
	Checkpoint int64
	Position   lsn.LSN
	Time       time.Time
}

// View is the state of all visible tables at one checkpoint. It is immutable.
type View struct {
	Checkpoint int64
	Position   lsn.LSN
	CommitTime time.Time
	// Known is the latest source time up to which the lake is known to be complete at this checkpoint.
	Known  time.Time
	Tables []ViewTable
}

// ViewTable is one table of a view.
type ViewTable struct {
	Name TableName
	// Version names the table's content: equal versions have equal content.
	Version string
	Schema  Schema
	// SetAside is the reason why the table does not follow the source at present; "" when it does.
	SetAside string
	// Pointer is the format's own handle of the content (for Iceberg the metadata location).
	Pointer string
	// Snapshot is the format's snapshot id; zero for an empty table without one.
	Snapshot int64
}

// ScanPlan is the ordered list of files that make up a table.
type ScanPlan struct {
	Schema Schema
	Files  []ScanFile
}

// ScanFile is one Parquet file of a plan.
type ScanFile struct {
	// Path is a URI as stored; Local is the path on this machine where the store is a folder, else "".
	Path  string
	Local string
	Rows  int64
	Size  int64
	// Deleted are the positions to leave out; nil when none. Callers must not change it.
	Deleted *roaring.Bitmap
	Stats   FileStats
}

// SnapshotInfo is one line of a table's history.
type SnapshotInfo struct {
	ID         int64
	Sequence   int64
	Time       time.Time
	Checkpoint int64
	Position   lsn.LSN
	CommitTime time.Time
	Operation  string
	Rows       int64
	Files      int64
	Deleted    int64
}
