package iceberg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/lsn"
)

// At gives the tables of view as of the newest kept checkpoint that is not after the point.
func (r *Reader) At(ctx context.Context, view *formats.View, at formats.Point) (*formats.View, error) {
	known := view.Known
	if view.CommitTime.After(known) {
		known = view.CommitTime
	}
	where, arg, ahead := "", int64(0), false
	switch {
	case at.Checkpoint != 0:
		where, arg, ahead = "checkpoint", at.Checkpoint, at.Checkpoint > view.Checkpoint
	case at.Position != 0:
		where, arg, ahead = "position", int64(at.Position), at.Position > view.Position
	default:
		where, arg, ahead = "commit_time", micros(at.Time), at.Time.After(known)
	}
	if ahead {
		return nil, fmt.Errorf("%s is asked for, but the lake is at checkpoint %d, LSN %s and knows the source up to %s: %w",
			describe(at), view.Checkpoint, view.Position, known.UTC().Format(time.RFC3339Nano), formats.ErrNotYetKnown)
	}
	var c checkpoint
	var oldest sql.NullInt64
	err := r.catalog.retry(ctx, func() (err error) {
		c, oldest, err = r.findCheckpoint(ctx, where, arg, view.Checkpoint)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot look up %s in the catalog: %w", describe(at), err)
	}
	past := &formats.View{Checkpoint: c.number, Position: c.position, CommitTime: c.commitTime, Known: c.commitTime}
	for _, vt := range view.Tables {
		exists, err := r.asOf(ctx, &vt, c.number, oldest.Int64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", describe(at), err)
		}
		if exists {
			past.Tables = append(past.Tables, vt)
		}
	}
	return past, nil
}

func describe(at formats.Point) string {
	switch {
	case at.Checkpoint != 0:
		return fmt.Sprintf("checkpoint %d", at.Checkpoint)
	case at.Position != 0:
		return "LSN " + at.Position.String()
	}
	return "the time " + at.Time.UTC().Format(time.RFC3339Nano)
}

// findCheckpoint gives the newest kept checkpoint at a point, zero when there is none, and the oldest of all.
func (r *Reader) findCheckpoint(ctx context.Context, column string, until, limit int64) (c checkpoint, oldest sql.NullInt64, err error) {
	var position, commitTime int64
	err = r.catalog.read.QueryRowContext(ctx, `SELECT checkpoint, position, commit_time FROM streambed_checkpoints
		WHERE pipeline = $1 AND `+column+` <= $2 AND checkpoint <= $3 ORDER BY checkpoint DESC LIMIT 1`,
		r.pipeline, until, limit).Scan(&c.number, &position, &commitTime)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return c, oldest, err
	}
	c.position, c.commitTime = lsn.LSN(position), fromMicros(commitTime)
	err = r.catalog.read.QueryRowContext(ctx, `SELECT min(checkpoint) FROM streambed_checkpoints WHERE pipeline = $1`, r.pipeline).Scan(&oldest)
	return c, oldest, err
}

// asOf turns a table back to a checkpoint. It is false when the table did not exist then.
func (r *Reader) asOf(ctx context.Context, vt *formats.ViewTable, number, oldest int64) (bool, error) {
	h, ok := r.heads.Get(vt.Version)
	if !ok {
		md, err := r.readMetadata(ctx, vt.Pointer)
		if err != nil {
			return false, fmt.Errorf("table %s: %w", formatName(vt.Name), err)
		}
		s := md.byID(vt.Snapshot)
		if s == nil {
			return false, fmt.Errorf("table %s has no snapshot %d any more: %w", formatName(vt.Name), vt.Snapshot, formats.ErrExpired)
		}
		h = head{Snapshot: s.ID, List: s.list, Schema: s.schemaID, Checkpoint: s.Checkpoint, Published: md.published}
	}
	switch {
	case number == 0 && h.Published < oldest:
		return false, fmt.Errorf("table %s existed, but only checkpoints from %d on are kept: %w", formatName(vt.Name), oldest, formats.ErrExpired)
	case h.Published > number:
		return false, nil
	case h.Checkpoint <= number:
		return true, nil
	}
	md, err := r.readMetadata(ctx, vt.Pointer)
	if err != nil {
		return false, fmt.Errorf("table %s: %w", formatName(vt.Name), err)
	}
	i := len(md.snapshots) - 1
	for i >= 0 && md.snapshots[i].Checkpoint > number {
		i--
	}
	if i < 0 {
		return false, fmt.Errorf("table %s has no snapshot of checkpoint %d any more: %w", formatName(vt.Name), number, formats.ErrExpired)
	}
	return true, r.rewind(vt, md, &md.snapshots[i])
}
