package source

import (
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
)

// Table is a source table as its catalog has it at one moment. Only what the publication lets through is in it.
type Table struct {
	// OID is pg_class.oid; of a partitioned table the root's, under which its rows come.
	OID  uint32
	Name formats.TableName
	// Partitioned tells that the table has no rows of its own: they are in its Leaves.
	Partitioned bool
	// Identity is pg_class.relreplident (d default, n nothing, f full, i index) as it holds for the old tuples that the
	// stream sends: that of a partitioned table is f only if all its leaves' is, since each leaf logs by its own.
	Identity byte
	// Filenode is pg_class.relfilenode: it changes when the table is rewritten or truncated. Of a partitioned table it
	// is made of its leaves', and changes with any of them and when one comes or goes; 0 without leaves.
	Filenode uint32
	// LastAttnum is pg_class.relnatts: the highest attnum ever given to a column, which each new one raises.
	LastAttnum int16
	// Columns are the columns that the stream sends, in the order of attnum.
	Columns []Column
	// Excluded are those that the stream sends and the lake leaves out.
	Excluded []Column
	KeyKind  formats.KeyKind
	// Key are indexes into Columns, in key order; empty with KeyFullRow and KeyNone.
	Key []int
	// AppendOnly tells that updates and deletes do not come: the table has no usable identity, or its publication does
	// not publish them.
	AppendOnly bool
	// Leaves are the partitions that hold rows, at any depth, by oid; nil for an ordinary table.
	Leaves []Leaf
	// Pages, EstimatedRows and EstimatedBytes are the planner's estimates, sums over Leaves; 0 when never analyzed.
	Pages          uint32
	EstimatedRows  int64
	EstimatedBytes int64
	// Publication is the publication that the table is in, "" when it is in none yet. Target is the one that it belongs
	// in: AddTable moves it there. They are equal with a user's own publication.
	Publication, Target string
	// Filter is the publication's row filter as an SQL expression, "" without; a copy must apply it.
	Filter string
	// Fingerprint changes whenever the publication's promise for this table has changed, be it for a moment: rows may
	// then be missing from the stream (dropped and added again, other filter or columns). It also names the table's own
	// settings (Config.Columns).
	Fingerprint string
}

// Column is one column of a source table.
type Column struct {
	// Attnum is pg_attribute.attnum, Xmin that row's xmin, which every ALTER of the column changes.
	Attnum int16
	Xmin   uint32
	Name   string
	Type   types.Postgres
	// Numeric is the type in the lake that the settings give a numeric column without precision; its zero value for none.
	Numeric types.Type
	// NotNull is the constraint; Generated is a generated column, stored, that the publication publishes.
	NotNull   bool
	Generated bool
	// Missing is the constant, in text form, that rows from before the column was added read (attmissingval); nil is
	// NULL, or that the table was rewritten since.
	Missing *string
	// Toastable tells that the stream may leave an unchanged value out.
	Toastable bool
}

// Leaf is a partition that holds rows. Its columns have the root's names, in any order.
type Leaf struct {
	OID      uint32
	Name     formats.TableName
	Filenode uint32
	// Pages and Rows are the planner's estimates.
	Pages uint32
	Rows  int64
}

// Schema builds the lake's schema of the table. previous is the lake's present schema, nil for a new table. A column
// that was there before (the same attnum, whose lake type is the same or a promotion of it) keeps its field id; every
// other one gets a new one, so that dropped columns never come back (ids are never reused). The result's ID is one above
// previous's.
func (t *Table) Schema(o types.Options, previous *formats.Schema) formats.Schema {
	s := formats.Schema{KeyKind: t.KeyKind, Key: append([]int(nil), t.Key...), Columns: make([]formats.Column, len(t.Columns))}
	if previous != nil {
		s.ID, s.LastFieldID = previous.ID+1, previous.LastFieldID
	}
	key := make(map[int]bool, len(t.Key))
	for _, i := range t.Key {
		key[i] = true
	}
	next := s.LastFieldID + 1
	var fresh []int
	for i, c := range t.Columns {
		o := o
		if c.Numeric.Kind != 0 {
			o.Numeric = c.Numeric
		}
		column := formats.Column{Attnum: c.Attnum, Source: c.Type, Xmin: c.Xmin}
		column.Name, column.Type = c.Name, types.Lake(c.Type, o, key[i])
		column.Required = key[i]
		if before := columnBefore(previous, c.Attnum); before != nil && before.Type.Promotes(column.Type) {
			column.ID, column.Default = before.ID, before.Default
			column.Type = keepIDs(before.Type, column.Type)
			// Rows without a value may be in older files: a column never becomes required.
			column.Required = column.Required && before.Required
		} else {
			if previous != nil {
				column.Default, column.Required = c.Missing, false
			}
			fresh = append(fresh, i)
		}
		s.Columns[i] = column
	}
	// Columns first, then what is nested in them, as Iceberg numbers them.
	for _, i := range fresh {
		s.Columns[i].ID = next
		next++
	}
	for _, i := range fresh {
		s.Columns[i].Type = types.AssignIDs(s.Columns[i].Type, &next)
	}
	s.LastFieldID = next - 1
	return s
}

func columnBefore(previous *formats.Schema, attnum int16) *formats.Column {
	if previous == nil {
		return nil
	}
	for i := range previous.Columns {
		if previous.Columns[i].Attnum == attnum {
			return &previous.Columns[i]
		}
	}
	return nil
}

// keepIDs gives type now the field ids of before, which promotes to it and so has the same shape.
func keepIDs(before, now types.Type) types.Type {
	if len(now.Fields) == 0 {
		return now
	}
	fields := make([]types.Field, len(now.Fields))
	for i, f := range now.Fields {
		f.ID = before.Fields[i].ID
		f.Type = keepIDs(before.Fields[i].Type, f.Type)
		fields[i] = f
	}
	now.Fields = fields
	return now
}
