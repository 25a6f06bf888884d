package ducklake

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/parquet"
)

var _ formats.Maintainer = (*Lake)(nil)

// rewriting is a Flush or Compact of some tables.
type rewriting struct {
	lake   *Lake
	task   formats.Task
	groups []*group
	report formats.MaintenanceReport
}

// group is files of a table that become one.
type group struct {
	table   formats.TableRef
	sources []source
	file    *dataFile
	schema  int
	// order is set where the file's rows were sorted (see formats.Rewrite).
	order []uint32
}

// source is a file as it was when its rows were read.
type source struct {
	file    *dataFile
	deleted *roaring.Bitmap // shared; nil for none
	offset  uint32
	// partition is that of all its rows; "" for none, or that of an arrangement from before.
	partition string
}

// Prepare implements formats.Maintainer.
func (l *Lake) Prepare(ctx context.Context, m formats.Maintenance) (formats.Prepared, error) {
	if _, err := l.epoch(); err != nil {
		return nil, err
	}
	switch m.Task {
	case formats.Expire:
		return &expiring{lake: l}, nil
	case formats.Orphans:
		return l.prepareSweep(ctx, m)
	case formats.Flush, formats.Compact:
	default:
		return nil, fmt.Errorf("a DuckLake knows no maintenance %q", m.Task)
	}
	work := &rewriting{lake: l, task: m.Task, report: formats.MaintenanceReport{Task: m.Task}}
	for _, inc := range l.visible(m.Table) {
		if err := l.load(ctx, inc); err != nil {
			return nil, err
		}
		if err := work.plan(ctx, inc, m.All); err != nil {
			return nil, fmt.Errorf("cannot %s table %s: %w", m.Task, formatName(inc.state.Table.Name), err)
		}
	}
	if len(work.groups) == 0 {
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

// plan chooses groups of files of a table and rewrites them.
func (w *rewriting) plan(ctx context.Context, inc *incarnation, all bool) error {
	l := w.lake
	l.mu.Lock()
	if w.task == formats.Flush && !all && !l.flushDue(inc) { // often looked at
		l.mu.Unlock()
		return nil
	}
	var sources []source
	for _, f := range inc.files {
		sources = append(sources, source{file: f, deleted: f.bits, partition: f.partition})
	}
	schema, table := inc.schema, inc.state.Table
	l.mu.Unlock()
	arr := l.arranger(table.Name, schema)
	slices.SortFunc(sources, func(a, b source) int {
		if a.file.sequence != b.file.sequence {
			return int(a.file.sequence - b.file.sequence)
		}
		return strings.Compare(a.file.path, b.file.path)
	})
	var chosen [][]source
	if w.task == formats.Flush {
		held := slices.DeleteFunc(sources, func(s source) bool { return s.file.inlined == nil })
		if err := l.findPartitions(ctx, held, schema, arr); err != nil {
			return err
		}
		chosen = flushed(held)
	} else {
		chosen = l.compacted(sources, arr, all)
	}
	for _, sources := range chosen {
		g := &group{table: table, sources: sources, schema: schema.ID}
		if err := l.rewrite(ctx, g, schema, arr); err != nil {
			return err
		}
		w.groups = append(w.groups, g)
	}
	return nil
}

// flushDue reports whether a table has inlined rows enough for a file, or old ones. REQUIRES: mu is held.
func (l *Lake) flushDue(inc *incarnation) bool {
	if l.store == nil {
		return false
	}
	rows, now := int64(0), l.cfg.Now()
	for _, f := range inc.files {
		if f.inlined == nil {
			continue
		}
		if rows += f.rows; rows >= l.store.inlining.FlushRows || now.Sub(f.since) >= l.store.inlining.FlushAge {
			return true
		}
	}
	return false
}

// flushed groups inlined files by partition.
func flushed(sources []source) (out [][]source) {
	byPartition := map[string][]source{}
	for _, s := range sources {
		byPartition[s.partition] = append(byPartition[s.partition], s)
	}
	for _, partition := range sortedKeys(byPartition) {
		out = append(out, byPartition[partition])
	}
	return out
}

// compacted groups stored files that are worth a rewrite, each with others of its partition.
func (l *Lake) compacted(sources []source, arr *arranger, all bool) (out [][]source) {
	target := l.cfg.TargetFileSize
	if arr.sorted() {
		target = min(target, sortedBytes)
	}
	stored := slices.DeleteFunc(slices.Clone(sources), func(s source) bool { return s.file.inlined != nil })
	sizes := make([]formats.FileSize, len(stored))
	for i, s := range stored {
		sizes[i] = formats.FileSize{Rows: s.file.rows, Size: s.file.size, Deleted: s.gone(), Partition: s.partition}
	}
	for _, group := range formats.Compactable(sizes, target, all) {
		var chosen []source
		for _, i := range group {
			chosen = append(chosen, stored[i])
		}
		out = append(out, chosen)
	}
	return out
}

// gone is the number of the file's deleted rows.
func (s *source) gone() int64 {
	if s.deleted == nil {
		return 0
	}
	return int64(s.deleted.GetCardinality())
}

// rewrite writes what is left of a group's files into one, in the table's schema and order.
func (l *Lake) rewrite(ctx context.Context, g *group, schema *formats.Schema, arr *arranger) (err error) {
	size := int64(0)
	for _, s := range g.sources {
		size += s.file.size
	}
	var out interface{ Write([]byte) (int, error) }
	var memory bytes.Buffer
	var disk *os.File
	if out = &memory; size > 8<<20 { // promise 6
		if disk, err = os.CreateTemp("", "streambed-rewrite-"); err != nil {
			return err
		}
		defer os.Remove(disk.Name())
		defer disk.Close()
		out = disk
	}
	w, err := parquet.NewWriter(out, schema.Fields(), parquet.Options{})
	if err != nil {
		return err
	}
	rows := rowSink{writer: w, a: arr, run: sortedRun}
	defer rows.release()
	defaults, release, err := schema.Defaults()
	if err != nil {
		return err
	}
	defer release()
	for i := range g.sources {
		s := &g.sources[i]
		s.offset = uint32(rows.n)
		if err := l.copyRows(ctx, &rows, schema, defaults, s); err != nil {
			return fmt.Errorf("%s: %w", s.file.path, err)
		}
	}
	if err := rows.sort(); err != nil {
		return err
	}
	g.order = rows.order
	partition := g.sources[0].partition
	g.file = &dataFile{partition: partition,
		path: g.table.Location + "/" + arr.folderOf(partition) + "/" + formats.FileKind(g.sources[0].file.path) + "-" + uuid.NewString() + ".parquet"}
	if g.file.rows, g.file.size, g.file.stats, err = w.Close(); err != nil || g.file.rows == 0 {
		return err
	}
	if disk == nil {
		return l.base().Put(ctx, g.file.path, memory.Bytes())
	}
	if err := disk.Close(); err != nil {
		return err
	}
	return l.base().PutFile(ctx, g.file.path, disk.Name())
}

// copyRows appends the rows of a file that are not deleted.
func (l *Lake) copyRows(ctx context.Context, w *rowSink, schema *formats.Schema, defaults map[int]arrow.Array, s *source) error {
	object, err := l.cfg.Store.Open(ctx, s.file.path)
	if err != nil {
		return err
	}
	file, err := parquet.Open(ctx, object)
	if err != nil {
		return err
	}
	defer file.Close()
	if file.Rows() != s.file.rows {
		return fmt.Errorf("it has %d rows, the catalog tells %d", file.Rows(), s.file.rows)
	}
	file.SetDefaults(defaults)
	row := int64(0)
	for batch, err := range file.Batches(ctx, schema.Fields()) {
		if err != nil {
			return err
		}
		err = w.writeLive(batch, row, s.deleted)
		row += batch.NumRows()
		batch.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// Discard implements formats.Prepared.
func (w *rewriting) Discard() {}

// Apply implements formats.Prepared.
func (w *rewriting) Apply(ctx context.Context) ([]formats.Rewrite, formats.MaintenanceReport, error) {
	l := w.lake
	l.committing.Lock()
	defer l.committing.Unlock()
	if l.pending != nil {
		return nil, w.report, fmt.Errorf("%w: the outcome of a checkpoint is not known yet", formats.ErrGivenUp)
	}
	a, err := l.upkeep(w.task)
	if err != nil {
		return nil, w.report, err
	}
	var rewrites []formats.Rewrite
	for _, g := range w.groups {
		moves, err := l.replace(ctx, a, g, w.task)
		if err != nil {
			return nil, w.report, err
		}
		if moves == nil {
			continue // the table has changed in a way that made the work vain
		}
		rewrites = append(rewrites, moves...)
		w.report.Rows += g.file.rows
		w.report.Before += len(g.sources)
		w.report.After++
	}
	if len(a.rows) == 0 {
		return nil, w.report, nil
	}
	w.report.Tables = len(a.rows)
	for _, r := range a.rows {
		if err := r.staged.deleteFiles(r.state.Table); err != nil {
			return nil, w.report, fmt.Errorf("%w: %w", formats.ErrGivenUp, err)
		}
	}
	if err := a.shape(); err != nil {
		return nil, w.report, err
	}
	a.move()
	if err := l.putAll(ctx, a); err != nil {
		return nil, w.report, fmt.Errorf("%w: %w", formats.ErrGivenUp, err)
	}
	if err := l.swap(ctx, a); err != nil {
		return nil, w.report, err
	}
	l.mu.Lock()
	for _, r := range a.rows {
		var own []formats.Rewrite
		for _, m := range rewrites {
			if m.Table.ID == r.state.Table.ID {
				own = append(own, m)
			}
		}
		r.inc.moved.Note(own, a.cp.Number)
	}
	l.mu.Unlock()
	return rewrites, w.report, nil
}

// upkeep makes an attempt that stays at the newest checkpoint.
func (l *Lake) upkeep(task formats.Task) (*attempt, error) {
	epoch, err := l.epoch()
	if err != nil {
		return nil, err
	}
	st := &l.state
	return &attempt{id: uuid.NewString(), epoch: epoch, now: l.cfg.Now(), rows: map[string]*row{}, task: task, kept: l.kept, snapshot: l.snapshot,
		cp:   &formats.Checkpoint{Number: st.Checkpoint, From: st.Position, To: st.Position, CommitTime: st.CommitTime, Known: st.Known},
		mark: &checkpoint{number: st.Checkpoint, position: st.Position, commitTime: st.CommitTime, recorded: l.cfg.Now()}}, nil
}

// replace stages a group: its file takes the place of its sources. Rows that were deleted meanwhile stay deleted. It gives
// nil when the sources are not there any more.
func (l *Lake) replace(ctx context.Context, a *attempt, g *group, task formats.Task) ([]formats.Rewrite, error) {
	inc := l.tables[g.table.ID]
	if inc == nil || !inc.published || inc.schema.ID != g.schema {
		return nil, nil
	}
	if err := l.load(ctx, inc); err != nil {
		return nil, err
	}
	var moves []formats.Rewrite
	gone := roaring.New()
	for _, s := range g.sources {
		f := inc.files[s.file.path]
		if f != s.file { // read again meanwhile, or gone
			return nil, nil
		}
		m := formats.Rewrite{Table: g.table, Old: f.path, New: g.file.path, Offset: s.offset, Order: g.order, Deleted: s.deleted}
		if m.Deleted == nil {
			m.Deleted = roaring.New()
		}
		if f.bits != nil {
			gone.Or(m.Rows(f.bits))
		}
		moves = append(moves, m)
	}
	r, err := l.row(a, g.table)
	if err != nil {
		return nil, err
	}
	if r.staged == nil {
		r.staged = &staged{totals: inc.totals, word: map[formats.Task]string{formats.Flush: "flushed_inlined", formats.Compact: "rewrite_delete"}[task]}
	}
	for _, s := range g.sources {
		r.staged.remove(inc.files[s.file.path])
	}
	if int64(gone.GetCardinality()) == g.file.rows { // nothing is left of it
		for i := range moves {
			all := roaring.New()
			all.AddRange(0, uint64(g.sources[i].file.rows))
			moves[i].New, moves[i].Deleted = "", all
		}
		return moves, nil
	}
	if !gone.IsEmpty() {
		for i := range moves {
			moves[i].Dead = gone
		}
	}
	g.file.sequence = r.head.Sequence + 1
	if !gone.IsEmpty() {
		g.file.bits = gone
	}
	r.staged.added = append(r.staged.added, g.file)
	r.staged.totals.add(g.file, g.file.bits, 1)
	return moves, nil
}
