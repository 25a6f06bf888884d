package ducklake

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
	where, arg, ahead := "commit_time", micros(at.Time), at.Time.After(known)
	switch {
	case at.Checkpoint != 0:
		where, arg, ahead = "checkpoint", at.Checkpoint, at.Checkpoint > view.Checkpoint
	case at.Position != 0:
		where, arg, ahead = "position", int64(at.Position), at.Position > view.Position
	}
	if ahead {
		return nil, fmt.Errorf("%s is asked for, but the lake is at checkpoint %d, LSN %s and knows the source up to %s: %w",
			describe(at), view.Checkpoint, view.Position, known.UTC().Format(time.RFC3339Nano), formats.ErrNotYetKnown)
	}
	var past *formats.View
	err := r.catalog.retry(ctx, func() error {
		return r.catalog.reading(ctx, func(tx *transaction) (err error) {
			past, err = r.readPast(tx, view, where, arg)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the lake as of %s: %w", describe(at), err)
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

// readPast turns all tables of a view back, within one catalog transaction.
func (r *Reader) readPast(tx *transaction, view *formats.View, where string, until int64) (*formats.View, error) {
	var number, position, commitTime, snapshot int64
	err := tx.row(`SELECT checkpoint, position, commit_time, snapshot FROM streambed_checkpoints
		WHERE pipeline = $1 AND `+where+` <= $2 AND checkpoint <= $3 ORDER BY checkpoint DESC LIMIT 1`,
		r.pipeline, until, view.Checkpoint).Scan(&number, &position, &commitTime, &snapshot)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	if number != 0 {
		var there int
		if err := tx.row(`SELECT count(*) FROM ducklake_snapshot WHERE snapshot_id = $1`, snapshot).Scan(&there); err != nil {
			return nil, err
		}
		if there == 0 { // its files may be gone, too
			return nil, fmt.Errorf("checkpoint %d is snapshot %d, which another program has expired: %w", number, snapshot, formats.ErrExpired)
		}
	}
	var oldest sql.NullInt64
	if err := tx.row(`SELECT min(checkpoint) FROM streambed_checkpoints WHERE pipeline = $1`, r.pipeline).Scan(&oldest); err != nil {
		return nil, err
	}
	past := &formats.View{Checkpoint: number, Position: lsn.LSN(position), CommitTime: fromMicros(commitTime), Known: fromMicros(commitTime)}
	for _, vt := range view.Tables {
		p, err := parsePointer(vt.Pointer)
		if err != nil {
			return nil, err
		}
		switch {
		case number == 0 && p.Published < oldest.Int64:
			return nil, fmt.Errorf("table %s existed, but only checkpoints from %d on are kept: %w", formatName(vt.Name), oldest.Int64, formats.ErrExpired)
		case p.Published > number:
			continue
		case vt.Snapshot > snapshot:
			if err := r.rewind(tx, &vt, p, snapshot); err != nil {
				return nil, fmt.Errorf("table %s: %w", formatName(vt.Name), err)
			}
		}
		past.Tables = append(past.Tables, vt)
	}
	return past, nil
}

// rewind sets a view's table to what it was at a snapshot.
func (r *Reader) rewind(tx *transaction, vt *formats.ViewTable, p pointer, snapshot int64) error {
	var schemaID int
	var text string
	err := tx.row(`SELECT h.snapshot, h.schema_id, s.body FROM streambed_history h JOIN streambed_schemas s
		ON s.pipeline = h.pipeline AND s.id = h.id AND s.schema_id = h.schema_id
		WHERE h.pipeline = $1 AND h.id = $2 AND h.snapshot <= $3 ORDER BY h.snapshot DESC LIMIT 1`, r.pipeline, p.ID, snapshot).
		Scan(&vt.Snapshot, &schemaID, &text)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("no snapshot at or before %d is kept any more: %w", snapshot, formats.ErrExpired)
	}
	if err != nil {
		return err
	}
	vt.Version = version(p.ID, vt.Snapshot, schemaID)
	vt.Schema, err = r.schema(schemaKey(p.ID, schemaID), text)
	return err
}
