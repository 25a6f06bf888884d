package oracle

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
)

// rowsOf counts rows by their values, encoded so that rows are equal exactly when their encodings are.
type rowsOf map[string]int

// content is a table's rows, with the text of some for people.
type content struct {
	rows  rowsOf
	shown map[string]string
	count int
	// without are the ids of fields that are left out.
	without map[int]bool
	// equalZeros takes negative zeros for positive ones: DuckDB's Parquet writer, which writes what DuckDB flushes, merges
	// and rewrites, keeps one of the two for both when it makes a dictionary.
	equalZeros bool
}

func newContent(equalZeros bool) *content {
	return &content{rows: rowsOf{}, shown: map[string]string{}, equalZeros: equalZeros}
}

// isZero tells whether a value is a floating-point zero of either sign.
func isZero(a arrow.Array, row int) bool {
	switch a := a.(type) {
	case *array.Float32:
		return a.IsValid(row) && a.Value(row) == 0
	case *array.Float64:
		return a.IsValid(row) && a.Value(row) == 0
	}
	return false
}

// add takes up the row-th row of a record of the fields.
func (c *content) add(fields []types.Field, rec arrow.RecordBatch, row int) error {
	var key []byte
	var err error
	for i, f := range fields {
		if c.without[f.ID] {
			continue
		}
		if c.equalZeros && isZero(rec.Column(i), row) {
			key = append(key, "zero"...)
			continue
		}
		if key, err = types.AppendKeyValue(key, f.Type, rec.Column(i), row); err != nil {
			return fmt.Errorf("column %q: %w", f.Name, err)
		}
	}
	if c.rows[string(key)]++; c.shown[string(key)] == "" {
		text := make([]string, len(fields))
		for i, f := range fields {
			value := rec.Column(i).ValueStr(row)
			if len(value) > 40 {
				value = fmt.Sprintf("%.40s...(%d)", value, len(value))
			}
			text[i] = f.Name + "=" + value
		}
		c.shown[string(key)] = strings.Join(text, " ")
	}
	c.count++
	return nil
}

// difference tells some rows that only one of two contents has; "" when they are equal.
func difference(source, lake *content) string {
	var lines []string
	for row, n := range source.rows {
		if d := n - lake.rows[row]; d > 0 {
			lines = append(lines, fmt.Sprintf("missing in the lake %d times: %s", d, source.shown[row]))
		}
	}
	for row, n := range lake.rows {
		if d := n - source.rows[row]; d > 0 {
			lines = append(lines, fmt.Sprintf("only in the lake %d times: %s", d, lake.shown[row]))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	sort.Strings(lines) // what is missing comes first: some of either are shown
	shown := lines
	if len(lines) > 12 {
		shown = append(slices.Clone(lines[:6]), lines[len(lines)-6:]...)
	}
	return fmt.Sprintf("source %d rows, lake %d rows, %d differ:\n  %s", source.count, lake.count, len(lines), strings.Join(shown, "\n  "))
}

// find gives a view's table; nil when it does not show it.
func find(view *formats.View, name string) *formats.ViewTable {
	for i := range view.Tables {
		if t := &view.Tables[i]; t.Name.Schema == "public" && t.Name.Table == name {
			return t
		}
	}
	return nil
}

// lake reads the lake as any reader would: by its plan, columns by field id, without the deleted positions.
type lake struct {
	reader formats.Reader
	store  storage.Store
	// equalZeros is that of the contents.
	equalZeros bool
}

// each calls f with the live rows of a table at a view, in records of the plan's fields.
func (l *lake) each(ctx context.Context, view *formats.View, name string, f func(fields []types.Field, rec arrow.RecordBatch, row int) error) error {
	plan, err := l.reader.Plan(ctx, view, formats.TableName{Schema: "public", Table: name})
	if err != nil {
		return fmt.Errorf("plan of table %s at checkpoint %d: %w", name, view.Checkpoint, err)
	}
	defaults, release, err := plan.Schema.Defaults()
	if err != nil {
		return fmt.Errorf("table %s: %w", name, err)
	}
	defer release()
	fields := plan.Schema.Fields()
	for _, file := range plan.Files {
		if err := l.file(ctx, file, fields, defaults, f); err != nil {
			return fmt.Errorf("table %s at checkpoint %d, file %s: %w", name, view.Checkpoint, file.Path, err)
		}
	}
	return nil
}

func (l *lake) file(ctx context.Context, scan formats.ScanFile, fields []types.Field, defaults map[int]arrow.Array, f func([]types.Field, arrow.RecordBatch, int) error) error {
	object, err := l.store.Open(ctx, scan.Path)
	if err != nil {
		return err
	}
	file, err := parquet.Open(ctx, object)
	if err != nil {
		return err
	}
	defer file.Close()
	if file.Rows() != scan.Rows {
		return fmt.Errorf("it has %d rows, its metadata says %d", file.Rows(), scan.Rows)
	}
	if scan.Deleted != nil && !scan.Deleted.IsEmpty() && int64(scan.Deleted.Maximum()) >= scan.Rows {
		return fmt.Errorf("position %d of %d rows is deleted", scan.Deleted.Maximum(), scan.Rows)
	}
	file.SetDefaults(defaults)
	position := uint32(0)
	for rec, err := range file.Batches(ctx, fields) {
		if err != nil {
			return err
		}
		for row := 0; row < int(rec.NumRows()) && err == nil; row++ {
			if scan.Deleted == nil || !scan.Deleted.Contains(position) {
				err = f(fields, rec, row)
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

// content reads a whole table at a view.
func (l *lake) content(ctx context.Context, view *formats.View, name string) (*content, error) {
	c := newContent(l.equalZeros)
	return c, l.each(ctx, view, name, c.add)
}
