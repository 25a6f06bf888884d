package formats

import (
	"context"
	"time"
)

// Task is a kind of maintenance (design section 9).
type Task string

// The tasks.
const (
	// Flush moves rows that a catalog keeps into files.
	Flush Task = "flush"
	// Compact joins small files and rewrites those of which many rows are deleted.
	Compact Task = "compact"
	// Expire removes snapshots that are no longer to be kept.
	Expire Task = "expire"
	// Orphans removes files that nothing names (any more).
	Orphans Task = "orphans"
)

// Maintenance is what is to be done.
type Maintenance struct {
	Task Task
	// Table limits Flush and Compact to the table of this name; nil for all.
	Table *TableName
	// All asks for whatever can be done, not only what is worth it: of Orphans, also for files that no catalog ever named,
	// for which the whole warehouse is listed.
	All bool
	// DryRun only counts what Orphans would remove. Age is how old an orphan must be; zero for the default.
	DryRun bool
	Age    time.Duration
}

// MaintenanceReport tells what was done.
type MaintenanceReport struct {
	Task Task `json:"task"`
	// Tables and Rows were rewritten, from Before files to After.
	Tables int   `json:"tables"`
	Rows   int64 `json:"rows"`
	Before int   `json:"before"`
	After  int   `json:"after"`
	// Snapshots were expired; Files, of Bytes, removed (or would be, by a dry run).
	Snapshots int   `json:"snapshots"`
	Files     int   `json:"files"`
	Bytes     int64 `json:"bytes"`
}

// Add adds another report's counts.
func (r *MaintenanceReport) Add(o MaintenanceReport) {
	r.Tables += o.Tables
	r.Rows += o.Rows
	r.Before += o.Before
	r.After += o.After
	r.Snapshots += o.Snapshots
	r.Files += o.Files
	r.Bytes += o.Bytes
}

// Nothing reports whether nothing was done.
func (r *MaintenanceReport) Nothing() bool {
	return r.Tables == 0 && r.Snapshots == 0 && r.Files == 0
}

// Maintainer is a Lake that can be maintained by the one who has claimed it.
type Maintainer interface {
	// Prepare does the part of a task that needs no turn: it reads a checkpoint and stores new files, while commits go on. It
	// gives nil when there is nothing to do.
	Prepare(ctx context.Context, m Maintenance) (Prepared, error)
}

// Prepared is a task that is ready for its turn. Either Apply or Discard is called, once.
type Prepared interface {
	// Apply makes the task's outcome durable; no Commit may be under way. What was deleted since Prepare stays deleted.
	// Rows may be named by the files that it replaced for a while, as after a Commit.
	Apply(ctx context.Context) ([]Rewrite, MaintenanceReport, error)
	// Discard gives the task up; what it has stored is swept with the orphans.
	Discard()
}
