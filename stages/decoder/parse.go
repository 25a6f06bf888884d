package decoder

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/message"
)

// Error says which pgoutput message departs from the protocol, or is one that was not asked for.
type Error struct {
	// Kind is the message's type byte; 0 for an empty message.
	Kind   byte
	Reason string
	// Err is the fault of a tuple inside the message, or nil.
	Err error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("the replication stream holds a %q message that cannot be read: %s", e.Kind, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Begin opens a transaction.
type Begin struct {
	// Commit is the LSN of the transaction's commit record (pgoutput's "final LSN").
	Commit lsn.LSN
	Time   time.Time
	XID    uint32
}

// Commit ends a transaction.
type Commit struct {
	// Commit is the LSN of the commit record, End the position behind it.
	Commit, End lsn.LSN
	Time        time.Time
}

// Origin names the replication origin of a transaction that was itself replicated. Name aliases the message.
type Origin struct {
	Commit lsn.LSN
	Name   []byte
}

// Type names a data type. Schema and Name alias the message.
type Type struct {
	OID          uint32
	Schema, Name []byte
}

// Row is an insert, update or delete. Old and New are tuples that alias the message; see message.Columns.
type Row struct {
	OID       uint32
	Operation message.Operation
	// OldKind is 'K', 'O', or 0 when there is no old tuple.
	OldKind  byte
	Old, New []byte
}

// Truncate empties relations. The oids are read with At.
type Truncate struct {
	Cascade, RestartIdentity bool
	oids                     []byte
}

// Len counts the relations.
func (t Truncate) Len() int { return len(t.oids) / 4 }

// At gives the oid of relation i.
func (t Truncate) At(i int) uint32 { return binary.BigEndian.Uint32(t.oids[4*i:]) }

// Logical is a message written by pg_logical_emit_message. Prefix and Content alias the message.
type Logical struct {
	Transactional   bool
	LSN             lsn.LSN
	Prefix, Content []byte
}

// StreamStart opens a block of a transaction in progress.
type StreamStart struct {
	XID   uint32
	First bool
}

// StreamCommit ends a transaction that was sent in blocks.
type StreamCommit struct {
	XID uint32
	Commit
}

// StreamAbort drops a subtransaction, or a whole transaction when both are equal, that was sent in blocks.
type StreamAbort struct{ XID, Subtransaction uint32 }

// cursor reads a message from front to back. A read past the end sets failed and gives zeros from then on, so that the
// parse functions check once, at their end.
type cursor struct {
	data   []byte
	failed bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.data) || c.failed {
		c.failed, c.data = true, nil
		return nil
	}
	b := c.data[:n:n]
	c.data = c.data[n:]
	return b
}

func (c *cursor) byte() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) uint16() uint16 {
	if b := c.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) uint32() uint32 {
	if b := c.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) uint64() uint64 {
	if b := c.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) lsn() lsn.LSN { return lsn.LSN(c.uint64()) }

// postgresEpoch is 2000-01-01 in microseconds of Unix time.
const postgresEpoch = 946684800000000

func (c *cursor) time() time.Time {
	return time.UnixMicro(int64(c.uint64()) + postgresEpoch).UTC()
}

// text reads a string that a zero byte ends.
func (c *cursor) text() []byte {
	n := bytes.IndexByte(c.data, 0)
	if n < 0 {
		c.take(-1)
		return nil
	}
	return c.take(n + 1)[:n:n]
}

func (c *cursor) tuple() ([]byte, error) {
	n, err := message.TupleLength(c.data)
	if err != nil {
		return nil, err
	}
	return c.take(n), nil
}

// end gives the error of a message that is too short or too long.
func (c *cursor) end(kind byte) error {
	switch {
	case c.failed:
		return &Error{Kind: kind, Reason: "it is cut off"}
	case len(c.data) > 0:
		return &Error{Kind: kind, Reason: fmt.Sprintf("%d bytes follow its end", len(c.data))}
	}
	return nil
}

// The parse functions take a message without its type byte (and, inside a stream block, without the transaction id behind
// that), copy nothing, and never panic. Their errors are *Error.

// ParseBegin reads 'B'.
func ParseBegin(body []byte) (Begin, error) {
	c := cursor{data: body}
	return Begin{c.lsn(), c.time(), c.uint32()}, c.end('B')
}

// ParseCommit reads 'C'.
func ParseCommit(body []byte) (Commit, error) {
	c := cursor{data: body}
	c.byte() // flags: none are defined
	return Commit{c.lsn(), c.lsn(), c.time()}, c.end('C')
}

// ParseOrigin reads 'O'.
func ParseOrigin(body []byte) (Origin, error) {
	c := cursor{data: body}
	return Origin{c.lsn(), c.text()}, c.end('O')
}

// ParseType reads 'Y'.
func ParseType(body []byte) (Type, error) {
	c := cursor{data: body}
	return Type{c.uint32(), c.text(), c.text()}, c.end('Y')
}

// ParseRelation reads 'R'. It makes a new value and is the one parse function that allocates.
func ParseRelation(body []byte) (*message.Relation, error) {
	c := cursor{data: body}
	r := &message.Relation{OID: c.uint32(), Schema: string(c.text()), Table: string(c.text()), Identity: c.byte()}
	if r.Schema == "" {
		r.Schema = "pg_catalog" // pgoutput leaves this one out
	}
	count := int(c.uint16())
	// A column takes ten bytes at least: a count that cannot be true must not take memory.
	if count > len(c.data)/10 {
		return nil, &Error{Kind: 'R', Reason: fmt.Sprintf("%d columns in %d bytes", count, len(c.data))}
	}
	r.Columns = make([]message.RelationColumn, count)
	for i := range r.Columns {
		r.Columns[i] = message.RelationColumn{Key: c.byte()&1 != 0, Name: string(c.text()), TypeOID: c.uint32(), Typmod: int32(c.uint32())}
	}
	return r, c.end('R')
}

// ParseRow reads 'I', 'U' and 'D', whichever kind names.
func ParseRow(kind byte, body []byte) (Row, error) {
	c := cursor{data: body}
	row := Row{OID: c.uint32(), Operation: message.Operation(kind)}
	next := c.byte()
	var err error
	if (next == 'K' || next == 'O') && row.Operation != message.Insert {
		row.OldKind = next
		if row.Old, err = c.tuple(); err != nil {
			return Row{}, &Error{kind, "its old tuple is malformed", err}
		}
		if row.Operation == message.Delete {
			return row, c.end(kind)
		}
		next = c.byte()
	}
	if c.failed {
		return Row{}, c.end(kind)
	}
	if next != 'N' || row.Operation == message.Delete {
		return Row{}, &Error{Kind: kind, Reason: fmt.Sprintf("a tuple of kind %q is not expected", next)}
	}
	if row.New, err = c.tuple(); err != nil {
		return Row{}, &Error{kind, "its new tuple is malformed", err}
	}
	return row, c.end(kind)
}

// ParseTruncate reads 'T'.
func ParseTruncate(body []byte) (Truncate, error) {
	c := cursor{data: body}
	count := c.uint32()
	options := c.byte()
	if uint64(count)*4 != uint64(len(c.data)) {
		return Truncate{}, &Error{Kind: 'T', Reason: fmt.Sprintf("%d relations in %d bytes", count, len(c.data))}
	}
	t := Truncate{Cascade: options&1 != 0, RestartIdentity: options&2 != 0, oids: c.take(len(c.data))}
	return t, c.end('T')
}

// ParseLogical reads 'M'.
func ParseLogical(body []byte) (Logical, error) {
	c := cursor{data: body}
	m := Logical{Transactional: c.byte()&1 != 0, LSN: c.lsn(), Prefix: c.text()}
	m.Content = c.take(int(c.uint32()))
	return m, c.end('M')
}

// ParseStreamStart reads 'S'.
func ParseStreamStart(body []byte) (StreamStart, error) {
	c := cursor{data: body}
	return StreamStart{c.uint32(), c.byte() == 1}, c.end('S')
}

// ParseStreamCommit reads 'c'.
func ParseStreamCommit(body []byte) (StreamCommit, error) {
	c := cursor{data: body}
	m := StreamCommit{XID: c.uint32()}
	c.byte() // flags: none are defined
	m.Commit = Commit{c.lsn(), c.lsn(), c.time()}
	return m, c.end('c')
}

// ParseStreamAbort reads 'A'; the LSN and time that protocol 4 adds for parallel streaming are not asked for.
func ParseStreamAbort(body []byte) (StreamAbort, error) {
	c := cursor{data: body}
	return StreamAbort{c.uint32(), c.uint32()}, c.end('A')
}
