package stages

import (
	"context"
	"errors"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages/maintenance"
)

// ErrNoMaintenance means that the lake's format has no maintenance of ours.
var ErrNoMaintenance = errors.New("lakes of this format are not maintained by streambedd yet")

// readyMaintenance makes the actor that maintains the lake; nil for a lake without.
func (r *run) readyMaintenance() {
	lake, ok := r.pipeline.options.Lake.(formats.Maintainer)
	if !ok {
		return
	}
	r.maintenance = maintenance.New(maintenance.Config{Lake: lake, Turn: r.committer.Turn, Follow: r.moved, Log: r.log.Named("maintenance")})
}

// moved tells the batcher of an incarnation that rows of it have moved.
func (r *run) moved(ctx context.Context, table formats.TableRef, rewrites []formats.Rewrite) error {
	for _, b := range r.registry.batchers() {
		if err := b.Moved(ctx, table, rewrites); err != nil {
			return err
		}
	}
	return nil
}

// Maintain does a task of maintenance and waits for it. It returns an error when the pipeline does not run.
func (p *Pipeline) Maintain(ctx context.Context, m formats.Maintenance) (formats.MaintenanceReport, error) {
	p.mu.Lock()
	r := p.current
	p.mu.Unlock()
	if r == nil {
		return formats.MaintenanceReport{}, errors.New("the pipeline has not started yet: try again in a moment")
	}
	if r.maintenance == nil {
		return formats.MaintenanceReport{}, ErrNoMaintenance
	}
	return r.maintenance.Do(ctx, m)
}

// MaintainAlone does a task on a lake whose pipeline does not run: it takes the claim. Rows that move are found by the
// pipeline at its next start.
func MaintainAlone(ctx context.Context, lake formats.Lake, m formats.Maintenance) (formats.MaintenanceReport, error) {
	report := formats.MaintenanceReport{Task: m.Task}
	maintained, ok := lake.(formats.Maintainer)
	if !ok {
		return report, ErrNoMaintenance
	}
	if _, err := lake.Claim(ctx); err != nil {
		return report, err
	}
	prepared, err := maintained.Prepare(ctx, m)
	if err != nil || prepared == nil {
		return report, err
	}
	_, report, err = prepared.Apply(ctx)
	return report, err
}
