package stages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages/batcher"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/source"
)

// What a batcher asks when the stream describes its table anew.

// schemaFor reads the schema of a table whose Relation differs from the one held. Names are matched by attnum, which the
// stream does not carry: only when the catalog, read now, agrees with the Relation is it known what changed. Otherwise,
// and when the change cannot be made in place, the table is copied anew.
//
// The catalog is read when it shows the transaction that the Relation came with: before, it would show the table as it was.
func (r *run) schemaFor(ctx context.Context, rel *message.Relation, xid uint32, held *formats.TableState, sure bool) (*formats.Schema, error) {
	if err := r.awaitCommit(ctx, xid); err != nil {
		return nil, err
	}
	t, err := r.discoverOne(ctx, rel.OID)
	if errors.Is(err, source.ErrTableGone) {
		return nil, batcher.NeedsResync(errors.New("its columns changed and then it was dropped"))
	}
	if err != nil {
		return nil, err
	}
	if !agrees(t, rel) {
		return nil, batcher.NeedsResync(errors.New("its columns changed several times"))
	}
	if r.binary && !allBinary([]source.Table{*t}, &r.pipeline.options) {
		return nil, errTextNeeded
	}
	schema := t.Schema(r.pipeline.options.Values, &held.Schema)
	if schema.KeyKind != held.Schema.KeyKind || !slices.Equal(keyIDs(&schema), keyIDs(&held.Schema)) {
		return nil, batcher.NeedsResync(errors.New("its key changed"))
	}
	for _, before := range held.Schema.Columns {
		for _, now := range schema.Columns {
			if now.Attnum == before.Attnum && now.ID != before.ID {
				return nil, batcher.NeedsResync(fmt.Errorf("column %q changed its type in a way that stored rows cannot follow", now.Name))
			}
		}
	}
	if err := followable(held, t, xid, sure); err != nil {
		return nil, batcher.NeedsResync(err)
	}
	if rewritten(held, t) {
		r.askResync(rel.OID)
	}
	return &schema, nil
}

// sameColumns reports whether the columns that a Relation describes as before are the ones held. A column that was dropped
// and added again looks the same in the stream, and its rows would be taken for the old one's.
func (r *run) sameColumns(ctx context.Context, rel *message.Relation, xid uint32, held *formats.TableState) (sure bool, err error) {
	if err := r.awaitCommit(ctx, xid); err != nil {
		return false, err
	}
	conn, err := r.connections.Take(ctx)
	if err != nil {
		return false, err
	}
	defer r.connections.Give(conn)
	columns, err := source.Columns(ctx, conn, rel.OID)
	if err != nil {
		return false, err
	}
	same, known, last := true, true, int16(0)
	for i := range held.Schema.Columns {
		h := &held.Schema.Columns[i]
		c, ok := columns[h.Name]
		same = same && ok && c.Attnum == h.Attnum
		known = known && ok && c.Type == h.Source.OID && c.Typmod == h.Source.Typmod && c.Attnum > last
		last = c.Attnum
	}
	if !same && known {
		return false, batcher.NeedsResync(errors.New("a column was replaced by another one of its name"))
	}
	return same, nil // else the catalog shows a later change already
}

// commitVisible is how long a commit in the stream may take to be visible at the source.
const commitVisible = 30 * time.Second

// awaitCommit waits until the catalog shows what a transaction changed that the stream has sent.
func (r *run) awaitCommit(ctx context.Context, xid uint32) error {
	conn, err := r.connections.Take(ctx)
	if err != nil {
		return err
	}
	defer r.connections.Give(conn)
	visible, err := source.WaitForCommit(ctx, conn, xid, commitVisible)
	if err == nil && !visible {
		err = batcher.NeedsResync(fmt.Errorf("its columns may have changed, and transaction %d, which the stream has sent, is not visible at the source after %s (does it wait for a synchronous standby?)", xid, commitVisible))
	}
	return err
}

// agrees tells that the catalog shows the table as the Relation does.
func agrees(t *source.Table, rel *message.Relation) bool {
	if len(t.Columns) != len(rel.Columns) {
		return false
	}
	for i, c := range rel.Columns {
		if t.Columns[i].Name != c.Name || t.Columns[i].Type.OID != c.TypeOID {
			return false
		}
	}
	return true
}

func keyIDs(s *formats.Schema) []int {
	ids := make([]int, len(s.Key))
	for i, k := range s.Key {
		ids[i] = s.Columns[k].ID
	}
	return ids
}

// followable tells whether stored rows can follow to the columns that the catalog shows at a transaction; the error says
// why not, where a column was replaced by another one in a way that leaves open which of the two some rows were of.
func followable(held *formats.TableState, now *source.Table, xid uint32, sure bool) error {
	had := func(attnum int16) bool {
		return slices.ContainsFunc(held.Schema.Columns, func(h formats.Column) bool { return h.Attnum == attnum })
	}
	var came, went bool
	for _, c := range now.Columns {
		if had(c.Attnum) {
			continue
		}
		came = true
		if int32(c.Xmin-xid) > 0 {
			// Altered after the transaction began: perhaps it is not the column that the stream speaks of, but a later one.
			return errors.New("its columns changed several times")
		}
	}
	for _, h := range held.Schema.Columns {
		went = went || !slices.ContainsFunc(now.Columns, func(c source.Column) bool { return c.Attnum == h.Attnum })
	}
	if came && went && !sure {
		return errors.New("its columns changed several times")
	}
	return nil
}
