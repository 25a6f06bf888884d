package verify

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/types"
)

// lakeRow is called for each live row of the lake; rec has the shape's columns.
type lakeRow func(rec arrow.RecordBatch, row int) error

// readLake reads all live rows of the table at a view.
func (v *verifier) readLake(ctx context.Context, view *formats.View, f lakeRow) error {
	return v.eachFile(ctx, view, func(file *parquet.File, plan formats.ScanFile) error {
		return eachRow(ctx, file, plan, v.shape.fields, func(_ int64, rec arrow.RecordBatch, row int) error { return f(rec, row) })
	})
}

// eachFile opens the table's data files at a view, one after the other.
func (v *verifier) eachFile(ctx context.Context, view *formats.View, f func(*parquet.File, formats.ScanFile) error) error {
	plan, err := v.o.Reader.Plan(ctx, view, v.o.Table)
	if err != nil {
		return err
	}
	defaults, release, err := plan.Schema.Defaults()
	if err != nil {
		return err
	}
	defer release()
	for _, scan := range plan.Files {
		if err := v.openFile(ctx, scan, defaults, f); err != nil {
			return fmt.Errorf("data file %s: %w", scan.Path, err)
		}
	}
	return nil
}

func (v *verifier) openFile(ctx context.Context, scan formats.ScanFile, defaults map[int]arrow.Array, f func(*parquet.File, formats.ScanFile) error) error {
	object, err := v.o.Store.Open(ctx, scan.Path)
	if err != nil {
		return err
	}
	file, err := parquet.Open(ctx, object)
	if err != nil {
		return err
	}
	defer file.Close()
	if file.Rows() != scan.Rows {
		return fmt.Errorf("it has %d rows, and the table's metadata says %d", file.Rows(), scan.Rows)
	}
	file.SetDefaults(defaults)
	return f(file, scan)
}

// eachRow calls f with the position and the columns of each live row of a file.
func eachRow(ctx context.Context, file *parquet.File, scan formats.ScanFile, fields []types.Field, f func(position int64, rec arrow.RecordBatch, row int) error) error {
	position := int64(0)
	for rec, err := range file.Batches(ctx, fields) {
		if err != nil {
			return err
		}
		for row := range int(rec.NumRows()) {
			if scan.Deleted == nil || !scan.Deleted.Contains(uint32(position)) {
				if err = f(position, rec, row); err != nil {
					break
				}
			}
			position++
		}
		rec.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// readLakeRows reads the lake's live rows whose identity is wanted. Of a table with a key only the keys are read whole.
func (v *verifier) readLakeRows(ctx context.Context, view *formats.View, wanted func(digest) bool, f lakeRow) error {
	h := &hasher{shape: v.shape}
	if !v.shape.keyed {
		return v.readLake(ctx, view, func(rec arrow.RecordBatch, row int) error {
			identity, _, err := h.row(rec, row)
			if err != nil || !wanted(identity) {
				return err
			}
			return f(rec, row)
		})
	}
	keys := v.shape.keysOnly()
	h.shape = keys
	return v.eachFile(ctx, view, func(file *parquet.File, scan formats.ScanFile) error {
		var positions []int64
		err := eachRow(ctx, file, scan, keys.fields, func(position int64, rec arrow.RecordBatch, row int) error {
			identity, _, err := h.row(rec, row)
			if err == nil && wanted(identity) {
				positions = append(positions, position)
			}
			return err
		})
		if err != nil {
			return err
		}
		for len(positions) > 0 {
			n := min(recordRows, len(positions))
			rec, err := file.Take(ctx, v.shape.fields, positions[:n])
			if err != nil {
				return err
			}
			for row := 0; row < n && err == nil; row++ {
				err = f(rec, row)
			}
			rec.Release()
			if err != nil {
				return err
			}
			positions = positions[n:]
		}
		return nil
	})
}

// keysOnly is the shape of the key's columns alone.
func (s *shape) keysOnly() *shape {
	k := &shape{keyed: true}
	for i, c := range s.schema.Key {
		k.fields = append(k.fields, s.fields[c])
		k.identity = append(k.identity, i)
	}
	return k
}
