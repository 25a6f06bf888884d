package batcher

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/keyindex"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/rows"
	"github.com/streambed/streambed/stages/uploader"
)

const noEntry = -1

// openRow is a row that waits to be sealed.
type openRow struct {
	tuple []byte
	// entry is the row's key in the cut; noEntry for tables without keys.
	entry int32
	// base is the entry whose row in the lake holds the row's unchanged TOAST values; noEntry for none. When that row is
	// in a segment of this same cut, baseSegment and baseRow name it.
	base        int32
	baseSegment int32
	baseRow     uint32
	// xid is the row's transaction, kept while it may still turn out to be part of a copy's snapshot.
	xid  uint32
	dead bool
}

// openSegment collects rows until they are sealed.
type openSegment struct {
	layout *rows.Layout
	rows   []openRow
	alive  int
	// bytes is the size of the tuples' chunks, cost what they hold of the budget.
	bytes, cost int64
}

func (o *openSegment) add(r openRow) uint32 {
	o.rows = append(o.rows, r)
	o.alive++
	return uint32(len(o.rows) - 1)
}

// drop gives the segment's rows up.
func (o *openSegment) drop(b *Batcher) {
	b.cfg.Budget.Release(o.cost)
	*o = openSegment{}
	b.openBytes.Store(0)
	b.openCost.Store(0)
}

// sealed is a segment of the cut under way that has gone to the uploaders.
type sealed struct {
	segment *message.Segment
	path    string
	file    uint64
	// entries[i] is the key of the file's row i, kept for tables whose rows are found by content.
	entries []int32
}

// seal sends the open rows to the uploaders, as one data file or one for each partition. Positions of keys in the cut move
// from the open segment to the file.
func (b *Batcher) seal(ctx context.Context) error {
	o := &b.open
	if len(o.rows) == 0 {
		if o.cost > 0 {
			o.drop(b)
		}
		return nil
	}
	if err := b.findBases(); err != nil {
		return err
	}
	if o.alive == 0 {
		o.drop(b)
		return nil
	}
	files, err := b.arrange(o)
	if err != nil {
		return err
	}
	// The tuples of all files share what they hold of the budget.
	var unreleased atomic.Int64
	unreleased.Store(int64(len(files)))
	budget, cost := b.cfg.Budget, o.cost
	release := func() {
		if unreleased.Add(-1) == 0 {
			budget.Release(cost)
		}
	}
	jobs := make([]*uploader.Job, len(files))
	for i, f := range files {
		jobs[i] = b.sealFile(o, f, release)
	}
	*o = openSegment{}
	b.openBytes.Store(0)
	b.openCost.Store(0)
	for _, job := range jobs {
		if err := b.cfg.Pool.Submit(ctx, job); err != nil {
			return err
		}
	}
	return nil
}

// sealFile makes rows of the open segment a data file of the cut.
func (b *Batcher) sealFile(o *openSegment, arranged formats.ArrangedRows, release func()) *uploader.Job {
	s := sealed{segment: message.NewSegment(), path: fmt.Sprintf("%s/%s/stream-%s.parquet", b.state.Table.Location, arranged.Folder, uuid.NewString())}
	s.file = keyindex.FileID(s.path)
	job := &uploader.Job{Segment: s.segment, Path: s.path, Layout: o.layout, Partition: arranged.Partition,
		Rows: make([]uploader.Row, 0, len(arranged.Rows)), Release: release}
	number := int32(len(b.cut.segments))
	keepEntries := b.fullRow()
	var runs []xidRun
	for _, i := range arranged.Rows {
		r := &o.rows[i]
		at := uint32(len(job.Rows))
		job.Rows = append(job.Rows, uploader.Row{Tuple: r.tuple, Base: b.baseOf(r)})
		if keepEntries {
			s.entries = append(s.entries, r.entry)
		} else if r.entry != noEntry {
			b.cut.entries[r.entry].at = place{segment: number, row: at}
		}
		if b.copy != nil {
			runs = addRun(runs, r.xid, at)
		}
	}
	if b.copy != nil && b.copy.snapshotPending() {
		b.copy.ambiguous = append(b.copy.ambiguous, ambiguousFile{path: s.path, runs: runs})
	}
	job.Bent = func(counts []int64) {
		for _, n := range counts {
			b.counts.Bent.Add(n)
		}
	}
	b.cut.segments = append(b.cut.segments, s)
	b.files.add(s.path, s.segment)
	return job
}

// baseOf names the lake row of a row's unchanged values; findBases has looked it up.
func (b *Batcher) baseOf(r *openRow) uploader.BaseRow {
	if r.base == noEntry {
		return uploader.BaseRow{}
	}
	if r.baseSegment >= 0 {
		s := &b.cut.segments[r.baseSegment]
		return uploader.BaseRow{Path: s.path, Row: r.baseRow, After: s.segment}
	}
	p := b.cut.entries[r.base].base[0]
	file := b.files[p.File]
	return uploader.BaseRow{Path: file.path, Row: p.Row, After: file.pending()}
}

// findBases looks up the keys whose unchanged values the open rows need, and takes out rows that have none.
func (b *Batcher) findBases() error {
	var need []int32
	for i := range b.open.rows {
		if r := &b.open.rows[i]; !r.dead && r.base != noEntry && r.baseSegment < 0 {
			need = append(need, r.base)
		}
	}
	if len(need) == 0 {
		return nil
	}
	if err := b.lookup(need); err != nil {
		return err
	}
	for i := range b.open.rows {
		r := &b.open.rows[i]
		if r.dead || r.base == noEntry || r.baseSegment >= 0 || len(b.cut.entries[r.base].base) > 0 {
			continue
		}
		if b.copy == nil {
			return tableError("a row came with unchanged TOAST values, but the lake holds no earlier row with its key")
		}
		// The row has not been copied yet, or moved into a page already read: its key is read once more at the end.
		if err := b.copy.leaveUnresolved(b, r); err != nil {
			return err
		}
		r.dead = true
		b.open.alive--
		if r.entry != noEntry {
			b.cut.entries[r.entry].at = nowhere
		}
	}
	return nil
}
