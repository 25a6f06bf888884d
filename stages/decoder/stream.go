package decoder

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"
)

// A large transaction may come before its commit (protocol 2, streaming on), in blocks between Stream Start and Stream
// Stop, among other transactions and blocks of others. Its messages are kept in a log by the top-level transaction until
// Stream Commit, which replays them as one transaction, or Stream Abort.
//
// Inside a block every message carries the xid of the subtransaction that wrote it. The order of messages is the order
// of the source's WAL across all of a transaction's subtransactions, so there is one log, and a subtransaction that is
// rolled back is a name to leave out.
//
// Relations inside blocks describe the transaction's own view: nobody else's rows may be read by them before it commits.
// The source counts a table as described to us from the newest Relation on, whether that came inside a transaction which
// has committed since or outside, so at the commit the one that arrived last stays.

// streamStart opens a block.
func (d *Decoder) streamStart(body []byte) error {
	s, err := ParseStreamStart(body)
	if err != nil {
		return err
	}
	if d.tx.open {
		return &Error{Kind: 'S', Reason: fmt.Sprintf("transaction %d is still open", d.tx.xid)}
	}
	l := d.spool.logs[s.XID]
	switch {
	case s.First && l != nil:
		return &Error{Kind: 'S', Reason: fmt.Sprintf("transaction %d begins a second time", s.XID)}
	case s.First:
		l = d.spool.begin(s.XID)
	case l == nil:
		return &Error{Kind: 'S', Reason: fmt.Sprintf("transaction %d goes on without having begun", s.XID)}
	}
	d.block = l
	return nil
}

// inBlock takes a message inside a block.
func (d *Decoder) inBlock(kind byte, body []byte) error {
	switch kind {
	case 'E':
		if len(body) > 0 {
			return &Error{Kind: kind, Reason: fmt.Sprintf("%d bytes follow its end", len(body))}
		}
		d.block = nil
		return nil
	case 'O': // the one message without an xid
		return ignore(kind, body)
	case 'I', 'U', 'D', 'T', 'R', 'Y', 'M':
	default:
		return &Error{Kind: kind, Reason: fmt.Sprintf("it stands inside a block of transaction %d", d.block.xid)}
	}
	c := cursor{data: body}
	xid := c.uint32()
	if c.failed {
		return c.end(kind)
	}
	switch kind {
	case 'Y', 'M':
		return ignore(kind, c.data)
	case 'R':
		d.arrivals++
		arrival := binary.BigEndian.AppendUint64(d.scratch[:0], d.arrivals)
		d.scratch = append(arrival, c.data...)
		return d.spool.add(d.block, xid, kind, d.scratch)
	}
	return d.spool.add(d.block, xid, kind, c.data)
}

// streamAbort leaves out what a subtransaction, or the whole transaction, has written. The source may name one that it
// sent nothing of.
func (d *Decoder) streamAbort(body []byte) error {
	a, err := ParseStreamAbort(body)
	if err != nil {
		return err
	}
	if d.tx.open {
		return &Error{Kind: 'A', Reason: fmt.Sprintf("transaction %d is still open", d.tx.xid)}
	}
	l := d.spool.logs[a.XID]
	switch {
	case l == nil:
	case a.XID == a.Subtransaction:
		d.spool.discard(l)
	default:
		l.dropped[a.Subtransaction] = true
	}
	return nil
}

// streamCommit replays a transaction's log at its commit LSN.
func (d *Decoder) streamCommit(ctx context.Context, body []byte) error {
	c, err := ParseStreamCommit(body)
	if err != nil {
		return err
	}
	l := d.spool.logs[c.XID]
	if l == nil || d.tx.open {
		return &Error{Kind: 'c', Reason: fmt.Sprintf("it ends transaction %d, of which no block has come or another is open", c.XID)}
	}
	d.enter(c.XID, c.Commit.Commit)
	d.tx.relations = map[uint32]*relation{}
	if err := d.replay(ctx, l); err != nil {
		return err
	}
	d.spool.discard(l)
	for oid, own := range d.tx.relations {
		if known := d.relations[oid]; known == nil || known.arrival < own.arrival {
			d.relations[oid] = own
		}
	}
	d.tx.relations = nil
	d.stats.streamed.Add(1)
	return d.finish(ctx, c.Commit)
}

// replayUnit is how many bytes a replay admits into the budget at a time.
const replayUnit = 128 << 10

// replay sends a log's messages the way of those that come at once. The reader has given back what it admitted for them,
// so they are admitted anew, and at no time more than is on its way (promise 6).
func (d *Decoder) replay(ctx context.Context, l *streamLog) error {
	credit := int64(0)
	defer func() { d.config.Budget.Release(credit) }()
	admit := func(n int) error {
		if d.tx.skip || int64(n) <= credit {
			return nil
		}
		d.config.Budget.Release(credit)
		credit = 0
		more := max(int64(n), min(replayUnit, d.config.Budget.Capacity()/8))
		if err := d.admit(ctx, more); err != nil {
			return err
		}
		credit = more
		d.now = time.Now()
		return nil
	}
	return l.each(admit, func(kind byte, body []byte) error {
		cost := int64(0)
		if !d.tx.skip {
			cost = int64(1 + len(body))
		}
		credit -= cost
		loose := d.cost.loose
		err := d.plain(ctx, kind, body, cost)
		credit += d.cost.loose - loose // it became no rows
		d.cost.loose = loose
		return err
	})
}

// admit takes n bytes of the budget. What could give them back must not wait here meanwhile.
func (d *Decoder) admit(ctx context.Context, n int64) error {
	if d.config.Budget.TryAcquireAhead(n) {
		return nil
	}
	if err := d.sendAll(ctx); err != nil {
		return err
	}
	return d.config.Budget.AcquireAhead(ctx, n)
}
