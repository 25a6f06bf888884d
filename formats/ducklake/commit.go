package ducklake

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"golang.org/x/sync/errgroup"
)

// maxPuts bounds the puts under way at once.
const maxPuts = 64

// attempt is one try to commit a checkpoint.
type attempt struct {
	// id stands in the state row once the swap has been made.
	id    string
	cp    *formats.Checkpoint
	epoch int64
	now   time.Time
	rows  map[string]*row
	// mark is this checkpoint if it changes what readers see; kept what can be read then, expired what no more.
	mark          *checkpoint
	kept, expired []checkpoint
	// task is what the attempt maintains; "" for a checkpoint.
	task formats.Task
	// snapshot is the newest DuckLake snapshot after the swap.
	snapshot int64
}

// row is what an attempt makes of one incarnation.
type row struct {
	inc    *incarnation
	change *formats.TableChange
	staged *staged // nil when the change leaves the files

	// What is to be stored.
	state formats.TableState
	// schema is the one in force in the lake; that of the state may be ahead in what concerns the source alone.
	schema    *formats.Schema
	published bool
	tableID   int64
	head      head
	// oldColumns and columns are DuckLake's, before and after; none while the incarnation is not visible.
	oldColumns, columns []column
	// arrangement is the catalog's, after.
	arrangement arrangement

	created, stateChanged, forgotten bool
	// replaced tells that another incarnation takes its place under the name.
	replaced bool
}

// Commit makes a checkpoint durable, all of it or nothing.
func (l *Lake) Commit(ctx context.Context, cp *formats.Checkpoint) error {
	l.committing.Lock()
	defer l.committing.Unlock()
	if done, err := l.settlePending(ctx, cp); done || err != nil {
		return err
	}
	a, err := l.prepare(ctx, cp)
	if err != nil {
		return err
	}
	// Promise 1: every object is durable before the catalog names it.
	if err := l.putAll(ctx, a); err != nil {
		return fmt.Errorf("cannot store the files of checkpoint %d: %w", cp.Number, err)
	}
	return l.swap(ctx, a)
}

// prepare works out a checkpoint. It changes nothing.
func (l *Lake) prepare(ctx context.Context, cp *formats.Checkpoint) (*attempt, error) {
	epoch, err := l.epoch()
	if err != nil {
		return nil, err
	}
	if cp.Number != l.state.Checkpoint+1 || cp.From != l.state.Position {
		return nil, fmt.Errorf("checkpoint %d from %s does not follow checkpoint %d at %s",
			cp.Number, cp.From, l.state.Checkpoint, l.state.Position)
	}
	if cp.To < cp.From && !l.newSource {
		return nil, fmt.Errorf("checkpoint %d goes back from %s to %s, which only a new source may do", cp.Number, cp.From, cp.To)
	}
	a := &attempt{id: uuid.NewString(), cp: cp, epoch: epoch, now: l.cfg.Now(), rows: map[string]*row{}}
	if err := l.collect(ctx, a); err != nil {
		return nil, err
	}
	a.kept = l.kept
	if a.visible() {
		a.mark = &checkpoint{number: cp.Number, position: cp.To, commitTime: cp.CommitTime, recorded: a.now}
	}
	if err := a.shape(); err != nil {
		return nil, err
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, id := range sortedKeys(a.rows) {
		r := a.rows[id]
		if r.change == nil || !r.writes() {
			continue
		}
		g.Go(func() (err error) {
			if r.staged, err = l.stage(ctx, a, r); err != nil {
				return fmt.Errorf("table %s cannot be changed: %w", formatName(r.state.Table.Name), err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	a.move()
	return a, nil
}

// writes reports whether the change touches files, schema or visibility in another way than taking the table away.
func (r *row) writes() bool {
	only := *r.change
	only.Unpublish = false
	return !only.Empty() && !(only.Create && !only.Publish && len(only.Add) == 0)
}

// move works out the heads of the incarnations that change.
func (a *attempt) move() {
	for _, r := range a.rows {
		if r.staged != nil {
			r.head.Sequence++
		}
		if r.published && !r.inc.published {
			r.head.Published = a.cp.Number
		}
	}
}

// shape works out the columns of the incarnations that change.
func (a *attempt) shape() (err error) {
	for _, id := range sortedKeys(a.rows) {
		r := a.rows[id]
		if r.inc.published {
			if r.oldColumns, err = columns(r.inc.schema); err != nil {
				return fmt.Errorf("table %s: %w", formatName(r.state.Table.Name), err)
			}
		}
		if r.published {
			if r.columns, err = columns(r.schema); err != nil {
				return fmt.Errorf("table %s: %w", formatName(r.state.Table.Name), err)
			}
		}
	}
	return nil
}

// visible reports whether the attempt changes what readers see.
func (a *attempt) visible() bool {
	for _, r := range a.rows {
		if r.change != nil && (r.published || r.inc.published) {
			return true
		}
	}
	return false
}

// collect finds the incarnations of a checkpoint, loads their content and works out their rows.
func (l *Lake) collect(ctx context.Context, a *attempt) error {
	for i := range a.cp.Changes {
		ch := &a.cp.Changes[i]
		if ch.Empty() {
			continue
		}
		if old := a.rows[ch.Table.ID]; old != nil && old.change != nil {
			return fmt.Errorf("checkpoint %d changes table %s twice", a.cp.Number, formatName(ch.Table.Name))
		}
		if err := l.collectChange(ctx, a, ch); err != nil {
			return err
		}
	}
	for i := range a.cp.States {
		st := a.cp.States[i]
		r, err := l.row(a, st.Table)
		if err != nil {
			return err
		}
		r.state, r.stateChanged = st, true
	}
	for _, id := range a.cp.Forget {
		r, err := l.row(a, formats.TableRef{ID: id})
		if err != nil {
			continue // gone already
		}
		if r.published {
			return fmt.Errorf("table %s is still visible and cannot be forgotten: unpublish it first", formatName(r.state.Table.Name))
		}
		r.forgotten = true
	}
	return nil
}

func (l *Lake) collectChange(ctx context.Context, a *attempt, ch *formats.TableChange) error {
	name := formatName(ch.Table.Name)
	if ch.Create {
		if err := l.create(a, ch); err != nil {
			return err
		}
	} else if inc := l.tables[ch.Table.ID]; inc != nil {
		if err := l.load(ctx, inc); err != nil {
			return err
		}
	}
	r, err := l.row(a, ch.Table)
	if err != nil {
		return err
	}
	r.change = ch
	if r.inc.published {
		r.change = r.inc.moved.Follow(ch)
	}
	if r.inc.tableID != 0 && !r.inc.published && r.writes() {
		return fmt.Errorf("table %s: incarnation %s was taken away from readers and cannot be changed any more", name, ch.Table.ID)
	}
	if ch.Schema != nil {
		r.schema, r.state.Schema, r.stateChanged = ch.Schema, *ch.Schema, true
		r.head.Schema = ch.Schema.ID
	}
	if ch.Publish {
		if err := l.publish(a, r); err != nil {
			return err
		}
	}
	if ch.Unpublish {
		r.published, r.stateChanged, r.state.Phase = false, true, formats.Dropped
	}
	return nil
}

// publish makes an incarnation the visible one of its name.
func (l *Lake) publish(a *attempt, r *row) error {
	name := r.state.Table.Name
	if other := l.publishedUnder(name); other != nil && other != r.inc {
		old, err := l.row(a, other.state.Table)
		if err != nil {
			return err
		}
		if old.change != nil && !old.change.Unpublish {
			return fmt.Errorf("checkpoint %d both changes and replaces table %s", a.cp.Number, formatName(name))
		}
		old.published, old.stateChanged, old.state.Phase, old.replaced = false, true, formats.Dropped, true
	}
	r.published, r.stateChanged, r.state.Phase, r.state.Copy = true, true, formats.Live, nil
	return nil
}

// create begins an incarnation.
func (l *Lake) create(a *attempt, ch *formats.TableChange) error {
	name := formatName(ch.Table.Name)
	if ch.Schema == nil {
		return fmt.Errorf("table %s is to be made without a schema", name)
	}
	if l.tables[ch.Table.ID] != nil {
		return fmt.Errorf("table %s: incarnation %s exists already", name, ch.Table.ID)
	}
	if _, err := columns(ch.Schema); err != nil {
		return fmt.Errorf("table %s: %w", name, err)
	}
	st := formats.TableState{Table: ch.Table, Phase: formats.Copying, Schema: *ch.Schema}
	a.rows[ch.Table.ID] = &row{inc: &incarnation{state: st, files: map[string]*dataFile{}}, state: st, schema: ch.Schema, created: true, stateChanged: true}
	return nil
}

// row gives the attempt's row of an incarnation.
func (l *Lake) row(a *attempt, ref formats.TableRef) (*row, error) {
	if r := a.rows[ref.ID]; r != nil {
		return r, nil
	}
	inc := l.tables[ref.ID]
	if inc == nil {
		return nil, fmt.Errorf("table %s: incarnation %s was never made", formatName(ref.Name), ref.ID)
	}
	r := &row{inc: inc, state: inc.state, schema: inc.schema, published: inc.published, tableID: inc.tableID, head: inc.head}
	a.rows[ref.ID] = r
	return r, nil
}

func (l *Lake) publishedUnder(name formats.TableName) *incarnation {
	for _, inc := range l.tables {
		if inc.published && inc.state.Table.Name == name {
			return inc
		}
	}
	return nil
}

// putAll stores the delete files of an attempt, and the small data files that are not inlined, at once.
func (l *Lake) putAll(ctx context.Context, a *attempt) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxPuts)
	for _, id := range sortedKeys(a.rows) {
		if s := a.rows[id].staged; s != nil {
			for _, p := range s.puts {
				g.Go(func() error { return l.base().Put(gctx, p.uri, p.body) })
			}
		}
	}
	err := g.Wait()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return errors.Join(cause, err)
	}
	if err == nil {
		err = l.cfg.fail(FilesPut)
	}
	return err
}

// thin works out which checkpoints can be read once the attempt is committed.
func (a *attempt) thin(r Retention, kept []checkpoint) {
	a.kept, a.expired = r.thin(append(slices.Clone(kept), *a.mark), a.now)
}
