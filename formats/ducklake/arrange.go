package ducklake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
	"go.uber.org/zap"
)

// partitionField is a field of a table's partitioning and, of a file, its value.
type partitionField struct {
	Column int64 `json:"column"`
	// Transform is written as in ducklake_partition_column.
	Transform string `json:"transform"`
	// Value is written as in ducklake_file_partition_value; nil for NULL.
	Value *string `json:"value,omitempty"`
}

// arranger splits and sorts rows as a table's Arrangement says.
type arranger struct {
	columns []int
	parts   []arrangedPart
	sorts   []arrangedSort
}

type arrangedPart struct {
	partitionField
	at int // index into columns
	// key is the name that stands before the value in the folder's path.
	key   string
	value func(a arrow.Array, row int) (text string, ok bool)
}

type arrangedSort struct {
	at         int
	t          types.Type
	column     int64
	descending bool
}

// calendar are the transforms that a part of time takes: DuckLake's month is one of twelve, whatever the year, so that a
// month of the calendar is a year and a month.
var calendar = map[string][]string{
	"year": {"year"}, "month": {"year", "month"}, "day": {"year", "month", "day"}, "hour": {"year", "month", "day", "hour"},
}

// newArranger gives the arranger of a schema, nil when rows stay as they come, and what of the arrangement has no meaning
// for the schema, in words.
func newArranger(a formats.Arrangement, schema *formats.Schema) (arr *arranger, without []string) {
	arr = &arranger{}
	find := func(key, name string) (at int, c *formats.Column) {
		i := slices.IndexFunc(schema.Columns, func(c formats.Column) bool { return c.Name == name })
		if i < 0 {
			without = append(without, fmt.Sprintf("%s names column %q, which the table does not have", key, name))
			return 0, nil
		}
		if at = slices.Index(arr.columns, i); at < 0 {
			at = len(arr.columns)
			arr.columns = append(arr.columns, i)
		}
		return at, &schema.Columns[i]
	}
	for _, t := range a.PartitionBy {
		at, c := find("partition_by", t.Column)
		if c == nil {
			continue
		}
		if partitionValue(t.Name, t.Width, c.Type) == nil {
			without = append(without, fmt.Sprintf("partition_by asks for the %s of column %q, whose type %s has none in DuckLake", t.Name, t.Column, c.Type))
			continue
		}
		names := calendar[t.Name]
		if names == nil {
			names = []string{t.Name}
		}
		for _, name := range names {
			part := arrangedPart{partitionField: partitionField{Column: int64(c.ID), Transform: name}, at: at}
			part.value = partitionValue(name, t.Width, c.Type)
			if name == "bucket" {
				part.Transform = "bucket(" + strconv.Itoa(t.Width) + ")"
			}
			if !slices.ContainsFunc(arr.parts, func(p arrangedPart) bool { return p.Column == part.Column && p.Transform == part.Transform }) {
				arr.parts = append(arr.parts, part)
			}
		}
	}
	arr.nameKeys(schema)
	for _, s := range a.SortBy {
		at, c := find("sort_by", s.Column)
		if c == nil {
			continue
		}
		if c.Type.Nested() {
			without = append(without, fmt.Sprintf("sort_by names column %q, whose type %s has no order", s.Column, c.Type))
			continue
		}
		arr.sorts = append(arr.sorts, arrangedSort{at, c.Type, int64(c.ID), s.Descending})
	}
	if len(arr.parts) == 0 && len(arr.sorts) == 0 {
		return nil, without
	}
	return arr, without
}

// Arranger implements formats.Arranging.
func (l *Lake) Arranger(name formats.TableName, schema *formats.Schema) formats.Arranger {
	if arr := l.arranger(name, schema); arr != nil {
		return arr
	}
	return nil
}

// arranger gives what a table's rows are split and sorted by; nil for nothing. What has no meaning for the table, such as
// a column that the source has dropped, is left out and told once.
func (l *Lake) arranger(name formats.TableName, schema *formats.Schema) *arranger {
	a, ok := l.cfg.Arrangements[name]
	if !ok {
		return nil
	}
	arr, without := newArranger(a, schema)
	for _, problem := range without {
		if _, told := l.told.LoadOrStore(formatName(name)+problem, true); !told {
			l.cfg.Log.Warn("a table's files are not laid out as configured: "+problem+"; correct its entry under tables", zap.String("table", formatName(name)))
		}
	}
	return arr
}

// Columns implements formats.Arranger.
func (a *arranger) Columns() []int { return a.columns }

// Arrange implements formats.Arranger.
func (a *arranger) Arrange(record arrow.RecordBatch) ([]formats.ArrangedRows, error) {
	groups, err := a.split(record)
	if err != nil || len(a.sorts) == 0 {
		return groups, err
	}
	keys, err := a.sortKeys(record)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		slices.SortStableFunc(g.Rows, func(x, y int) int { return bytes.Compare(keys[x], keys[y]) })
	}
	return groups, nil
}

// split groups rows by partition. Those of a value that has no text, or no place in a path, make a file of no partition.
func (a *arranger) split(record arrow.RecordBatch) (groups []formats.ArrangedRows, err error) {
	byKey := map[string]int{}
	var key []byte
	fields := make([]partitionField, len(a.parts))
	for i, p := range a.parts {
		fields[i] = p.partitionField
	}
	for row := range int(record.NumRows()) {
		key = key[:0]
		known := true
		for i, p := range a.parts {
			column := record.Column(p.at)
			if column.IsNull(row) {
				key, fields[i].Value = append(key, 0), nil
				continue
			}
			text, ok := p.value(column, row)
			known = known && ok
			key = append(strconv.AppendInt(append(key, 1), int64(len(text)), 10), ':')
			key, fields[i].Value = append(key, text...), &text
		}
		if !known {
			key = append(key[:0], 2)
		}
		g, ok := byKey[string(key)]
		if !ok {
			g = len(groups)
			byKey[string(key)] = g
			partition, folder := "", dataFolder
			if known {
				folder, known = a.folder(fields)
			}
			if known {
				if partition, err = encodePartition(fields); err != nil {
					return nil, err
				}
			}
			groups = append(groups, formats.ArrangedRows{Folder: folder, Partition: partition})
		}
		groups[g].Rows = append(groups[g].Rows, row)
	}
	return groups, nil
}

// sortKeys gives for each row what sorts as its values do.
func (a *arranger) sortKeys(record arrow.RecordBatch) ([][]byte, error) {
	keys := make([][]byte, record.NumRows())
	for row := range keys {
		var key []byte
		for _, s := range a.sorts {
			from := len(key)
			var err error
			if key, err = types.AppendKeyValue(key, s.t, record.Column(s.at), row); err != nil {
				return nil, err
			}
			if s.descending {
				for i := from; i < len(key); i++ {
					key[i] = ^key[i]
				}
			}
		}
		keys[row] = key
	}
	return keys, nil
}

// encodePartition gives the text that stands for a file's partition in formats.DataFile; "" for none.
func encodePartition(fields []partitionField) (string, error) {
	if len(fields) == 0 {
		return "", nil
	}
	text, err := json.Marshal(fields)
	return string(text), err
}

func decodePartition(text string) (fields []partitionField, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &fields)
	}
	return fields, err
}

// plainTime takes the zeros off the end of a time's fraction, as DuckDB writes it.
func plainTime(t types.Type, text string) string {
	if t.Kind != types.Time && t.Kind != types.Timestamp && t.Kind != types.TimestampTZ {
		return text
	}
	text, zone := strings.CutSuffix(text, "+00")
	text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	if zone {
		text += "+00"
	}
	return text
}

// partitionValue gives what tells the text of a transformed value; nil when the type has no such transform.
func partitionValue(transform string, width int, t types.Type) func(arrow.Array, int) (string, bool) {
	switch transform {
	case "identity":
		if t.Nested() || t.Kind == types.Binary {
			return nil
		}
		return func(a arrow.Array, row int) (string, bool) {
			cell, ok := cellOf(t, a, row)
			return plainTime(t, fmt.Sprint(cell)), ok
		}
	case "bucket":
		hash := bucketHash(t)
		if hash == nil || width < 1 {
			return nil
		}
		return func(a arrow.Array, row int) (string, bool) {
			h, ok := hash(a, row)
			return strconv.Itoa(int(h&0x7fffffff) % width), ok
		}
	}
	part := map[string]func(time.Time) int{"year": time.Time.Year, "month": func(t time.Time) int { return int(t.Month()) },
		"day": time.Time.Day, "hour": time.Time.Hour}[transform]
	if part == nil || t.Kind != types.Timestamp && t.Kind != types.TimestampTZ && (t.Kind != types.Date || transform == "hour") {
		return nil
	}
	return func(a arrow.Array, row int) (string, bool) {
		n, ok := integerOf(a, row)
		if _, dated := integerText(t, n); !ok || !dated {
			return "", false // infinite, or of no year that every reader knows
		}
		at := time.UnixMicro(n).UTC()
		if t.Kind == types.Date {
			at = time.Unix(n*86400, 0).UTC()
		}
		return strconv.Itoa(part(at)), true
	}
}
