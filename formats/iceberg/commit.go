package iceberg

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
	rows  map[string]*row
	// mark is this checkpoint if it can be read from then on; kept what can be read then, expired what no more.
	mark    *checkpoint
	kept    []checkpoint
	expired []int64
	// entry is what the journal says of the attempt; it is stored when writesEntry is set.
	entry       *journalEntry
	writesEntry bool
	journalPuts []put
	// switching tells that its tables are brought to their modes, and not changed.
	switching bool
	// upkeep tells that it stays at the newest checkpoint, whose number cp has: no row changes.
	upkeep bool
}

// row is what an attempt makes of one incarnation.
type row struct {
	inc    *incarnation
	change *formats.TableChange
	// mode is how the change is carried out. base, when set, is the incarnation's content in another format version;
	// settles tells that the change's deletes hold all deleted rows, and take the place of all delete files.
	mode    strategy
	base    *content
	settles bool
	// grows is by how many rows the change makes the table grow, or, after TRUNCATE, how many it has.
	grows int64
	// encodes tells that the change makes new metadata, which is staged then.
	encodes bool
	staged  *staged

	// old is the pointer before.
	old string
	// removed are live files that moves replaced.
	removed []string
	moves   []formats.Rewrite
	// sequences are the data sequence numbers of added files that do not get the snapshot's, by path.
	sequences map[string]int64

	// What is to be stored.
	state     formats.TableState
	published bool
	pointer   string
	head      head
	schema    string

	created, stateChanged, forgotten bool
	// replaces is the incarnation that was published under the name before; that one's row is replaced.
	replaces *row
	replaced bool
}

// head is the part of a table's metadata that a reader of its newest state needs.
type head struct {
	Snapshot int64  `json:"snapshot"`
	Sequence int64  `json:"sequence"`
	Schema   int    `json:"schema"`
	List     string `json:"manifest_list,omitempty"`
	// Checkpoint made the snapshot; Published made the incarnation visible, zero before.
	Checkpoint int64 `json:"checkpoint"`
	Published  int64 `json:"published,omitempty"`
	// Mode is the one that the table was last written in.
	Mode Mode `json:"mode,omitempty"`
}

// Commit makes a checkpoint durable, all of it or nothing.
func (l *Lake) Commit(ctx context.Context, cp *formats.Checkpoint) error {
	l.committing.Lock()
	defer l.committing.Unlock()
	if done, err := l.settlePending(ctx, cp); done || err != nil {
		return err
	}
	return l.commit(ctx, cp, false)
}

// commit makes a checkpoint, which brings its tables to their modes instead of changing them when switching is set.
func (l *Lake) commit(ctx context.Context, cp *formats.Checkpoint, switching bool) error {
	a, err := l.prepare(ctx, cp, switching)
	if err != nil {
		return err
	}
	// Promise 1: every object is durable before a pointer or the position names it.
	if err := l.putAll(ctx, a); err != nil {
		l.journalDone(a, false)
		return fmt.Errorf("cannot store checkpoint %d: %w", cp.Number, err)
	}
	if err := l.swap(ctx, a); err != nil {
		l.journalDone(a, false)
		return err
	}
	return nil
}

// prepare encodes a checkpoint. It changes nothing.
func (l *Lake) prepare(ctx context.Context, cp *formats.Checkpoint, switching bool) (*attempt, error) {
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
	cp.Rewrites = nil
	a := &attempt{id: uuid.NewString(), cp: cp, epoch: epoch, rows: map[string]*row{}, switching: switching}
	if err := l.collect(ctx, a); err != nil {
		return nil, err
	}
	for _, id := range sortedKeys(a.rows) {
		r := a.rows[id]
		if r.change == nil || !switching && !writes(r.change) {
			continue
		}
		if r.inc.stuck != nil {
			return nil, r.wrong(r.inc.stuck)
		}
		r.encodes, r.mode = true, l.cfg.strategy(r.state.Table.Name)
		r.change = r.inc.moved.Follow(r.change)
		r.grows = growth(r.change)
		if switching {
			if err := l.convert(ctx, r); err != nil {
				return nil, err
			}
		}
		if err := r.mode.before(ctx, l, r); err != nil {
			return nil, err
		}
	}
	now := l.cfg.Now()
	a.kept = l.kept
	if a.visible() {
		a.mark = &checkpoint{number: cp.Number, position: cp.To, commitTime: cp.CommitTime, recorded: now}
		a.kept, a.expired = l.cfg.Retention.thin(append(slices.Clone(l.kept), *a.mark), now)
	}
	return a, l.encode(a, now)
}

// encode stages the rows of an attempt that make new metadata, and its journal entry.
func (l *Lake) encode(a *attempt, now time.Time) error {
	l.journalAttempt(a)
	p := &plan{checkpoint: a.cp, now: now, mark: a.commitMark, replaces: a.switching || a.upkeep, keep: func(since, until int64) bool { return holds(a.kept, since, until) }}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, id := range sortedKeys(a.rows) {
		r := a.rows[id]
		if !r.encodes {
			continue
		}
		g.Go(func() error {
			var err error
			if r.staged, err = stage(r, p); err != nil {
				return r.wrong(err)
			}
			r.point()
			r.head.Mode = l.cfg.mode(r.state.Table.Name)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return l.journalPut(a)
}

// content is what the change applies to.
func (r *row) content() *content {
	if r.base != nil {
		return r.base
	}
	return r.inc.content
}

// growth counts the rows that a change adds, less those that it deletes.
func growth(ch *formats.TableChange) (n int64) {
	for i := range ch.Add {
		n += ch.Add[i].Rows
	}
	for _, deleted := range ch.Deletes {
		if deleted != nil {
			n -= int64(deleted.GetCardinality())
		}
	}
	return n
}

// wrong says that the fault lies in the row's change.
func (r *row) wrong(err error) error { return &formats.TableError{Table: r.state.Table, Err: err} }

// writes reports whether a change makes new metadata: all but taking a table away does.
func writes(ch *formats.TableChange) bool {
	only := *ch
	only.Unpublish = false
	return !only.Empty()
}

// point takes over where the staged metadata will be.
func (r *row) point() {
	next := &r.staged.next
	r.pointer, r.schema, r.head = next.location, next.schema, next.head()
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
		if ch.Empty() && !a.switching {
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
	if ch.Create {
		if err := l.create(a, ch); err != nil {
			return err
		}
	} else if inc := l.tables[ch.Table.ID]; inc != nil {
		if _, err := l.loaded(ctx, inc); err != nil { // before the row, since it may find another pointer
			return err
		}
	}
	r, err := l.row(a, ch.Table)
	if err != nil {
		return err
	}
	r.change = ch
	if ch.Schema != nil {
		r.state.Schema, r.stateChanged = *ch.Schema, true
	}
	if ch.Publish {
		if other := l.publishedUnder(ch.Table.Name); other != nil && other != r.inc {
			if _, err := l.loaded(ctx, other); err != nil {
				return err
			}
			old, err := l.row(a, other.state.Table)
			if err != nil {
				return err
			}
			if old.change != nil && !old.change.Unpublish {
				return fmt.Errorf("checkpoint %d both changes and replaces table %s", a.cp.Number, formatName(ch.Table.Name))
			}
			old.published, old.stateChanged, old.state.Phase = false, true, formats.Dropped
			r.replaces, old.replaced = old, true
		}
		r.published, r.stateChanged, r.state.Phase, r.state.Copy = true, true, formats.Live, nil
	}
	if ch.Unpublish {
		r.published, r.stateChanged, r.state.Phase = false, true, formats.Dropped
	}
	return nil
}

// create begins an incarnation.
func (l *Lake) create(a *attempt, ch *formats.TableChange) error {
	if ch.Schema == nil {
		return fmt.Errorf("table %s is to be made without a schema", formatName(ch.Table.Name))
	}
	if l.tables[ch.Table.ID] != nil {
		return fmt.Errorf("table %s: incarnation %s exists already", formatName(ch.Table.Name), ch.Table.ID)
	}
	md, err := newMetadata(ch.Table, ch.Schema, l.cfg.strategy(ch.Table.Name).version())
	if err != nil {
		return &formats.TableError{Table: ch.Table, Err: err}
	}
	st := formats.TableState{Table: ch.Table, Phase: formats.Copying, Schema: *ch.Schema}
	a.rows[ch.Table.ID] = &row{inc: &incarnation{state: st, content: newContent(md)}, state: st, created: true, stateChanged: true}
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
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &row{inc: inc, state: inc.state, published: inc.published, old: inc.pointer, pointer: inc.pointer, head: inc.head, schema: inc.schema}
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

// putAll stores everything of an attempt at once. With a failpoint, metadata goes after the rest.
func (l *Lake) putAll(ctx context.Context, a *attempt) error {
	var metadata []put
	files := a.journalPuts
	for _, id := range sortedKeys(a.rows) {
		if s := a.rows[id].staged; s != nil {
			files = append(files, s.puts...)
			metadata = append(metadata, s.metadataPut)
		}
	}
	if l.cfg.Failpoint == nil {
		return l.put(ctx, append(files, metadata...))
	}
	err := l.put(ctx, files)
	if err == nil {
		err = l.cfg.Failpoint(FilesPut)
	}
	if err == nil {
		err = l.put(ctx, metadata)
	}
	if err == nil {
		err = l.cfg.Failpoint(MetadataPut)
	}
	return err
}

func (l *Lake) put(ctx context.Context, puts []put) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxPuts)
	for _, p := range puts {
		g.Go(func() error { return l.cfg.Store.Put(gctx, p.uri, p.body) })
	}
	err := g.Wait()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return errors.Join(cause, err)
	}
	return err
}
