package message

import (
	"context"
	"sync"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/lsn"
)

// Cut is a barrier between transactions: everything before it becomes visible together, in one checkpoint (promise 3).
// The decoder sends the same Cut to the committer and to each table that owes a part; every one of those answers it
// exactly once, also when its table has been set aside or dropped meanwhile.
type Cut struct {
	// Sequence counts the cuts of one run of the pipeline from 1.
	Sequence int64
	// Commit is the commit LSN of the last transaction before the cut, End the position the slot may be acknowledged at
	// once the checkpoint is durable. An idle cut holds no transaction: Commit is zero.
	Commit, End lsn.LSN
	// CommitTime is the running maximum of the source's commit times, Known the source time up to which nothing is
	// missing (>= CommitTime).
	CommitTime, Known time.Time
	// Rows and Bytes count the changes since the cut before.
	Rows, Bytes int64

	mu      sync.Mutex
	waiting int
	parts   []*Part
	ready   chan struct{}
}

// NewCut makes a cut that waits for the given number of parts.
func NewCut(parts int) *Cut {
	c := &Cut{waiting: parts, ready: make(chan struct{})}
	if parts == 0 {
		close(c.ready)
	}
	return c
}

// Expect makes the cut wait for one more part. Only one who owes a part may call it, before answering.
func (c *Cut) Expect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == 0 {
		panic("a cut was asked to wait for more after it was complete")
	}
	c.waiting++
}

// Answer hands in one table's part; nil for a table that has nothing to add. It never blocks. An answer more than was
// asked for is a programming error and panics.
func (c *Cut) Answer(p *Part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == 0 {
		panic("a cut was answered more often than it asked")
	}
	if p != nil {
		c.parts = append(c.parts, p)
	}
	if c.waiting--; c.waiting == 0 {
		close(c.ready)
	}
}

// Parts waits until every table has answered and gives the parts, in no order.
func (c *Cut) Parts(ctx context.Context) ([]*Part, error) {
	select {
	case <-c.ready:
		return c.parts, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Ready reports whether every table has answered.
func (c *Cut) Ready() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// Part is one table's share of a cut. Its segments may still be on their way to the store.
type Part struct {
	Change   formats.TableChange
	Segments []*Segment
	// Keys become the change's Keys: files of the columns with the field ids KeyFields.
	Keys      []*Segment
	KeyFields []int
	// State is the table's state row to write with the checkpoint; nil when unchanged.
	State *formats.TableState
	// Forget names incarnations whose state rows go; Unpublish those among them that are visible under another name than
	// the part's table.
	Forget    []string
	Unpublish []formats.TableRef
	// Committed is called after the checkpoint is durable, in the order of cuts; nil when there is nothing to do. last is
	// false for a part that shared its swap with a later part of the same table; with the last one come the files of the
	// table that the commit replaced. It may block on the table's batcher and the store.
	Committed func(ctx context.Context, last bool, rewrites []formats.Rewrite) error
	// Failed is called instead when one of the segments could not be written because of the table's own values: the
	// table is set aside (promise 7) and the state that says so returned.
	Failed func(err error) *formats.TableState
}

// Segment is a piece of a table that becomes one data file. It is created by a batcher, filled by an uploader, and
// waited for by the committer.
type Segment struct {
	done chan struct{}
	file formats.DataFile
	err  error
}

// NewSegment makes an unfinished segment.
func NewSegment() *Segment { return &Segment{done: make(chan struct{})} }

// Finish sets the result; it is called once.
func (s *Segment) Finish(file formats.DataFile, err error) {
	s.file, s.err = file, err
	close(s.done)
}

// Stored reports whether the segment has been stored, without waiting.
func (s *Segment) Stored() bool {
	select {
	case <-s.done:
		return s.err == nil
	default:
		return false
	}
}

// Wait blocks until the segment is stored or ctx ends.
func (s *Segment) Wait(ctx context.Context) (formats.DataFile, error) {
	select {
	case <-s.done:
		return s.file, s.err
	case <-ctx.Done():
		return formats.DataFile{}, context.Cause(ctx)
	}
}
