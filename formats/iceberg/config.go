package iceberg

import (
	"fmt"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
	"go.uber.org/zap"
)

// Retention says which checkpoints stay readable. Zero fields mean the defaults.
type Retention struct {
	// All keeps every checkpoint that is younger (15 minutes), Minutely the last one of each minute (24 hours), Hourly
	// the last one of each hour (168 hours).
	All, Minutely, Hourly time.Duration
	// Max bounds the number of checkpoints (500); beyond it those with the closest neighbours, for their age, go first.
	Max int
}

func (r Retention) withDefaults() Retention {
	if r.All == 0 {
		r.All = 15 * time.Minute
	}
	if r.Minutely == 0 {
		r.Minutely = 24 * time.Hour
	}
	if r.Hourly == 0 {
		r.Hourly = 168 * time.Hour
	}
	if r.Max == 0 {
		r.Max = 500
	}
	return r
}

// The points at which Config.Failpoint is called during a commit.
const (
	// FilesPut: everything but the metadata files is stored.
	FilesPut = "files put"
	// MetadataPut: everything is stored, the catalog is untouched.
	MetadataPut = "metadata put"
	// SwapSent: all statements of the swap have run, its COMMIT is about to be sent.
	SwapSent = "swap sent"
	// SwapDone: the COMMIT was answered; an error here stands for an answer that was lost.
	SwapDone = "swap done"
)

// Config describes a lake.
type Config struct {
	// Pipeline names the state row; one writer at a time may claim it.
	Pipeline string
	// Store holds the warehouse. It stays the caller's to close.
	Store storage.Store
	// Catalog is "sqlite:///path/catalog.db".
	Catalog string
	// Mode is that of all tables without an entry in Modes. A table that was written in another one is brought to its mode
	// by Claim. Readers need neither.
	Mode  Mode
	Modes map[formats.TableName]Mode
	// FollowsRewrites tells that the caller moves its own positions by Checkpoint.Rewrites after each commit, without
	// which copy-on-write would lose deletes.
	FollowsRewrites bool
	// TargetFileSize is the size in bytes up to which rewritten files are joined; default 128 MiB.
	TargetFileSize int64
	// Interval is how often checkpoints are to be made: copy-on-write warns when it takes longer. Zero never warns.
	Interval time.Duration
	// Retention says which checkpoints stay readable.
	Retention Retention
	// Hints keeps a version hint for readers that know a table by its folder alone.
	Hints bool
	// Anew lets a claim begin although the warehouse knows more of the pipeline than the catalog, which was lost or is an
	// old copy: what the catalog lacks is given up.
	Anew bool
	// Log may be nil.
	Log *zap.Logger
	// Failpoint, for tests, is called at the named points of a commit, whose puts then go out in two steps instead of
	// at once. An error it returns stands for a failure at that point.
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
	if c.TargetFileSize <= 0 {
		c.TargetFileSize = 128 << 20
	}
	c.Retention = c.Retention.withDefaults()
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}
