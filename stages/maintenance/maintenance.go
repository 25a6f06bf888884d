// Package maintenance keeps a lake in order while it is written: a background actor that takes its turns in the
// committer, and does what an operator asks for by command (design section 9).
package maintenance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/streambed/streambed/formats"
	"go.uber.org/zap"
)

// Config is what an actor works with.
type Config struct {
	Lake formats.Maintainer
	// Turn runs f while no checkpoint is being committed.
	Turn func(ctx context.Context, f func(ctx context.Context) error) error
	// Follow tells whoever knows rows of a table by their positions that they have moved.
	Follow func(ctx context.Context, table formats.TableRef, moved []formats.Rewrite) error
	Log    *zap.Logger
}

// Actor does maintenance, one task at a time.
type Actor struct {
	cfg     Config
	working sync.Mutex
}

// New makes an actor.
func New(cfg Config) *Actor { return &Actor{cfg: cfg} }

// schedule is what is looked at in the background, and how often. Looking costs little where nothing is to be done.
var schedule = []struct {
	every time.Duration
	formats.Maintenance
}{
	{2 * time.Second, formats.Maintenance{Task: formats.Flush}},
	{30 * time.Second, formats.Maintenance{Task: formats.Compact}},
	{time.Minute, formats.Maintenance{Task: formats.Expire}},
	{10 * time.Minute, formats.Maintenance{Task: formats.Orphans}},
	{24 * time.Hour, formats.Maintenance{Task: formats.Orphans, All: true}},
}

// Run works until ctx ends. A task that fails is tried again at its next time; only a lake that does not know any more
// where it stands ends the actor.
func (a *Actor) Run(ctx context.Context) error {
	due := make([]time.Time, len(schedule))
	for i := range due {
		due[i] = time.Now().Add(schedule[i].every)
	}
	tick := time.NewTicker(schedule[0].every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for i, s := range schedule {
			if time.Now().Before(due[i]) {
				continue
			}
			_, err := a.Do(ctx, s.Maintenance)
			due[i] = time.Now().Add(s.every)
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case errors.Is(err, formats.ErrGivenUp):
				a.cfg.Log.Warn("maintenance failed and is tried again", zap.String("task", string(s.Task)), zap.Error(err))
			case err != nil:
				return err
			}
		}
	}
}

// Do does one task and waits for it. An error that is not formats.ErrGivenUp ends the run: the lake has to be read anew.
func (a *Actor) Do(ctx context.Context, m formats.Maintenance) (formats.MaintenanceReport, error) {
	a.working.Lock()
	defer a.working.Unlock()
	begun := time.Now()
	report := formats.MaintenanceReport{Task: m.Task}
	prepared, err := a.cfg.Lake.Prepare(ctx, m)
	if err != nil {
		return report, fmt.Errorf("%w: %w", formats.ErrGivenUp, err)
	}
	if prepared == nil {
		return report, nil
	}
	applied := false
	err = a.cfg.Turn(ctx, func(ctx context.Context) error {
		applied = true
		moved, done, err := prepared.Apply(ctx)
		if report = done; err != nil {
			return err
		}
		byTable := map[string][]formats.Rewrite{}
		for _, r := range moved {
			byTable[r.Table.ID] = append(byTable[r.Table.ID], r)
		}
		for _, of := range byTable {
			if err := a.cfg.Follow(ctx, of[0].Table, of); err != nil {
				return err
			}
		}
		return nil
	})
	if !applied {
		prepared.Discard()
	}
	if err != nil {
		return report, err
	}
	if !report.Nothing() {
		a.cfg.Log.Info("maintenance", zap.String("task", string(m.Task)), zap.Int("tables", report.Tables), zap.Int64("rows", report.Rows),
			zap.Int("before", report.Before), zap.Int("after", report.After), zap.Int("snapshots", report.Snapshots),
			zap.Int("files", report.Files), zap.Int64("bytes", report.Bytes), zap.Duration("took", time.Since(begun)))
	}
	return report, nil
}
