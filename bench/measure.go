package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/streambed/streambed/formats/storage"
)

// result is one measurement. Seconds are wall seconds unless they say otherwise.
type result struct {
	Workload string `json:"workload"`
	Target   string `json:"target"`
	// Skipped is why the daemon refused the target; everything else is then zero.
	Skipped string `json:"skipped,omitempty"`
	// Changes are the changed rows at the source.
	Changes int64 `json:"changes"`
	// CopySeconds is from the daemon's start until the first copy is in the lake; it waits for a flush interval.
	CopySeconds float64 `json:"copy_seconds"`
	// SourceSeconds is how long the source took to commit the changes; Seconds from its first commit until the lake held
	// the last.
	SourceSeconds float64 `json:"source_seconds"`
	Seconds       float64 `json:"seconds"`
	CPUSeconds    float64 `json:"cpu_seconds"`
	// PeakBytes is the daemon's largest resident memory meanwhile.
	PeakBytes int64          `json:"peak_bytes"`
	Commits   int64          `json:"commits"`
	Store     storage.Counts `json:"store"`
	// Objects and ObjectBytes lie in the warehouse at the end, those of the first copy too.
	Objects     int64 `json:"objects"`
	ObjectBytes int64 `json:"object_bytes"`
	// ReadSeconds are of the queries in reads, in their order.
	ReadSeconds []float64 `json:"read_seconds"`
	Checksum    checksum  `json:"checksum"`
	// Load is the machine's load average of one minute at the end.
	Load float64 `json:"load"`
}

// measure runs one workload on one target. The error wraps errRefused when the daemon does not know the target.
func (b *bench) measure(ctx context.Context, w *workload, t *target) (*result, error) {
	b.measured++
	dir := filepath.Join(b.dir, fmt.Sprint(b.measured))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if !b.options.keep {
		defer os.RemoveAll(dir)
	}
	src, err := newSource(ctx, b.server, fmt.Sprintf("bench_%d", b.measured), b.options.scale, w.filled)
	if err != nil {
		return nil, err
	}
	defer src.close(ctx)
	catalog := fmt.Sprintf("catalog_%d", b.measured)
	if b.options.catalog == "postgres" {
		if err := b.server.Exec(ctx, "CREATE DATABASE "+catalog); err != nil {
			return nil, err
		}
	}
	place, err := newPlace(ctx, &b.options, dir, b.server.DatabaseURL(catalog))
	if err != nil {
		return nil, err
	}
	defer place.close()
	r := &result{Workload: w.name, Target: t.name}
	began := time.Now()
	d, err := startDaemon(b.binary, dir, &b.options, src, place, w, t)
	if err != nil {
		return nil, err
	}
	defer d.stop()
	if _, err := d.await(ctx, func(s *status) bool { return s.Status.Ready }); err != nil {
		return nil, err
	}
	r.CopySeconds = time.Since(began).Seconds()
	if err := b.changes(ctx, w, src, d, r); err != nil {
		return nil, err
	}
	if r.Objects, r.ObjectBytes, err = place.objects(); err != nil {
		return nil, err
	}
	lake := "postgres://bench@" + d.query + "/lake?sslmode=disable"
	if r.ReadSeconds, err = readTimes(ctx, lake); err != nil {
		return nil, fmt.Errorf("querying the lake: %w", err)
	}
	r.Checksum, err = same(ctx, src.url(), lake)
	r.Load = load()
	return r, err
}

// mark sees one row through, so that connections are open, and the interval after which a cut is made begins anew.
func (b *bench) mark(ctx context.Context, src *source, d *daemon) (*status, error) {
	if _, err := src.conn.Exec(ctx, "INSERT INTO public.marker VALUES (1)"); err != nil {
		return nil, err
	}
	at, err := src.position(ctx)
	if err != nil {
		return nil, err
	}
	return d.await(ctx, func(s *status) bool { return s.Status.Committed >= at })
}

// changes makes the changes and waits until the lake holds them.
func (b *bench) changes(ctx context.Context, w *workload, src *source, d *daemon, r *result) error {
	pid := d.cmd.Process.Pid
	before, err := b.mark(ctx, src, d)
	if err != nil {
		return err
	}
	resetPeak(pid)
	used, err := processTime(pid)
	if err != nil {
		return err
	}
	began := time.Now()
	if r.Changes, err = w.run(ctx, src.conn, b.options.scale); err != nil {
		return fmt.Errorf("changing the source: %w", err)
	}
	r.SourceSeconds = time.Since(began).Seconds()
	last, err := src.position(ctx)
	if err != nil {
		return err
	}
	after, err := d.await(ctx, func(s *status) bool { return s.Status.Committed >= last })
	if err != nil {
		return fmt.Errorf("waiting until the lake holds %s: %w", last, err)
	}
	r.Seconds = time.Since(began).Seconds()
	usedAfter, err := processTime(pid)
	if err != nil {
		return err
	}
	r.CPUSeconds = (usedAfter - used).Seconds()
	if r.PeakBytes, err = peakMemory(pid); err != nil {
		return err
	}
	r.Commits = after.Status.Commits - before.Status.Commits
	r.Store = after.Store.Minus(before.Store)
	return nil
}
