package stages

import (
	"context"
	"fmt"
	"slices"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages/source"
	"go.uber.org/zap"
)

// rewritten tells that a table's rows were rewritten together with a change to one of its columns: then values may have
// changed that no message tells of (ALTER ... USING, a volatile default). VACUUM FULL, CLUSTER and TRUNCATE change the
// filenode alone.
func rewritten(held *formats.TableState, now *source.Table) bool {
	if held.Filenode == 0 || held.Filenode == now.Filenode {
		return false
	}
	for _, c := range now.Columns {
		i := slices.IndexFunc(held.Schema.Columns, func(h formats.Column) bool { return h.Attnum == c.Attnum })
		if i < 0 || held.Schema.Columns[i].Xmin != 0 && held.Schema.Columns[i].Xmin != c.Xmin {
			return true
		}
	}
	return false
}

// reattached tells that a column was dropped and another one put in its place that looks the same: the stream's Relation
// does not show it.
func reattached(held *formats.TableState, now *source.Table) bool {
	if len(held.Schema.Columns) != len(now.Columns) {
		return false
	}
	other := false
	for i, c := range now.Columns {
		h := &held.Schema.Columns[i]
		if h.Name != c.Name || h.Source.OID != c.Type.OID || h.Source.Typmod != c.Type.Typmod {
			return false
		}
		other = other || h.Attnum != c.Attnum
	}
	return other
}

// rekeyed tells that rows are found by something else than before.
func rekeyed(held *formats.TableState, now *source.Table) bool {
	attnums := make([]int16, len(held.Schema.Key))
	for i, k := range held.Schema.Key {
		attnums[i] = held.Schema.Columns[k].Attnum
	}
	return held.Schema.KeyKind != now.KeyKind || !slices.EqualFunc(attnums, now.Key, func(a int16, k int) bool { return a == now.Columns[k].Attnum })
}

// resyncReason tells what happened to a table so that only copying it anew makes the lake right again; "" when nothing did.
func resyncReason(held *formats.TableState, now *source.Table) string {
	switch {
	case held.Publication != "" && now.Publication == "":
		return "it was taken out of its publication, so that changes are missing"
	case held.Publication != "" && held.Publication != now.Fingerprint && source.SamePublication(held.Publication, now.Fingerprint):
		return "its settings by column were changed"
	case held.Publication != "" && held.Publication != now.Fingerprint:
		return "its publication was changed, or the table was taken out of it and put back, so that changes may be missing"
	case held.Table.Name != now.Name:
		return "it was renamed from " + source.Show(held.Table.Name)
	case rewritten(held, now):
		return "its rows were rewritten"
	case reattached(held, now):
		return "a column was replaced by another one of its name"
	case rekeyed(held, now):
		return "its key or replica identity changed"
	}
	return ""
}

// askResync has a table copied anew soon; it does not block.
func (r *run) askResync(oid uint32) {
	r.mu.Lock()
	r.asked[oid] = true
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// resyncChanged begins copying anew the tables for which it was asked, and those that the catalog shows to have been
// rewritten. A table that is being copied is looked at when that is done (run.recheck).
func (r *run) resyncChanged(ctx context.Context, tables []source.Table) error {
	for i := range tables {
		t := &tables[i]
		registered := r.registry.get(t.OID)
		if registered == nil {
			continue
		}
		r.mu.Lock()
		asked := r.asked[t.OID]
		delete(r.asked, t.OID)
		r.mu.Unlock()
		tail, _, resyncing := r.registry.newest(registered)
		if tail.Copying() || resyncing && tail.SetAside() == "" {
			if asked && !tail.Copying() {
				r.askLater(t.OID) // the copy just published began before the change
			}
			continue
		}
		reason := "it was asked for"
		if !asked {
			var err error
			if reason, err = r.changed(ctx, registered, t); err != nil {
				return err
			}
			if reason == "" {
				continue
			}
		}
		r.log.Info("table is copied anew; it stays as it is until the copy is whole", zap.String("table", source.Show(t.Name)), zap.String("because", reason))
		if err := r.shadow(ctx, registered, *t, r.freshState(*t), true); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) askLater(oid uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[oid] = true
}

// differs tells that a table was altered, rewritten or published otherwise between two looks at the catalog.
func differs(seen, now *source.Table) bool {
	return seen.Name != now.Name || seen.Fingerprint != now.Fingerprint || seen.KeyKind != now.KeyKind || !slices.Equal(seen.Key, now.Key) ||
		seen.Filenode != now.Filenode || !slices.EqualFunc(seen.Columns, now.Columns, func(a, b source.Column) bool { return a.Attnum == b.Attnum && a.Xmin == b.Xmin })
}

// changed compares a table with what was last seen of it, and notes what is seen now. The reason for which it is to be
// copied anew is "" when it is not.
func (r *run) changed(ctx context.Context, registered *table, t *source.Table) (reason string, err error) {
	if !differs(registered.seen.Load(), t) {
		return "", nil // the cheap and usual case: nothing happened
	}
	tail, _, _ := r.registry.newest(registered)
	held, err := tail.State(ctx)
	if err != nil {
		return "", err
	}
	if tail.SetAside() != "" {
		return "", nil
	}
	if reason := resyncReason(&held, t); reason != "" {
		registered.seen.Store(t)
		return reason, nil
	}
	if len(held.Schema.Columns) != len(t.Columns) {
		return "", nil // the stream's Relation will bring the new columns
	}
	registered.seen.Store(t)
	xmins := map[int16]uint32{}
	for _, c := range t.Columns {
		xmins[c.Attnum] = c.Xmin
	}
	return "", tail.Observe(ctx, t.Filenode, xmins)
}

// Resync has a table copied anew, beside the incarnation that readers see until the new one is whole. It returns once
// that has been asked for, or an error when the pipeline does not run or does not know the table.
func (p *Pipeline) Resync(name formats.TableName) error {
	p.mu.Lock()
	r := p.current
	p.mu.Unlock()
	if r == nil {
		return fmt.Errorf("the pipeline has not started yet: try again in a moment")
	}
	t := r.registry.named(name)
	if t == nil {
		return fmt.Errorf("table %s is not followed by this pipeline: check its name and source.tables", source.Show(name))
	}
	r.askResync(t.oid)
	return nil
}

// ResyncAll has every table copied anew.
func (p *Pipeline) ResyncAll() error {
	p.mu.Lock()
	r := p.current
	p.mu.Unlock()
	if r == nil {
		return fmt.Errorf("the pipeline has not started yet: try again in a moment")
	}
	for _, t := range r.registry.all() {
		r.askResync(t.oid)
	}
	return nil
}
