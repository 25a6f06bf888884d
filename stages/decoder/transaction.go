package decoder

import (
	"context"
	"fmt"

	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/message"
)

// transaction is the one being decoded; one that came in blocks is decoded at its commit, so they never overlap.
type transaction struct {
	open bool
	// skip tells that the lake holds it already.
	skip bool
	// number counts transactions, so that a route is asked for once in each.
	number uint64
	xid    uint32
	commit lsn.LSN
	// relations are those of a transaction that came in blocks; nil for others.
	relations map[uint32]*relation
}

// relation is what is known of one oid of the stream.
type relation struct {
	value *message.Relation
	// target is where rows go in transaction number asked; nil to drop them.
	target *target
	asked  uint64
	// arrival numbers the Relation messages as they came.
	arrival uint64
}

// message decodes one pgoutput message.
func (d *Decoder) message(ctx context.Context, data []byte) error {
	cost := d.cost.take(len(data))
	if len(data) == 0 {
		return &Error{Reason: "it is empty"}
	}
	if d.block != nil {
		d.cost.loose += cost
		return d.inBlock(data[0], data[1:])
	}
	return d.plain(ctx, data[0], data[1:], cost)
}

// plain decodes a message outside of blocks, or one from a log.
func (d *Decoder) plain(ctx context.Context, kind byte, body []byte, cost int64) error {
	switch kind {
	case 'I', 'U', 'D':
		return d.row(ctx, kind, body, cost)
	}
	d.cost.loose += cost
	switch kind {
	case 'B':
		return d.begin(body)
	case 'C':
		return d.commit(ctx, body)
	case 'R':
		return d.relation(body)
	case 'T':
		return d.truncate(ctx, body)
	case 'O', 'Y', 'M':
		// Origins, type names and logical messages mean nothing to the lake. They are read all the same: a message that is
		// malformed shows that the stream is not what we take it for.
		return ignore(kind, body)
	case 'S':
		return d.streamStart(body)
	case 'c':
		return d.streamCommit(ctx, body)
	case 'A':
		return d.streamAbort(body)
	case 'E':
		return &Error{Kind: kind, Reason: "no block is open"}
	case 'b', 'P', 'K', 'r', 'p':
		return &Error{Kind: kind, Reason: "two-phase transactions were not asked for"}
	}
	return &Error{Kind: kind, Reason: "its type is unknown"}
}

func ignore(kind byte, body []byte) (err error) {
	switch kind {
	case 'O':
		_, err = ParseOrigin(body)
	case 'Y':
		_, err = ParseType(body)
	case 'M':
		_, err = ParseLogical(body)
	}
	return err
}

func (d *Decoder) begin(body []byte) error {
	b, err := ParseBegin(body)
	if err != nil {
		return err
	}
	if d.tx.open {
		return &Error{Kind: 'B', Reason: fmt.Sprintf("transaction %d is still open", d.tx.xid)}
	}
	d.enter(b.XID, b.Commit)
	return nil
}

// enter begins a transaction that commits at commit.
func (d *Decoder) enter(xid uint32, commit lsn.LSN) {
	d.tx = transaction{open: true, skip: commit < d.config.Position, number: d.tx.number + 1, xid: xid, commit: commit}
}

func (d *Decoder) commit(ctx context.Context, body []byte) error {
	c, err := ParseCommit(body)
	if err != nil {
		return err
	}
	if !d.tx.open || c.Commit != d.tx.commit {
		return &Error{Kind: 'C', Reason: fmt.Sprintf("it ends a transaction at %v, but the open one is at %v", c.Commit, d.tx.commit)}
	}
	return d.finish(ctx, c)
}

// finish ends the open transaction.
func (d *Decoder) finish(ctx context.Context, c Commit) error {
	d.tx.open = false
	d.stats.transaction(d.tx.skip)
	d.progress.committed(c, len(d.touched) > 0)
	return d.atCommit(ctx)
}

// relation takes a Relation; of a transaction that came in blocks it stays that transaction's own until the end.
func (d *Decoder) relation(body []byte) error {
	arrival := uint64(0)
	if d.tx.relations != nil { // from a log, where inBlock noted it
		c := cursor{data: body}
		arrival, body = c.uint64(), c.data
	}
	value, err := ParseRelation(body)
	if err != nil {
		return err
	}
	if own := d.tx.relations; own != nil {
		remember(own, value, arrival)
		return nil
	}
	d.arrivals++
	remember(d.relations, value, d.arrivals)
	return nil
}

// remember enters a relation. One that is described again as it was is a new value all the same: it comes because
// something happened to the table, and that may be more than the description shows.
func remember(relations map[uint32]*relation, value *message.Relation, arrival uint64) {
	r := relations[value.OID]
	if r == nil {
		relations[value.OID] = &relation{value: value, arrival: arrival}
		return
	}
	r.value, r.arrival = value, arrival
}

// find gives a relation with its target, in a transaction that is not skipped; nil when its changes are to be dropped.
func (d *Decoder) find(kind byte, oid uint32) (*relation, error) {
	if !d.tx.open {
		return nil, &Error{Kind: kind, Reason: "no transaction is open"}
	}
	if d.tx.skip {
		return nil, nil
	}
	r := d.relations[oid]
	if d.tx.relations != nil {
		r = d.tx.relations[oid]
	}
	if r == nil {
		return nil, &Error{Kind: kind, Reason: fmt.Sprintf("the relation with oid %d was not described", oid)}
	}
	if r.asked != d.tx.number {
		r.asked, r.target = d.tx.number, d.target(d.config.Router.Route(oid))
	}
	if r.target == nil {
		return nil, nil
	}
	return r, nil
}

// row takes an insert, update or delete. cost is the message's share of the budget.
func (d *Decoder) row(ctx context.Context, kind byte, body []byte, cost int64) error {
	row, err := ParseRow(kind, body)
	if err != nil {
		d.cost.loose += cost
		return err
	}
	r, err := d.find(kind, row.OID)
	if err != nil || r == nil {
		d.cost.loose += cost
		return err
	}
	if err := fits(kind, r.value, row); err != nil {
		d.cost.loose += cost
		return err
	}
	d.stats.row(row.Operation)
	d.touch(r.target)
	size := int64(len(row.Old) + len(row.New))
	d.progress.rows++
	d.progress.bytes += size
	return d.add(ctx, r, row, cost)
}

// fits checks the tuples' column counts against the relation.
func fits(kind byte, r *message.Relation, row Row) error {
	for _, tuple := range [2][]byte{row.Old, row.New} {
		if tuple == nil {
			continue
		}
		c := cursor{data: tuple}
		if n := int(c.uint16()); n != len(r.Columns) {
			return &Error{Kind: kind, Reason: fmt.Sprintf("a tuple of %d columns for %q.%q, which has %d", n, r.Schema, r.Table, len(r.Columns))}
		}
	}
	return nil
}

// truncate passes a truncate on to each relation that it names, behind the rows that came before it.
func (d *Decoder) truncate(ctx context.Context, body []byte) error {
	t, err := ParseTruncate(body)
	if err != nil {
		return err
	}
	for i := range t.Len() {
		r, err := d.find('T', t.At(i))
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		d.touch(r.target)
		if err := d.sendRows(ctx, r.target); err != nil {
			return err
		}
		m := &message.Truncate{Relation: r.value, Commit: d.tx.commit, XID: d.tx.xid, Cascade: t.Cascade}
		if err := send[message.TableMessage](ctx, r.target.route.C, m); err != nil {
			return err
		}
		d.stats.truncates.Add(1)
	}
	return nil
}
