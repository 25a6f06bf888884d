// Package formats says what a table format must do for Streambed: hold tables, take checkpoints of all of them at
// once, and plan scans. It knows neither Postgres' wire protocol nor the pipeline's stages.
package formats

import (
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/lsn"
)

// TableName is a source table's name; each part is any identifier that Postgres allows.
type TableName struct {
	Schema string `json:"schema"`
	Table  string `json:"table"`
}

// KeyKind says what identifies a row of a table.
type KeyKind string

// The kinds of keys. KeyFullRow compares whole rows (REPLICA IDENTITY FULL without a key), KeyNone marks a table that
// only takes inserts and truncates.
const (
	KeyPrimary  KeyKind = "primary"
	KeyIdentity KeyKind = "identity"
	KeyFullRow  KeyKind = "row"
	KeyNone     KeyKind = "none"
)

// Column is one column of a lake table and where it comes from.
type Column struct {
	types.Field
	// Attnum is the source's pg_attribute.attnum, which outlives renames.
	Attnum int16 `json:"attnum"`
	// Source is the column's type in Postgres.
	Source types.Postgres `json:"source"`
	// Xmin is the xmin of the column's pg_attribute row: it changes with every ALTER of the column.
	Xmin uint32 `json:"xmin,omitempty"`
	// Default is the constant that rows written before the column was added read, in Postgres' text form; nil for NULL.
	Default *string `json:"default,omitempty"`
}

// Schema is a table's columns in the source's order (attnum).
type Schema struct {
	// ID numbers a table's schemas from 0; a new one per change.
	ID      int      `json:"id"`
	Columns []Column `json:"columns"`
	KeyKind KeyKind  `json:"key_kind"`
	// Key are the indexes into Columns of the key's columns, in key order; empty with KeyFullRow and KeyNone.
	Key []int `json:"key,omitempty"`
	// LastFieldID is the highest field ID ever given out in this table, nested fields included.
	LastFieldID int `json:"last_field_id"`
}

// Fields gives the columns as lake fields; it shares their memory.
func (s *Schema) Fields() []types.Field {
	fields := make([]types.Field, len(s.Columns))
	for i, c := range s.Columns {
		fields[i] = c.Field
	}
	return fields
}

// TableRef identifies one incarnation of a lake table: a resync makes a new one beside the old.
type TableRef struct {
	// ID is unique for ever; it names the incarnation in the state, the key index and the location.
	ID   string    `json:"id"`
	Name TableName `json:"name"`
	// Location is the folder of its files, a URI under the warehouse without a slash at its end.
	Location string `json:"location"`
}

// Phase is where a table incarnation stands.
type Phase string

// The phases. A copying incarnation is invisible to readers; live is the one they see; dropped ones are gone at the
// source and kept only until cleanup.
const (
	Copying Phase = "copying"
	Live    Phase = "live"
	Dropped Phase = "dropped"
)

// DataFile is an uploaded Parquet file.
type DataFile struct {
	// Path is the file's full URI under the table's location.
	Path string `json:"path"`
	Rows int64  `json:"rows"`
	// Size is in bytes.
	Size  int64     `json:"size"`
	Stats FileStats `json:"stats"`
	// Partition is the partition that all rows are of, in the lake's own form (see Arranger); "" where that is not known.
	Partition string `json:"partition,omitempty"`
}

// KeyFile is an uploaded Parquet file of keys: each row is the key of a deleted row, as the lake holds it.
type KeyFile struct {
	DataFile
	// Fields are the field ids of its columns.
	Fields []int `json:"fields"`
}

// FileStats are a data file's column statistics by field id, leaf fields only. Bounds are in Iceberg's single-value
// serialization (table spec, appendix D), may be truncated for long values (lower bounds down, upper bounds up) and
// are absent where unknown. Missing entries never prune.
type FileStats struct {
	ColumnSizes  map[int]int64  `json:"-"`
	ValueCounts  map[int]int64  `json:"-"`
	NullCounts   map[int]int64  `json:"-"`
	NaNCounts    map[int]int64  `json:"-"`
	Lower        map[int][]byte `json:"-"`
	Upper        map[int][]byte `json:"-"`
	SplitOffsets []int64        `json:"-"`
}

// TableChange is what one checkpoint does to one table, as one snapshot.
type TableChange struct {
	Table TableRef
	// Schema is the table's schema from this checkpoint on; nil when unchanged. Required with Create.
	Schema *Schema
	// Create makes the incarnation, empty and invisible (Copying), before the rest is applied.
	Create bool
	// Truncate removes every file that was live before this checkpoint; Add and Deletes come after it.
	Truncate bool
	// Add are new files; none of them was committed before.
	Add []DataFile
	// Deletes are rows newly deleted: data file path (live, or in Add) -> positions, from 0, in any order, each once.
	Deletes map[string]*roaring.Bitmap
	// Keys are uploaded files that name deleted rows of older checkpoints by key, for a lake that asks for them (see
	// KeyDeleter), and Keyed the rows of Deletes that they name: no other row of an older checkpoint has one of the keys.
	// Deletes is complete without them.
	Keys  []KeyFile
	Keyed map[string]*roaring.Bitmap
	// Publish makes the incarnation the one that readers see under its name. Its history begins here: older snapshots
	// of the incarnation are dropped from its metadata. An incarnation that was live under the name is replaced.
	Publish bool
	// Unpublish takes the table away from readers (dropped at the source, or cleanup).
	Unpublish bool
}

// Empty reports whether the change would leave the table as it is.
func (c *TableChange) Empty() bool {
	return c.Schema == nil && !c.Create && !c.Truncate && len(c.Add) == 0 && len(c.Deletes) == 0 && !c.Publish && !c.Unpublish
}

// Checkpoint moves all tables of a pipeline and its state from one position to the next in one step.
type Checkpoint struct {
	// Number counts a pipeline's checkpoints from 1 without gaps.
	Number int64
	// From is the position that must be the current one, To the new one; equal when only tables or state move.
	From, To lsn.LSN
	// CommitTime is the source commit time of the newest transaction held (running maximum), Known the latest source
	// time up to which the lake is known to be complete (>= CommitTime on an idle source).
	CommitTime, Known time.Time
	Changes           []TableChange
	// States are state rows to write, by incarnation; Forget names incarnations whose rows are removed.
	States []TableState
	Forget []string
	// Rewrites is set by Commit: the files that it replaced, in the order in which that happened.
	Rewrites []Rewrite
}

// Rewrite tells what became of a data file that a commit replaced by another. Rows keep their order: row p of Old is now
// row Offset + p - n of New, n being the number of Deleted rows below p. Later checkpoints of the same claim may still
// name rows by Old; the lake follows them.
type Rewrite struct {
	Table TableRef
	Old   string
	// New is "" when nothing of Old is left.
	New    string
	Offset uint32
	// Order is set where New was sorted anew: the row that would be at i, by the above, is at Order[i]. It has an element
	// for every row of New and is shared.
	Order []uint32
	// Deleted are the rows of Old that New does not hold. Shared: callers must not change it.
	Deleted *roaring.Bitmap
	// Dead are rows of New, by its own positions, that New holds although they have been deleted since it was made; nil for
	// none. Shared likewise.
	Dead *roaring.Bitmap
}

// TableState is the durable record of one incarnation, kept beside the pointers and moved in the same transaction.
type TableState struct {
	Table TableRef `json:"table"`
	Phase Phase    `json:"phase"`
	// OID is the source table's pg_class.oid.
	OID    uint32 `json:"oid"`
	Schema Schema `json:"schema"`
	// Filenode is pg_relation_filenode when last compared; it changes when the table is rewritten.
	Filenode uint32 `json:"filenode"`
	// Publication tells which publication the table is in and a fingerprint of its pg_publication_rel row.
	Publication string `json:"publication,omitempty"`
	// Copy is the progress of the initial copy while Phase is Copying.
	Copy *CopyState `json:"copy,omitempty"`
	// SetAside is the reason why the table is not followed at present, with its remedy; "" when it is.
	SetAside string `json:"set_aside,omitempty"`
	// Resync tells that the table is to be copied anew, as another incarnation that takes this one's place.
	Resync bool `json:"resync,omitempty"`
}

// CopyState is the durable progress of an initial copy or resync.
type CopyState struct {
	// Low is the position from which the stream's changes are applied, High the one at which the copy is whole (zero
	// until the last read has been made).
	Low  lsn.LSN `json:"low"`
	High lsn.LSN `json:"high,omitempty"`
	// Filenode and Pages are the source relation's when the copy began; a partitioned table has one entry a leaf.
	Relations []CopyRelation `json:"relations"`
	// Rows and Bytes have been read so far.
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
	// Unresolved are encoded keys of staged changes whose unchanged TOAST values still have to be read.
	Unresolved [][]byte `json:"unresolved,omitempty"`
}

// CopyRelation is the progress of one physical relation of a copy.
type CopyRelation struct {
	OID      uint32 `json:"oid"`
	Filenode uint32 `json:"filenode"`
	// Pages is the relation's size in 8 KiB pages when the copy began; the last chunk is open-ended.
	Pages uint32 `json:"pages"`
	// Done are page ranges [From, To) whose rows are in committed files, sorted and merged.
	Done []PageRange `json:"done,omitempty"`
}

// PageRange is a half-open range of pages.
type PageRange struct {
	From uint32 `json:"from"`
	To   uint32 `json:"to"`
}

// Identity is what a pipeline's source must keep being.
type Identity struct {
	SystemIdentifier string `json:"system_identifier"`
	Timeline         uint32 `json:"timeline"`
	DatabaseOID      uint32 `json:"database_oid"`
}

// State is everything a pipeline must know to go on.
type State struct {
	Pipeline string
	// Epoch is this writer's; every later claim raises it and thereby fences this one.
	Epoch      int64
	Position   lsn.LSN
	Checkpoint int64
	CommitTime time.Time
	Known      time.Time
	// Identity is the zero value until the first claim stored one.
	Identity Identity
	Tables   []TableState
}

// LiveFile is a data file that the newest committed snapshot of an incarnation holds.
type LiveFile struct {
	Path string
	Rows int64
	// Sequence is that of the snapshot that added the file: it grows with each snapshot of the incarnation.
	Sequence int64
	// Deleted are the deleted positions; nil when none. Shared: callers must not change it.
	Deleted *roaring.Bitmap
}
