package ducklake

import (
	"fmt"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
	"go.uber.org/zap"
)

// The points at which Config.Failpoint is called during a commit.
const (
	// FilesPut: every delete file is stored, the catalog is untouched.
	FilesPut = "files put"
	// SwapSent: all statements of the swap have run, its COMMIT is about to be sent.
	SwapSent = "swap sent"
	// SwapDone: the COMMIT was answered; an error here stands for an answer that was lost.
	SwapDone = "swap done"
)

// Config describes a lake.
type Config struct {
	// Pipeline names the state row; one writer at a time may claim it.
	Pipeline string
	// Store holds the warehouse, which is DuckLake's data path. It stays the caller's to close.
	Store storage.Store
	// Catalog is "sqlite:///path/catalog.db" or "postgres://user@host/database".
	Catalog string
	// TargetFileSize is the size, in bytes, up to which compaction joins files (128 MiB).
	TargetFileSize int64
	// Arrangements say how the files of tables are partitioned and sorted; tables without one are not.
	Arrangements map[formats.TableName]formats.Arrangement
	// Retention says which checkpoints stay readable.
	Retention Retention
	// Anew lets a claim begin although the warehouse has seen more claims than the catalog, which was lost or is an old
	// copy: what the catalog lacks is given up.
	Anew bool
	// Log may be nil.
	Log *zap.Logger
	// Failpoint, for tests, is called at the named points of a commit. An error it returns stands for a failure there.
	Failpoint func(point string) error
	// Now, for tests, replaces the clock.
	Now func() time.Time
}

func (c Config) checked() (Config, error) {
	if c.Pipeline == "" {
		return c, fmt.Errorf("the lake's configuration names no pipeline")
	}
	if c.Store == nil {
		return c, fmt.Errorf("the lake's configuration of pipeline %s has no store", c.Pipeline)
	}
	c.Retention = c.Retention.withDefaults()
	if c.TargetFileSize <= 0 {
		c.TargetFileSize = 128 << 20
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

func (c *Config) fail(point string) error {
	if c.Failpoint == nil {
		return nil
	}
	return c.Failpoint(point)
}
