package stages

import (
	"time"

	"github.com/streambed/streambed/lsn"
)

// Status is what a pipeline tells about itself: the status command, page and metrics are made from it.
type Status struct {
	Pipeline string `json:"pipeline"`
	// Phase is starting, standby (another daemon runs the pipeline), paused (by an operator), streaming, waiting (for a source or store that does
	// not answer) or stopped.
	Phase string `json:"phase"`
	// Ready is true while the pipeline streams and no table is in its first copy.
	Ready bool `json:"ready"`
	// Trouble is the newest failure that is being retried, one sentence with its remedy; "" when all is well.
	Trouble string `json:"trouble,omitempty"`

	Received     lsn.LSN `json:"received"`
	Committed    lsn.LSN `json:"committed"`
	Acknowledged lsn.LSN `json:"acknowledged"`
	// SourceEnd is the source's end of WAL when it last spoke.
	SourceEnd  lsn.LSN   `json:"source_end"`
	Checkpoint int64     `json:"checkpoint"`
	CommitTime time.Time `json:"commit_time"`
	Known      time.Time `json:"known"`

	// MemoryUsed and MemoryLimit are of the admission budget, in bytes.
	MemoryUsed  int64     `json:"memory_used"`
	MemoryLimit int64     `json:"memory_limit"`
	Rows        RowCounts `json:"rows"`
	// Streamed is about transactions that came before their commit.
	Streamed   StreamedCounts `json:"streamed"`
	Commits    int64          `json:"commits"`
	Files      int64          `json:"files"`
	Bytes      int64          `json:"bytes"`
	Queues     []QueueStatus  `json:"queues"`
	Tables     []TableStatus  `json:"tables"`
	LastCommit CommitDuration `json:"last_commit"`
}

// RowCounts count row changes since the start.
type RowCounts struct {
	Inserted int64 `json:"inserted"`
	Updated  int64 `json:"updated"`
	Deleted  int64 `json:"deleted"`
	Copied   int64 `json:"copied"`
}

// StreamedCounts are about the transactions that the source sent before their commit, since they are large: Transactions
// have been committed or dropped since the start, Open are kept until they are, and Spilled bytes went to the local disk for
// them.
type StreamedCounts struct {
	Transactions int64 `json:"transactions"`
	Open         int64 `json:"open"`
	Spilled      int64 `json:"spilled"`
}

// CommitDuration times the phases of the newest checkpoint.
type CommitDuration struct {
	Rows    int64         `json:"rows"`
	Waiting time.Duration `json:"waiting"`
	Commit  time.Duration `json:"commit"`
}

// QueueStatus is the fill of one channel.
type QueueStatus struct {
	Name   string `json:"name"`
	Length int    `json:"length"`
	Limit  int    `json:"limit"`
}

// TableStatus is one table's standing.
type TableStatus struct {
	// Name is quoted as SQL would have it.
	Name string `json:"name"`
	// Phase is copying, live, resyncing (live and being copied anew), set aside or dropped.
	Phase      string `json:"phase"`
	AppendOnly bool   `json:"append_only,omitempty"`
	// SetAside is the reason and remedy when the table is set aside.
	SetAside string      `json:"set_aside,omitempty"`
	Rows     RowCounts   `json:"rows"`
	Copy     *CopyStatus `json:"copy,omitempty"`
	Warnings []string    `json:"warnings,omitempty"`
	Files    int64       `json:"files"`
}

// CopyStatus is the progress of a running copy.
type CopyStatus struct {
	// State is waiting (for open transactions), reading, finishing or published.
	State string `json:"state"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
	// EstimatedRows is the source's own estimate; 0 when unknown.
	EstimatedRows int64 `json:"estimated_rows"`
	// Fraction is the share of pages read, 0 to 1; Remaining the time left at the present pace, 0 when unknown.
	Fraction  float64       `json:"fraction"`
	Remaining time.Duration `json:"remaining"`
}
