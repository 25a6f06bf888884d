package decoder

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/message"
)

// Statistics are counts since Run began. Rows and truncates are those that went to a table.
type Statistics struct {
	Inserts, Updates, Deletes, Truncates int64
	// Transactions counts those with or without rows; Skipped those that the lake held already.
	Transactions, Skipped int64
	// Streamed counts those that came in blocks before their commit, InProgress those that have come so far; Spilled is
	// what went to the local disk of them, in bytes.
	Streamed, InProgress, Spilled int64
	// Cuts counts cuts, Rows and Bytes what they held.
	Cuts, Rows, Bytes int64
	// End is the highest position the server told in a keepalive; CutEnd that of the last cut.
	End, CutEnd lsn.LSN
}

type counters struct {
	inserts, updates, deletes, truncates atomic.Int64
	transactions, skipped                atomic.Int64
	streamed, openLogs, spilled          atomic.Int64
	cuts, rows, bytes                    atomic.Int64
	end, cutEnd                          atomic.Uint64
}

// Statistics gives the counts of this moment. It may be called from any goroutine.
func (d *Decoder) Statistics() Statistics {
	c := &d.stats
	return Statistics{
		Inserts: c.inserts.Load(), Updates: c.updates.Load(), Deletes: c.deletes.Load(), Truncates: c.truncates.Load(),
		Transactions: c.transactions.Load(), Skipped: c.skipped.Load(),
		Streamed: c.streamed.Load(), InProgress: c.openLogs.Load(), Spilled: c.spilled.Load(),
		Cuts: c.cuts.Load(), Rows: c.rows.Load(), Bytes: c.bytes.Load(),
		End: lsn.LSN(c.end.Load()), CutEnd: lsn.LSN(c.cutEnd.Load()),
	}
}

func (c *counters) row(o message.Operation) {
	switch o {
	case message.Insert:
		c.inserts.Add(1)
	case message.Update:
		c.updates.Add(1)
	case message.Delete:
		c.deletes.Add(1)
	}
}

func (c *counters) transaction(skipped bool) {
	c.transactions.Add(1)
	if skipped {
		c.skipped.Add(1)
	}
}

func (c *counters) cut(m *message.Cut) {
	c.cuts.Add(1)
	c.rows.Add(m.Rows)
	c.bytes.Add(m.Bytes)
	c.cutEnd.Store(uint64(m.End))
}

// observations are pairs of source position and time seen on another connection.
type observations struct {
	any   atomic.Bool
	mu    sync.Mutex
	queue []observation
}

type observation struct {
	end lsn.LSN
	at  time.Time
}

// observationsKept bounds the queue, for a stream that is far behind.
const observationsKept = 256

// Observe tells that the source's WAL ended at end when its clock showed at, as read on another connection: once the
// stream has passed end, nothing committed before at is missing. A keepalive's clock cannot say as much, for a server may
// send one in the middle of a backlog; from the first call on, keepalives do not move Cut.Known any more.
func (d *Decoder) Observe(end lsn.LSN, at time.Time) {
	o := &d.seen
	o.any.Store(true)
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.queue); n > 0 && o.queue[n-1].end >= end {
		// Nothing was written since, so this time is as good.
		o.queue[n-1].at = at
		return
	}
	if len(o.queue) == observationsKept {
		o.queue[observationsKept-1] = observation{end, at}
		return
	}
	o.queue = append(o.queue, observation{end, at})
}

func (o *observations) used() bool { return o.any.Load() }

// reached takes the observations up to safe off the queue and gives the last one's time.
func (o *observations) reached(safe lsn.LSN) (at time.Time, ok bool) {
	if !o.any.Load() {
		return time.Time{}, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for n < len(o.queue) && o.queue[n].end <= safe {
		at, ok = o.queue[n].at, true
		n++
	}
	o.queue = append(o.queue[:0], o.queue[n:]...)
	return at, ok
}
