package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
)

// leafValues gives a leaf's values by row, NULL as nil, down a path of struct fields.
func leafValues(a arrow.Array, path []int) []any {
	values := make([]any, a.Len())
	for row := range values {
		at, null := a, false
		for _, i := range path {
			null = null || at.IsNull(row)
			at = at.(*array.Struct).Field(i)
		}
		if !null && !at.IsNull(row) {
			values[row] = goValue(at, row)
		}
	}
	return values
}

func goValue(a arrow.Array, row int) any {
	switch a := a.(type) {
	case *array.Boolean:
		return a.Value(row)
	case *array.Int32:
		return a.Value(row)
	case *array.Int64:
		return a.Value(row)
	case *array.Date32:
		return int32(a.Value(row))
	case *array.Time64:
		return int64(a.Value(row))
	case *array.Timestamp:
		return int64(a.Value(row))
	case *array.Float32:
		return a.Value(row)
	case *array.Float64:
		return a.Value(row)
	case *array.Decimal128:
		return a.Value(row)
	case *array.String:
		return a.Value(row)
	case *array.Binary:
		return string(a.Value(row))
	case *extensions.UUIDArray:
		v := a.Value(row)
		return string(v[:])
	}
	panic(fmt.Sprintf("no value of %T", a))
}

// boundValue decodes a bound as the table spec says.
func boundValue(t types.Type, b []byte) any {
	switch t.Kind {
	case types.Boolean:
		return b[0] != 0
	case types.Int, types.Date:
		return int32(binary.LittleEndian.Uint32(b))
	case types.Long, types.Time, types.Timestamp, types.TimestampTZ:
		return int64(binary.LittleEndian.Uint64(b))
	case types.Float:
		return math.Float32frombits(binary.LittleEndian.Uint32(b))
	case types.Double:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	case types.Decimal:
		fill := byte(0)
		if b[0] >= 0x80 {
			fill = 0xff
		}
		wide := append(bytes.Repeat([]byte{fill}, 16-len(b)), b...)
		return decimal128.New(int64(binary.BigEndian.Uint64(wide)), binary.BigEndian.Uint64(wide[8:]))
	}
	return string(b)
}

func lessValue(a, b any) bool {
	switch a := a.(type) {
	case bool:
		return !a && b.(bool)
	case int32:
		return a < b.(int32)
	case int64:
		return a < b.(int64)
	case float32:
		return a < b.(float32)
	case float64:
		return a < b.(float64)
	case decimal128.Num:
		return a.Less(b.(decimal128.Num))
	}
	return a.(string) < b.(string)
}

func isNaN(v any) bool {
	switch v := v.(type) {
	case float32:
		return v != v
	case float64:
		return v != v
	}
	return false
}

// checkStats compares a leaf's statistics with its values.
func checkStats(t *testing.T, name string, f types.Field, values []any, s formats.FileStats) {
	t.Helper()
	var nulls, nans int64
	var kept []any
	for _, v := range values {
		switch {
		case v == nil:
			nulls++
		case isNaN(v):
			nans++
		default:
			kept = append(kept, v)
		}
	}
	if s.ValueCounts[f.ID] != int64(len(values)) || s.NullCounts[f.ID] != nulls || s.NaNCounts[f.ID] != nans {
		t.Errorf("%s: %d values, %d NULLs, %d NaNs counted; there are %d, %d, %d", name,
			s.ValueCounts[f.ID], s.NullCounts[f.ID], s.NaNCounts[f.ID], len(values), nulls, nans)
	}
	lower, hasLower := s.Lower[f.ID]
	upper, hasUpper := s.Upper[f.ID]
	if len(kept) == 0 && (hasLower || hasUpper) {
		t.Errorf("%s: bounds over no value", name)
		return
	}
	for _, v := range kept {
		if hasLower && lessValue(v, boundValue(f.Type, lower)) || hasUpper && lessValue(boundValue(f.Type, upper), v) {
			t.Errorf("%s: %v is outside of %x..%x", name, v, lower, upper)
			return
		}
	}
	switch f.Type.Kind {
	case types.JSON, types.Interval, types.UUID:
		return // may have none
	}
	if len(kept) > 0 && !hasLower {
		t.Errorf("%s: there is no lower bound", name)
	}
	least, most := kept, kept
	if len(kept) > 0 {
		least, most = []any{slices.MinFunc(kept, compare)}, []any{slices.MaxFunc(kept, compare)}
	}
	for i := range least {
		if got := boundValue(f.Type, lower); got != truncated(f.Type, least[i]) {
			t.Errorf("%s: the lower bound is %v, the least value %v", name, got, least[i])
		}
		if short(f.Type, most[i]) && (!hasUpper || boundValue(f.Type, upper) != most[i]) {
			t.Errorf("%s: the upper bound is %x, the greatest value %v", name, upper, most[i])
		}
	}
}

func compare(a, b any) int {
	switch {
	case lessValue(a, b):
		return -1
	case lessValue(b, a):
		return 1
	}
	return 0
}

func truncated(t types.Type, v any) any {
	s, ok := v.(string)
	if !ok || t.Kind == types.UUID {
		return v
	}
	if t.Kind == types.Binary {
		return s[:min(len(s), 16)]
	}
	return string([]rune(s)[:min(utf8.RuneCountInString(s), 16)])
}

func short(t types.Type, v any) bool { return truncated(t, v) == v }

// leaves calls f for each leaf that is in no list or map, with the path of struct fields to it.
func leaves(f types.Field, path []int, call func(types.Field, []int)) {
	switch f.Type.Kind {
	case types.List, types.Map:
	case types.Struct:
		for i, child := range f.Type.Fields {
			leaves(child, append(slices.Clone(path), i), call)
		}
	default:
		call(f, path)
	}
}

func TestStatisticsAreThoseOfTheValues(t *testing.T) {
	fields := allFields()
	for seed := range uint64(8) {
		rec := randomRecord(fields, []int{0, 1, 2, 3, 10, 100, 500, 501}[seed], seed)
		data, stats := write(t, fields, Options{RowGroupRows: 100}, rec)
		seen := 0
		for i, f := range fields {
			leaves(f, nil, func(leaf types.Field, path []int) {
				seen++
				checkStats(t, fmt.Sprintf("%q %v (%d rows)", f.Name, path, rec.NumRows()), leaf, leafValues(rec.Column(i), path), stats)
			})
		}
		if len(stats.ValueCounts) != seen {
			t.Errorf("%d leaves have counts, not %d: leaves in lists must have none", len(stats.ValueCounts), seen)
		}
		if rec.NumRows() > 0 {
			var total int64
			for size := range maps.Values(stats.ColumnSizes) {
				total += size
			}
			if total <= 0 || total > int64(len(data)) {
				t.Errorf("the columns have %d bytes in a file of %d", total, len(data))
			}
			if want := int(rec.NumRows()+99) / 100; len(stats.SplitOffsets) != want || stats.SplitOffsets[0] != 4 || !slices.IsSorted(stats.SplitOffsets) {
				t.Errorf("the split offsets are %v", stats.SplitOffsets)
			}
		}
	}
}

func column1(t testing.TB, kind types.Kind, fill func(array.Builder)) ([]types.Field, arrow.RecordBatch) {
	t.Helper()
	fields := []types.Field{{ID: 1, Name: "v", Type: types.Type{Kind: kind}}}
	b := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(fields))
	defer b.Release()
	fill(b.Field(0))
	return fields, b.NewRecordBatch()
}

func TestFloatBoundsHoldForReadersOfBothZeros(t *testing.T) {
	for _, c := range []struct {
		values       []float64
		lower, upper float64
		none         bool
		nans         int64
	}{
		{[]float64{0}, math.Copysign(0, -1), 0, false, 0},
		{[]float64{math.Copysign(0, -1)}, math.Copysign(0, -1), 0, false, 0},
		{[]float64{math.NaN(), 1, math.Inf(-1)}, math.Inf(-1), 1, false, 1},
		{[]float64{math.NaN(), math.NaN()}, 0, 0, true, 2},
	} {
		fields, rec := column1(t, types.Double, func(b array.Builder) { b.(*array.Float64Builder).AppendValues(c.values, nil) })
		_, stats := write(t, fields, Options{}, rec)
		if stats.NaNCounts[1] != c.nans || len(stats.Lower)+len(stats.Upper) == 0 != c.none {
			t.Errorf("%v: %d NaNs, bounds %v %v", c.values, stats.NaNCounts[1], stats.Lower, stats.Upper)
		}
		if c.none {
			continue
		}
		lower, upper := boundValue(fields[0].Type, stats.Lower[1]).(float64), boundValue(fields[0].Type, stats.Upper[1]).(float64)
		if math.Float64bits(lower) != math.Float64bits(c.lower) || math.Float64bits(upper) != math.Float64bits(c.upper) {
			t.Errorf("%v: the bounds are %v and %v", c.values, lower, upper)
		}
	}
}

func TestLongTextBoundsAreCutAtCodePointsAndRaised(t *testing.T) {
	last := string(rune(utf8.MaxRune))
	for _, c := range []struct {
		values       []string
		lower, upper string
		open         bool // no upper bound
	}{
		{[]string{"abcdefghijklmnop"}, "abcdefghijklmnop", "abcdefghijklmnop", false},
		{[]string{"abcdefghijklmnopq"}, "abcdefghijklmnop", "abcdefghijklmnoq", false},
		{[]string{"abcdefghijklmnopq", "abcdefghijklmnop"}, "abcdefghijklmnop", "abcdefghijklmnoq", false},
		{[]string{"abcdefghijklmnop", "abcdefghijklmnopq"}, "abcdefghijklmnop", "abcdefghijklmnoq", false},
		{[]string{"abcdefghijklmnopq", "b"}, "abcdefghijklmnop", "b", false},
		{[]string{strings.Repeat("é", 17)}, strings.Repeat("é", 16), strings.Repeat("é", 15) + "ê", false},
		{[]string{strings.Repeat("a", 15) + last + "x"}, strings.Repeat("a", 15) + last, strings.Repeat("a", 14) + "b", false},
		{[]string{strings.Repeat(last, 17)}, strings.Repeat(last, 16), "", true},
		{[]string{strings.Repeat(last, 16)}, strings.Repeat(last, 16), strings.Repeat(last, 16), false},
		{[]string{strings.Repeat("a", 15) + "\ud7ffx"}, strings.Repeat("a", 15) + "\ud7ff", strings.Repeat("a", 15) + "\ue000", false},
		{[]string{""}, "", "", false},
		{[]string{"", strings.Repeat("z", 100000)}, "", strings.Repeat("z", 15) + "{", false},
	} {
		fields, rec := column1(t, types.String, func(b array.Builder) { b.(*array.StringBuilder).AppendValues(c.values, nil) })
		_, stats := write(t, fields, Options{}, rec)
		upper, has := stats.Upper[1]
		if string(stats.Lower[1]) != c.lower || stats.Lower[1] == nil || has == c.open || string(upper) != c.upper {
			t.Errorf("%.40q: the bounds are %q and %q (%v)", c.values, stats.Lower[1], upper, has)
		}
	}
}

func TestLongBinaryBoundsAreRaised(t *testing.T) {
	ff := strings.Repeat("\xff", 16)
	for _, c := range []struct {
		value, upper string
		open         bool
	}{
		{ff, ff, false}, {ff + "\x00", "", true}, {"a" + ff, "b", false}, {strings.Repeat("\x00", 17), strings.Repeat("\x00", 15) + "\x01", false},
	} {
		fields, rec := column1(t, types.Binary, func(b array.Builder) { b.(*array.BinaryBuilder).Append([]byte(c.value)) })
		_, stats := write(t, fields, Options{}, rec)
		upper, has := stats.Upper[1]
		if has == c.open || string(upper) != c.upper {
			t.Errorf("%x: the upper bound is %x (%v)", c.value, upper, has)
		}
	}
}

func TestUUIDBoundsAreLeftOutWhereReadersDisagree(t *testing.T) {
	for _, c := range []struct {
		values [][16]byte
		has    bool
	}{
		{[][16]byte{{0x01}, {0x7f}}, true},
		{[][16]byte{{0x80}, {0xff}}, true},
		{[][16]byte{{0x7f}, {0x80}}, false},
		{[][16]byte{{8: 0x7f}, {8: 0x80}}, false},
	} {
		fields, rec := column1(t, types.UUID, func(b array.Builder) {
			for _, v := range c.values {
				b.(*extensions.UUIDBuilder).AppendBytes(v)
			}
		})
		_, stats := write(t, fields, Options{}, rec)
		if _, has := stats.Lower[1]; has != c.has || has != (stats.Upper[1] != nil) {
			t.Errorf("%x: bounds %x %x", c.values, stats.Lower[1], stats.Upper[1])
		}
	}
}

func TestDecimalBoundsAreMinimalTwosComplement(t *testing.T) {
	for value, want := range map[int64][]byte{
		0: {0}, 1: {1}, -1: {0xff}, 127: {0x7f}, 128: {0, 0x80}, -128: {0x80}, -129: {0xff, 0x7f}, 255: {0, 0xff}, 32768: {0, 0x80, 0},
	} {
		if got := decimalBytes(decimal128.FromI64(value)); !bytes.Equal(got, want) {
			t.Errorf("%d is %x, not %x", value, got, want)
		}
	}
}

// TestIcebergReadsTheBounds decodes bounds with the Iceberg library.
func TestIcebergReadsTheBounds(t *testing.T) {
	icebergTypes := map[types.Kind]iceberg.Type{
		types.Boolean: iceberg.PrimitiveTypes.Bool, types.Int: iceberg.PrimitiveTypes.Int32, types.Long: iceberg.PrimitiveTypes.Int64,
		types.Float: iceberg.PrimitiveTypes.Float32, types.Double: iceberg.PrimitiveTypes.Float64, types.String: iceberg.PrimitiveTypes.String,
		types.Binary: iceberg.PrimitiveTypes.Binary, types.UUID: iceberg.PrimitiveTypes.UUID, types.Date: iceberg.PrimitiveTypes.Date,
		types.Time: iceberg.PrimitiveTypes.Time, types.Timestamp: iceberg.PrimitiveTypes.Timestamp, types.TimestampTZ: iceberg.PrimitiveTypes.TimestampTz,
	}
	var fields []types.Field
	for _, typ := range scalarTypes() {
		fields = append(fields, types.Field{Name: fmt.Sprintf("c%d", len(fields)), Type: typ})
	}
	fields = numbered(fields)
	rec := randomRecord(fields, 3, 7)
	_, stats := write(t, fields, Options{}, rec)
	for _, f := range fields {
		typ := icebergTypes[f.Type.Kind]
		if f.Type.Kind == types.Decimal {
			typ = iceberg.DecimalTypeOf(f.Type.Precision, f.Type.Scale)
		}
		for _, bound := range [][]byte{stats.Lower[f.ID], stats.Upper[f.ID]} {
			if bound == nil {
				continue
			}
			literal, err := iceberg.LiteralFromBytes(typ, bound)
			if err != nil {
				t.Errorf("%s: Iceberg does not read the bound %x: %v", f.Type, bound, err)
				continue
			}
			again, err := literal.MarshalBinary()
			if err != nil || !bytes.Equal(again, bound) {
				t.Errorf("%s: Iceberg writes the bound %x as %x (%v)", f.Type, bound, again, err)
			}
		}
	}
}
