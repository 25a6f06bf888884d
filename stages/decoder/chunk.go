package decoder

import (
	"context"

	"github.com/streambed/streambed/stages/message"
)

// target is one batcher's channel with the chunk that is being filled for it.
type target struct {
	route *message.Route
	// rows is the open chunk; nil when there is none. Invariant: all its rows are of rows.Relation.
	rows *message.Rows
	// touched tells that the target is in Decoder.touched.
	touched bool
	// bytes and changes are the size of the last chunk, by which the next one's memory is chosen.
	bytes, changes int
}

// target finds the target of a route. Routes with the same channel share it, so that what goes into one channel keeps its
// order and a cut is sent there once.
func (d *Decoder) target(route *message.Route) *target {
	if route == nil {
		return nil
	}
	t := d.targets[route.C]
	if t == nil {
		t = &target{}
		d.targets[route.C] = t
	}
	t.route = route
	return t
}

// touch notes that t owes a part to the next cut.
func (d *Decoder) touch(t *target) {
	if !t.touched {
		t.touched = true
		d.touched = append(d.touched, t)
	}
}

// add copies a row into its table's chunk. The chunk goes on its way before it mixes relations and when it is full.
func (d *Decoder) add(ctx context.Context, r *relation, row Row, cost int64) error {
	t, size := r.target, len(row.Old)+len(row.New)
	if t.rows != nil && (t.rows.Relation != r.value || len(t.rows.Bytes)+size > d.config.ChunkBytes) {
		if err := d.sendRows(ctx, t); err != nil {
			d.cost.loose += cost
			return err
		}
	}
	if t.rows == nil {
		d.begun(t, r.value, size)
	}
	rows := t.rows
	if n := len(rows.Transactions); n == 0 || rows.Transactions[n-1].Commit != d.tx.commit {
		rows.Transactions = append(rows.Transactions, message.Transaction{First: len(rows.Changes), XID: d.tx.xid, Commit: d.tx.commit})
	}
	change := message.Change{Operation: row.Operation, OldKind: row.OldKind}
	if row.Old != nil {
		change.Old.From = uint32(len(rows.Bytes))
		rows.Bytes = append(rows.Bytes, row.Old...)
		change.Old.To = uint32(len(rows.Bytes))
	}
	if row.New != nil {
		change.New.From = uint32(len(rows.Bytes))
		rows.Bytes = append(rows.Bytes, row.New...)
		change.New.To = uint32(len(rows.Bytes))
	}
	rows.Changes = append(rows.Changes, change)
	rows.Cost += cost
	if len(rows.Bytes) >= d.config.ChunkBytes {
		return d.sendRows(ctx, t)
	}
	return nil
}

// begun opens a chunk with memory for as much as the one before it held, size bytes at least.
func (d *Decoder) begun(t *target, value *message.Relation, size int) {
	if d.open == 0 {
		d.openSince = d.now
	}
	d.open++
	bytes := max(size, min(t.bytes+t.bytes/8, d.config.ChunkBytes))
	t.rows = &message.Rows{
		Relation:     value,
		Bytes:        make([]byte, 0, bytes),
		Changes:      make([]message.Change, 0, max(1, t.changes+t.changes/8)),
		Transactions: make([]message.Transaction, 0, 1),
	}
}

// sendRows sends t's open chunk, if there is one. When it fails the chunk stays, and drop gives back its cost.
func (d *Decoder) sendRows(ctx context.Context, t *target) error {
	if t.rows == nil {
		return nil
	}
	// Read before: they are the batcher's afterwards.
	bytes, changes := len(t.rows.Bytes), len(t.rows.Changes)
	if err := send[message.TableMessage](ctx, t.route.C, t.rows); err != nil {
		return err
	}
	t.rows, t.bytes, t.changes = nil, bytes, changes
	d.open--
	return nil
}

// sendAll sends every open chunk: nothing admitted stays here.
func (d *Decoder) sendAll(ctx context.Context) error {
	if d.open == 0 {
		return nil
	}
	for _, t := range d.touched {
		if err := d.sendRows(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// drop gives back the cost of what was not sent.
func (d *Decoder) drop() {
	for _, t := range d.touched {
		if t.rows != nil {
			d.config.Budget.Release(t.rows.Cost)
			t.rows = nil
		}
	}
	d.open = 0
}

// prune forgets targets that have not been used of late, once they outnumber the others.
func (d *Decoder) prune() {
	if len(d.targets) <= 2*len(d.touched)+64 {
		return
	}
	for c, t := range d.targets {
		if !t.touched {
			delete(d.targets, c)
		}
	}
}
