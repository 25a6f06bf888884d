package stages

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/streambed/streambed/stages/source"
)

// Status tells how the pipeline stands; it may be called at any time and does not block on source or lake.
func (p *Pipeline) Status() Status {
	p.mu.Lock()
	r, trouble, stopped, standby, paused := p.current, p.trouble, p.stopped, p.standby, p.between.rests
	p.mu.Unlock()
	s := Status{Pipeline: p.options.Pipeline, Phase: "starting", Trouble: trouble, MemoryLimit: p.options.Memory}
	switch {
	case stopped:
		s.Phase = "stopped"
	case standby:
		s.Phase = "standby"
	case paused:
		s.Phase = "paused"
	}
	if r == nil {
		return s
	}
	r.fill(&s)
	switch {
	case stopped, paused:
	case trouble != "":
		s.Phase = "waiting"
	case r.reader.Streaming():
		s.Phase = "streaming"
	}
	s.Ready = s.Phase == "streaming" && !slices.ContainsFunc(s.Tables, func(t TableStatus) bool { return t.Phase == "copying" })
	return s
}

func (r *run) fill(s *Status) {
	c := r.committer.Status()
	s.Committed, s.Checkpoint, s.CommitTime, s.Known = c.Position, c.Checkpoint, c.CommitTime, c.Known
	s.Commits = c.Commits
	s.LastCommit = CommitDuration{Rows: c.Rows, Waiting: c.WaitTime, Commit: c.SwapTime}
	s.Received, s.Acknowledged, s.SourceEnd = r.reader.Received(), r.reader.Acknowledged(), r.reader.Received()
	decoded := r.decoder.Statistics()
	s.Streamed = StreamedCounts{Transactions: decoded.Streamed, Open: decoded.InProgress, Spilled: decoded.Spilled}
	s.MemoryUsed = r.budget.Used()
	s.Files, s.Bytes = r.pool.Files.Load(), r.pool.Bytes.Load()
	length, limit := r.pool.Queue()
	s.Queues = []QueueStatus{{Name: "reader to decoder", Length: len(r.raw), Limit: cap(r.raw)}, {Name: "batchers to uploaders", Length: length, Limit: limit}}
	batches := QueueStatus{Name: "decoder to batchers"}
	for _, t := range r.registry.all() {
		table := r.tableStatus(t)
		s.Rows.Inserted += table.Rows.Inserted
		s.Rows.Updated += table.Rows.Updated
		s.Rows.Deleted += table.Rows.Deleted
		s.Rows.Copied += table.Rows.Copied
		s.Tables = append(s.Tables, table)
		if length, limit := t.head.Queue(); length >= batches.Length {
			batches.Length, batches.Limit = length, limit // the fullest one tells
		}
	}
	s.Tables = append(s.Tables, r.droppedStatus()...)
	s.Queues = append(s.Queues, batches)
	slices.SortFunc(s.Tables, func(a, b TableStatus) int { return cmp.Compare(a.Name, b.Name) })
}

func (r *run) tableStatus(t *table) TableStatus {
	tail, copier, resyncing := r.registry.newest(t)
	counts := t.head.Counts()
	s := TableStatus{Name: source.Show(t.name()), Phase: "live", AppendOnly: t.seen.Load().AppendOnly, SetAside: tail.SetAside(),
		Rows: RowCounts{Inserted: counts.Inserted.Load(), Updated: counts.Updated.Load(), Deleted: counts.Deleted.Load(), Copied: tail.Counts().Copied.Load()}}
	s.Files = tail.Counts().Files.Load()
	if n := counts.Missing.Load(); n > 0 {
		s.Warnings = append(s.Warnings, warning(n, "changes named rows that the lake did not hold; run verify on this table"))
	}
	if n := tail.Counts().Bent.Load(); n > 0 {
		s.Warnings = append(s.Warnings, warning(n, "values did not fit the lake's types and were bent as the README says"))
	}
	switch {
	case s.SetAside != "":
		s.Phase = "set aside"
	case r.isDropped(t.name()):
		s.Phase = "dropped"
	case resyncing:
		s.Phase = "resyncing"
	case copier != nil && copier.Progress().State != "published":
		s.Phase = "copying"
	}
	if copier != nil {
		p := copier.Progress()
		s.Copy = &CopyStatus{State: p.State, Rows: p.Rows, Bytes: p.Bytes, EstimatedRows: p.EstimatedRows, Fraction: p.Fraction, Remaining: p.Remaining}
	}
	return s
}

func warning(n int64, text string) string { return fmt.Sprintf("%d %s", n, text) }
