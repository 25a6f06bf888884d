package iceberg

import (
	"context"
	"fmt"
	"math"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
)

var _ formats.Maintainer = (*Lake)(nil)

// compacting is a Compact of some tables.
type compacting struct {
	lake   *Lake
	tables []*compaction
	report formats.MaintenanceReport
}

// compaction is what is to be rewritten of a table, as it was when its rows were read.
type compaction struct {
	inc     *incarnation
	table   formats.TableRef
	content *content
	schema  string
	version int
	mode    strategy
	// sequence is the table's then: equality deletes up to it have been applied to what was rewritten.
	sequence int64
	groups   []compacted
}

// compacted is a group of files that become one.
type compacted struct {
	sources []*entry
	output
}

// Prepare implements formats.Maintainer.
func (l *Lake) Prepare(ctx context.Context, m formats.Maintenance) (formats.Prepared, error) {
	if _, err := l.epoch(); err != nil {
		return nil, err
	}
	switch m.Task {
	case formats.Flush:
		return nil, nil // the catalog keeps no rows
	case formats.Compact:
	default:
		if !m.All {
			return nil, nil
		}
		return nil, fmt.Errorf("the maintenance %q is not made for Iceberg yet", m.Task)
	}
	work := &compacting{lake: l, report: formats.MaintenanceReport{Task: m.Task}}
	for _, inc := range l.visible(m.Table) {
		c, err := l.compact(ctx, inc, m.All)
		if err != nil {
			return nil, fmt.Errorf("cannot compact table %s: %w", formatName(inc.state.Table.Name), err)
		}
		if c != nil {
			work.tables = append(work.tables, c)
		}
	}
	if len(work.tables) == 0 {
		return nil, nil
	}
	return work, nil
}

// visible lists the incarnations that readers see, by name or all.
func (l *Lake) visible(name *formats.TableName) (out []*incarnation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range sortedKeys(l.tables) {
		if inc := l.tables[id]; inc.published && (name == nil || inc.state.Table.Name == *name) {
			out = append(out, inc)
		}
	}
	return out
}

// compact chooses groups of files of a table and rewrites them; nil when there is nothing to do.
func (l *Lake) compact(ctx context.Context, inc *incarnation, all bool) (*compaction, error) {
	if _, err := l.loaded(ctx, inc); err != nil {
		return nil, err
	}
	c, entries, sources, deletes := l.compactable(inc)
	if c == nil {
		return nil, nil
	}
	if !all && !l.worthALook(c, sources, deletes) {
		return nil, nil
	}
	schema, err := decodeSchema(c.schema)
	if err != nil {
		return nil, err
	}
	targets := make([]target, len(entries))
	for i, e := range entries {
		targets[i] = e.target()
	}
	byKey, err := newKeyResolver(l.cfg.Store, math.MaxInt64).resolve(ctx, &schema, deletes, targets)
	if err != nil {
		return nil, err
	}
	sizes := make([]formats.FileSize, len(sources))
	for i := range sources {
		s := &sources[i]
		if s.deleted = joined(s.deleted, byKey[s.path]); s.deleted == nil {
			s.deleted = roaring.New()
		}
		sizes[i] = formats.FileSize{Rows: s.rows, Size: s.size, Deleted: int64(s.deleted.GetCardinality())}
	}
	for _, group := range formats.Compactable(sizes, l.cfg.TargetFileSize, all) {
		var g compacted
		var of []source
		for _, i := range group {
			g.sources, of = append(g.sources, entries[i]), append(of, sources[i])
		}
		if g.output, err = l.rewrite(ctx, c.table, &schema, c.version >= 3, of); err != nil {
			return nil, err
		}
		c.groups = append(c.groups, g)
	}
	if len(c.groups) == 0 {
		return nil, nil
	}
	return c, nil
}

// lookEvery is the number of snapshots after which equality deletes are read again to find the files that they empty.
const lookEvery = 8

// worthALook spares reading the equality deletes of a table in which nothing else is worth a rewrite and little has changed.
func (l *Lake) worthALook(c *compaction, sources []source, deletes []keyDelete) bool {
	if len(deletes) == 0 || c.sequence >= c.inc.looked+lookEvery {
		c.inc.looked = c.sequence
		return true
	}
	sizes := make([]formats.FileSize, len(sources))
	for i, s := range sources {
		sizes[i] = formats.FileSize{Rows: s.rows, Size: s.size}
		if s.deleted != nil {
			sizes[i].Deleted = int64(s.deleted.GetCardinality())
		}
	}
	return len(formats.Compactable(sizes, l.cfg.TargetFileSize, false)) > 0
}

// compactable takes down how a table stands: its data files, oldest first, with the rows deleted by position, and its
// equality deletes. It gives nil for a table that is not in its mode.
func (l *Lake) compactable(inc *incarnation) (*compaction, []*entry, []source, []keyDelete) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := inc.content
	if held == nil {
		return nil, nil, nil, nil
	}
	mode := l.cfg.strategy(inc.state.Table.Name)
	c := &compaction{inc: inc, table: inc.state.Table, content: held, schema: held.schema, version: held.meta.Version(), mode: mode, sequence: held.meta.LastSequenceNumber()}
	if c.version != mode.version() || !mode.settled(held) {
		return nil, nil, nil, nil
	}
	var entries []*entry
	var sources []source
	for _, e := range held.oldestFirst() {
		id := e.file.FirstRowID()
		if c.version >= 3 && id == nil {
			continue // another writer's; the table has to be copied anew
		}
		entries = append(entries, e)
		sources = append(sources, source{path: e.file.FilePath(), rows: e.file.Count(), size: e.file.FileSizeBytes(),
			deleted: held.removed[e.file.FilePath()].bits, firstRowID: value(id), sequence: e.sequence})
	}
	return c, entries, sources, held.keyDeletes(0)
}

// Discard implements formats.Prepared.
func (w *compacting) Discard() {}

// Apply implements formats.Prepared.
func (w *compacting) Apply(ctx context.Context) ([]formats.Rewrite, formats.MaintenanceReport, error) {
	l := w.lake
	l.committing.Lock()
	defer l.committing.Unlock()
	if l.pending != nil {
		return nil, w.report, fmt.Errorf("%w: the outcome of a checkpoint is not known yet", formats.ErrGivenUp)
	}
	a, err := l.upkeep()
	if err != nil {
		return nil, w.report, err
	}
	for _, c := range w.tables {
		if err := w.take(ctx, a, c); err != nil {
			return nil, w.report, fmt.Errorf("%w: cannot compact table %s: %w", formats.ErrGivenUp, formatName(c.table.Name), err)
		}
	}
	w.report.Tables = len(a.rows)
	if len(a.rows) == 0 {
		return nil, w.report, nil
	}
	if err := l.commitUpkeep(ctx, a); err != nil {
		return nil, w.report, err
	}
	return a.cp.Rewrites, w.report, nil
}

// upkeep makes an attempt that stays at the newest checkpoint.
func (l *Lake) upkeep() (*attempt, error) {
	epoch, err := l.epoch()
	if err != nil {
		return nil, err
	}
	st := &l.state
	return &attempt{id: uuid.NewString(), epoch: epoch, rows: map[string]*row{}, kept: l.kept, upkeep: true,
		cp: &formats.Checkpoint{Number: st.Checkpoint, From: st.Position, To: st.Position, CommitTime: st.CommitTime, Known: st.Known}}, nil
}

// commitUpkeep makes an upkeep durable. A swap that failed ends the claim's work: what stands in the catalog has to be read.
func (l *Lake) commitUpkeep(ctx context.Context, a *attempt) error {
	if err := l.encode(a, l.cfg.Now()); err != nil {
		l.journalDone(a, false)
		return fmt.Errorf("%w: %w", formats.ErrGivenUp, err)
	}
	if err := l.putAll(ctx, a); err != nil {
		l.journalDone(a, false)
		return fmt.Errorf("%w: cannot store what was maintained: %w", formats.ErrGivenUp, err)
	}
	if err := l.swap(ctx, a); err != nil {
		l.journalDone(a, false)
		return err
	}
	return nil
}

// take has the groups of a table take the place of their files. Those that became vain since are left out.
func (w *compacting) take(ctx context.Context, a *attempt, c *compaction) error {
	l := w.lake
	inc := l.tables[c.table.ID]
	if inc != c.inc || !inc.published || inc.stuck != nil || inc.content != c.content || c.content.schema != c.schema || c.content.meta.Version() != c.version {
		return nil
	}
	r, err := l.row(a, c.table)
	if err != nil {
		return err
	}
	r.mode, r.encodes = c.mode, true
	r.change = &formats.TableChange{Table: c.table, Deletes: map[string]*roaring.Bitmap{}}
	for i := range c.groups {
		if err := w.takeGroup(ctx, r, c, &c.groups[i]); err != nil {
			return err
		}
	}
	if len(r.removed) == 0 {
		delete(a.rows, c.table.ID)
	}
	return nil
}

func (w *compacting) takeGroup(ctx context.Context, r *row, c *compaction, g *compacted) error {
	for _, e := range g.sources {
		if c.content.files[e.file.FilePath()] != e {
			return nil // gone meanwhile
		}
	}
	byPosition, all, err := w.deletedSince(ctx, c, g)
	if err != nil {
		return err
	}
	if _, rewrites := c.mode.(copyMode); rewrites && !all.IsEmpty() {
		return nil // by another writer
	}
	w.report.Before += len(g.sources)
	for _, e := range g.sources {
		r.removed = append(r.removed, e.file.FilePath())
	}
	file := &g.output.file
	if int64(all.GetCardinality()) == file.Rows { // nothing is left of it
		for i, m := range g.moves {
			every := roaring.New()
			every.AddRange(0, uint64(g.sources[i].file.Count()))
			r.moves = append(r.moves, formats.Rewrite{Table: m.Table, Old: m.Old, Deleted: every})
		}
		return nil
	}
	w.report.Rows += file.Rows
	w.report.After++
	for _, m := range g.moves {
		if !all.IsEmpty() {
			m.Dead = all
		}
		r.moves = append(r.moves, m)
	}
	r.change.Add = append(r.change.Add, *file)
	if !byPosition.IsEmpty() {
		r.change.Deletes[file.Path] = byPosition
	}
	if _, merges := c.mode.(mergeMode); merges {
		// Equality deletes since then have to reach its rows, and no later ones of the same sequence number exist.
		if r.sequences == nil {
			r.sequences = map[string]int64{}
		}
		r.sequences[file.Path] = c.sequence
	}
	return nil
}

// deletedSince gives the rows of a group's new file that were deleted since it was made: by position, and in any way.
func (w *compacting) deletedSince(ctx context.Context, c *compaction, g *compacted) (byPosition, all *roaring.Bitmap, err error) {
	targets := make([]target, len(g.sources))
	for i, e := range g.sources {
		targets[i] = e.target()
	}
	schema, err := decodeSchema(c.schema)
	if err != nil {
		return nil, nil, err
	}
	byKey, err := newKeyResolver(w.lake.cfg.Store, math.MaxInt64).resolve(ctx, &schema, c.content.keyDeletes(c.sequence), targets)
	if err != nil {
		return nil, nil, err
	}
	byPosition, all = roaring.New(), roaring.New()
	for i := range g.moves {
		m := &g.moves[i]
		if bits := c.content.removed[m.Old].bits; bits != nil {
			byPosition.Or(m.Rows(bits))
		}
		if bits := byKey[m.Old]; bits != nil {
			all.Or(m.Rows(bits))
		}
	}
	all.Or(byPosition)
	return byPosition, all, nil
}
