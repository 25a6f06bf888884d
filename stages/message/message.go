// Package message holds what crosses the channels between the pipeline's stages, and the budget that bounds it.
package message

import (
	"time"

	"github.com/streambed/streambed/lsn"
)

// Raw is what the reader hands to the decoder: replication messages in the order in which they came, in one slab. The
// decoder calls Release when it has copied what it needs; nothing of the slab may be used afterwards.
type Raw struct {
	Messages []RawMessage
	// Cost is what the reader has admitted into the budget for this slab, in bytes. It passes to whoever receives Raw:
	// the decoder hands it on with the rows it makes, or gives it back.
	Cost    int64
	Release func()
}

// RawMessage is one XLogData or primary keepalive message.
type RawMessage struct {
	Keepalive bool
	// ReplyRequested tells that the server asked for an answer with the keepalive: it does when it waits for our
	// acknowledgement before it shuts down.
	ReplyRequested bool
	// Start is the WAL position of an XLogData message (0 for some), End the server's current end of WAL as it was sent.
	Start, End lsn.LSN
	// ServerTime is the source's clock when it sent the message.
	ServerTime time.Time
	// Data is the pgoutput message, in the slab; nil for a keepalive.
	Data []byte
}

// Relation is a table as a pgoutput Relation message describes it. It is immutable; a changed one is a new value.
type Relation struct {
	OID           uint32
	Schema, Table string
	// Identity is pg_class.relreplident: d default, n nothing, f full, i index.
	Identity byte
	Columns  []RelationColumn
}

// RelationColumn is one column of a Relation, in the order of its tuples.
type RelationColumn struct {
	Name    string
	TypeOID uint32
	Typmod  int32
	// Key tells that the column is part of the replica identity.
	Key bool
}

// Operation is what a change does to a row.
type Operation byte

// The operations, by pgoutput's letters.
const (
	Insert Operation = 'I'
	Update Operation = 'U'
	Delete Operation = 'D'
)

// Rows is a run of row changes of one table, in commit order. It owns its bytes.
type Rows struct {
	Relation *Relation
	// Bytes holds the tuples; Changes point into it.
	Bytes        []byte
	Changes      []Change
	Transactions []Transaction
	// Cost is the share of the budget that these rows hold, in bytes; whoever drops the rows gives it back.
	Cost int64
}

// Transaction marks where in Rows.Changes the changes of a source transaction begin.
type Transaction struct {
	First int
	XID   uint32
	// Commit is the LSN of its commit record.
	Commit lsn.LSN
}

// Change is one row change. Old and New are pgoutput TupleData (protocol section "Logical Replication Message Formats").
type Change struct {
	Operation Operation
	// OldKind is 'K' when Old holds only the identity's columns, 'O' when it is the whole old row, 0 when there is none.
	OldKind  byte
	Old, New Span
}

// Span is a piece of Rows.Bytes.
type Span struct{ From, To uint32 }

// Truncate empties a table at its place in the stream.
type Truncate struct {
	Relation *Relation
	Commit   lsn.LSN
	XID      uint32
	Cascade  bool
}

// Value is one column of a tuple.
type Value struct {
	// Kind is 'n' NULL (or, in a 'K' old tuple, not sent), 'u' unchanged TOAST, 't' text, 'b' binary.
	Kind byte
	Data []byte
}

// TableMessage is what a batcher receives from the decoder, in order: *Rows, *Truncate or *Cut.
type TableMessage interface{ tableMessage() }

func (*Rows) tableMessage()     {}
func (*Truncate) tableMessage() {}
func (*Cut) tableMessage()      {}

// Route is where one table's messages go.
type Route struct {
	// OID is the relation that the publication names (the root of a partitioned table).
	OID uint32
	// Name is the table's quoted name, for logs.
	Name string
	// C is the batcher's bounded channel. Only the decoder sends on it.
	C chan<- TableMessage
	// EveryCut tells that the table owes a part to every cut, touched or not: it does while it is being copied.
	EveryCut func() bool
}

// Router tells the decoder where each relation's messages go.
type Router interface {
	// Route gives the route of a relation, nil when its rows are to be dropped. It is asked once for each relation in a
	// transaction and does not block.
	Route(oid uint32) *Route
	// Copying lists the routes whose EveryCut is true at this moment.
	Copying() []*Route
}
