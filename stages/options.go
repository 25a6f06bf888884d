// Package stages wires the pipeline together and runs it: reader, decoder, a batcher a table, uploaders, committer.
package stages

import (
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/source"
	"go.uber.org/zap"
)

// Options are a pipeline's settings, checked and complete; cmd/internal/config makes them.
type Options struct {
	Pipeline string
	Source   SourceOptions
	Lake     formats.Lake
	Store    storage.Store
	// StateDir is the local folder for the key index and spill.
	StateDir string
	// Memory bounds the bytes held by the pipeline, DuckDB's share excluded.
	Memory int64
	Flush  FlushOptions
	Values types.Options

	UploadWorkers int
	CopyWorkers   int
	// InFlight bounds the cuts between decoder and committer.
	InFlight int
	// TargetFileSize is the size in bytes at which a data file is closed.
	TargetFileSize int64

	// Standby waits for the source's lock while another daemon holds it, instead of ending.
	Standby bool

	// Failpoint is called at named points, for tests that kill the process there; nil for none.
	Failpoint func(name string)
	Log       *zap.Logger
}

// SourceOptions say what to read and from where.
type SourceOptions struct {
	URL         string
	PrimaryURL  string
	Slot        string
	Publication string
	// Tables and Exclude are patterns "schema.table" in which * stands for any run of characters.
	Tables  []string
	Exclude []string
	// Columns are settings by column, of some tables.
	Columns map[formats.TableName]source.ColumnSettings
	// MaxSlotWAL is the size in bytes of WAL kept for the slot above which it is given up; 0 for never.
	MaxSlotWAL int64
}

// FlushOptions say when a cut is made: at the first transaction end at which one of them is reached.
type FlushOptions struct {
	Interval time.Duration
	Rows     int64
	Bytes    int64
}
