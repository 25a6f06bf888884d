package ducklake

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/types"
)

// Cells are the values of inlined rows as statements take them: int64, bool, string, []byte or nil. What has no safe
// cell, such as nested values, is not inlined.

// inlinable reports whether a table's rows can be inlined, by its columns.
func inlinable(schema *formats.Schema, cols []column, longest int) bool {
	for i := range schema.Columns {
		if schema.Columns[i].Type.Nested() {
			return false
		}
	}
	for _, c := range cols {
		switch fold(c.name) {
		case "row_id", "begin_snapshot", "end_snapshot", "rowid", "snapshot_id":
			return false
		}
		if longest > 0 && len(c.name) > longest {
			return false
		}
	}
	return len(cols) > 0
}

// decodeCells reads the rows of a small data file, in order. ok is false when a value has no cell.
func decodeCells(ctx context.Context, body []byte, schema *formats.Schema) (cells [][]any, ok bool, err error) {
	file, err := parquet.Open(ctx, memoryObject{bytes.NewReader(body)})
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	defaults, release, err := schema.Defaults()
	if err != nil {
		return nil, false, err
	}
	defer release()
	file.SetDefaults(defaults)
	for batch, err := range file.Batches(ctx, schema.Fields()) {
		if err != nil {
			return nil, false, err
		}
		for row := range int(batch.NumRows()) {
			line := make([]any, batch.NumCols())
			for c := range line {
				if line[c], ok = cellOf(schema.Columns[c].Type, batch.Column(c), row); !ok {
					batch.Release()
					return nil, false, nil
				}
			}
			cells = append(cells, line)
		}
		batch.Release()
	}
	return cells, true, nil
}

func cellOf(t types.Type, a arrow.Array, row int) (cell any, ok bool) {
	if a.IsNull(row) {
		return nil, true
	}
	if e, is := a.(array.ExtensionArray); is {
		a = e.Storage()
	}
	switch a := a.(type) {
	case *array.Boolean:
		return a.Value(row), true
	case *array.Int32:
		return int64(a.Value(row)), true
	case *array.Int64:
		return a.Value(row), true
	case *array.Float32:
		return floatCell(float64(a.Value(row)), 32), true
	case *array.Float64:
		return floatCell(a.Value(row), 64), true
	case *array.Decimal128:
		return decimalText(a.Value(row).BigInt(), t.Scale), true
	case *array.String:
		return a.Value(row), true
	case *array.Binary:
		return bytes.Clone(a.Value(row)), true
	case *array.FixedSizeBinary:
		u, err := uuid.FromBytes(a.Value(row))
		return u.String(), err == nil && t.Kind == types.UUID
	case *array.Date32:
		return integerText(t, int64(a.Value(row)))
	case *array.Time64:
		return integerText(t, int64(a.Value(row)))
	case *array.Timestamp:
		return integerText(t, int64(a.Value(row)))
	}
	return nil, false
}

func floatCell(f float64, bits int) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	return strconv.FormatFloat(f, 'g', -1, bits)
}

// cellWriter turns cells into a Parquet file.
type cellWriter struct {
	schema  *formats.Schema
	builder *array.RecordBuilder
	rows    int64
}

func newCellWriter(schema *formats.Schema) *cellWriter {
	return &cellWriter{schema: schema, builder: array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(schema.Fields()))}
}

// add appends a row.
func (w *cellWriter) add(cells []any) error {
	for i, cell := range cells {
		c := &w.schema.Columns[i]
		if err := appendCell(w.builder.Field(i), c.Type, cell); err != nil {
			return fmt.Errorf("inlined value of column %q: %w", c.Name, err)
		}
	}
	w.rows++
	return nil
}

// file encodes what was added; the writer is of no use afterwards.
func (w *cellWriter) file() (body []byte, stats formats.FileStats, err error) {
	defer w.builder.Release()
	var out bytes.Buffer
	p, err := parquet.NewWriter(&out, w.schema.Fields(), parquet.Options{})
	if err != nil {
		return nil, stats, err
	}
	record := w.builder.NewRecordBatch()
	defer record.Release()
	if err := p.Write(record); err != nil {
		return nil, stats, err
	}
	_, _, stats, err = p.Close()
	return out.Bytes(), stats, err
}

// textOf takes what a database gives for a column that is kept as text.
func textOf(cell any) (string, error) {
	switch cell := cell.(type) {
	case string:
		return cell, nil
	case []byte:
		return string(cell), nil
	case float64:
		return strconv.FormatFloat(cell, 'g', -1, 64), nil
	}
	return "", fmt.Errorf("it is a %T in the catalog", cell)
}

func appendCell(b array.Builder, t types.Type, cell any) error {
	if cell == nil {
		b.AppendNull()
		return nil
	}
	switch t.Kind {
	case types.Boolean, types.Int, types.Long:
		return appendInteger(b, cell)
	case types.Binary:
		raw, ok := cell.([]byte)
		if text, is := cell.(string); is {
			raw, ok = []byte(text), true
		}
		if !ok {
			return fmt.Errorf("it is a %T in the catalog", cell)
		}
		b.(*array.BinaryBuilder).Append(raw)
		return nil
	}
	text, err := textOf(cell)
	if err != nil {
		return err
	}
	return appendText(b, t, text)
}

func appendInteger(b array.Builder, cell any) error {
	n, ok := cell.(int64)
	if v, is := cell.(bool); is {
		n, ok = integer(v), true
	}
	if !ok {
		return fmt.Errorf("it is a %T in the catalog", cell)
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(n != 0)
	case *array.Int32Builder:
		b.Append(int32(n))
	case *array.Int64Builder:
		b.Append(n)
	}
	return nil
}

func appendText(b array.Builder, t types.Type, text string) (err error) {
	switch b := b.(type) {
	case *array.StringBuilder:
		b.Append(text)
	case *array.Float32Builder:
		var f float64
		if f, err = strconv.ParseFloat(text, 32); err == nil {
			b.Append(float32(f))
		}
	case *array.Float64Builder:
		var f float64
		if f, err = strconv.ParseFloat(text, 64); err == nil {
			b.Append(f)
		}
	case *array.Decimal128Builder:
		raw, ok := parseDecimal(t, text)
		if !ok {
			return fmt.Errorf("%q is no decimal", text)
		}
		b.Append(decimal128.FromBigInt(fromTwosComplement(raw)))
	case *array.Date32Builder:
		n, ok := parseInteger(t, text)
		if !ok {
			return fmt.Errorf("%q is no date", text)
		}
		b.Append(arrow.Date32(n))
	case *array.Time64Builder:
		n, ok := parseInteger(t, text)
		if !ok {
			return fmt.Errorf("%q is no time", text)
		}
		b.Append(arrow.Time64(n))
	case *array.TimestampBuilder:
		n, ok := parseInteger(t, text)
		if !ok {
			return fmt.Errorf("%q is no timestamp", text)
		}
		b.Append(arrow.Timestamp(n))
	case *extensions.UUIDBuilder:
		u, err := uuid.Parse(text)
		if err != nil {
			return err
		}
		b.Append(u)
	default:
		return fmt.Errorf("it has the type %T, which is not inlined", b)
	}
	return err
}
