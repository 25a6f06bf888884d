package decoder

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/message"
)

// progress is how far the stream has come, and what the next cut will say.
type progress struct {
	sequence int64
	// commit is the last transaction with rows since the last cut; 0 when there was none.
	commit lsn.LSN
	// safe is the position before which nothing is missing, once all rows sent so far are durable: the end of the last
	// transaction, or the server's position in a keepalive since. cutEnd is the last cut's.
	safe, cutEnd lsn.LSN
	// commitTime is the running maximum, since the source's commit times are not monotone. known is the source time up to
	// which nothing is missing, cutKnown the last cut's.
	commitTime, known, cutKnown time.Time
	// rows and bytes count since the last cut.
	rows, bytes int64
	// lastCut is when the last cut was made, lastData the last one that a table owed a part to.
	lastCut, lastData time.Time
	// nudged asks for a cut at the next chance.
	nudged bool

	// heard is when the last keepalive came, heardEnd its position; asked tells that we asked for the next one at
	// lastAsked.
	heard     time.Time
	heardEnd  lsn.LSN
	asked     bool
	lastAsked time.Time
	// copyChecked is when Router.Copying was last asked without a cut.
	copyChecked time.Time
}

// committed notes the end of a transaction. A cut is a barrier between transactions (promise 3), so this and keepalives
// outside a transaction are the only places where safe moves.
func (p *progress) committed(c Commit, rows bool) {
	p.safe = max(p.safe, c.End)
	if rows {
		p.commit = c.Commit
	}
	if c.Time.After(p.commitTime) {
		p.commitTime = c.Time
	}
	if p.commitTime.After(p.known) {
		p.known = p.commitTime
	}
}

// atCommit cuts behind a transaction when it is time.
func (d *Decoder) atCommit(ctx context.Context) error {
	if len(d.touched) == 0 {
		return nil
	}
	p, f := &d.progress, d.config.Flush
	if p.nudged || d.now.Sub(p.lastData) >= f.Interval || f.Rows > 0 && p.rows >= f.Rows || f.Bytes > 0 && p.bytes >= f.Bytes {
		return d.cut(ctx, d.config.Router.Copying())
	}
	return nil
}

// keepalive takes the server's position. Inside a transaction, or a block of one, it says nothing about what has been sent.
func (d *Decoder) keepalive(m *message.RawMessage) {
	p := &d.progress
	silent := m.End == p.heardEnd
	asked := p.asked
	p.heard, p.heardEnd, p.asked = d.now, m.End, false
	d.stats.end.Store(uint64(max(m.End, lsn.LSN(d.stats.end.Load()))))
	if d.tx.open || d.block != nil {
		return
	}
	// A server that has caught up says so unasked. Its answer to a question may come from the middle of a backlog, unless
	// its position has not moved since.
	if m.End >= p.safe && !m.ReplyRequested && (!asked || silent) && !d.seen.used() && m.ServerTime.After(p.known) {
		p.known = m.ServerTime
	}
	p.safe = max(p.safe, m.End)
	if m.ReplyRequested && p.safe > p.cutEnd {
		// The server may be waiting for this acknowledgement before it shuts down.
		p.nudged = true
	}
}

// due makes what time has made due: chunks that have waited long enough, and cuts, if no transaction is open.
func (d *Decoder) due(ctx context.Context) error {
	if d.open > 0 && d.now.Sub(d.openSince) >= d.config.Linger {
		if err := d.sendAll(ctx); err != nil {
			return err
		}
	}
	p := &d.progress
	select {
	case <-d.nudge:
		p.nudged = true
	default:
	}
	if d.tx.open {
		return nil // also a nudge waits for the transaction's end
	}
	if at, ok := d.seen.reached(p.safe); ok && at.After(p.known) {
		p.known = at
	}
	if len(d.touched) > 0 {
		if p.nudged || d.now.Sub(p.lastData) >= d.config.Flush.Interval {
			return d.cut(ctx, d.config.Router.Copying())
		}
		return nil
	}
	return d.idle(ctx)
}

// idle makes a cut without rows: to move the position, and for tables that owe a part to every cut.
func (d *Decoder) idle(ctx context.Context) error {
	p := &d.progress
	moved := p.safe > p.cutEnd || p.known.After(p.cutKnown)
	since := d.now.Sub(p.lastCut)
	switch {
	case p.nudged:
		copying := d.config.Router.Copying()
		if moved || len(copying) > 0 {
			return d.cut(ctx, copying)
		}
		p.nudged = false
	case moved && since >= d.config.IdleEvery:
		return d.cut(ctx, d.config.Router.Copying())
	case since >= d.config.Flush.Interval && d.now.Sub(p.copyChecked) >= copyCheck:
		p.copyChecked = d.now
		if copying := d.config.Router.Copying(); len(copying) > 0 {
			return d.cut(ctx, copying)
		}
	}
	return nil
}

const (
	// copyCheck is how often Router.Copying is asked at most.
	copyCheck = 50 * time.Millisecond
	// askEvery is how often a keepalive is asked for at most.
	askEvery = 200 * time.Millisecond
	// tick is the longest wait for input without looking at what is due.
	tick = 500 * time.Millisecond
)

// cut puts a cut behind everything sent so far. REQUIRES: no transaction is open. Each table that was touched since the
// last cut, or is in copying, gets it once, behind its rows.
func (d *Decoder) cut(ctx context.Context, copying []*message.Route) error {
	if err := d.sendAll(ctx); err != nil {
		return err
	}
	for _, route := range copying {
		d.touch(d.target(route))
	}
	p := &d.progress
	c := message.NewCut(len(d.touched))
	p.sequence++
	c.Sequence, c.Commit, c.End = p.sequence, p.commit, p.safe
	c.CommitTime, c.Known = p.commitTime, p.known
	c.Rows, c.Bytes = p.rows, p.bytes
	if err := send(ctx, d.cuts, c); err != nil {
		return err
	}
	for _, t := range d.touched {
		if err := send[message.TableMessage](ctx, t.route.C, c); err != nil {
			return err
		}
	}
	p.lastCut = d.now
	if len(d.touched) > 0 {
		p.lastData = d.now
	}
	d.prune()
	for _, t := range d.touched {
		t.touched = false
	}
	d.touched = d.touched[:0]
	p.commit, p.rows, p.bytes, p.nudged = 0, 0, 0, false
	p.cutEnd, p.cutKnown = c.End, c.Known
	d.stats.cut(c)
	if ce := d.config.Log.Check(zap.DebugLevel, "cut"); ce != nil {
		ce.Write(zap.Int64("sequence", c.Sequence), zap.Stringer("end", c.End), zap.Int64("rows", c.Rows))
	}
	return nil
}

// patience is how long to wait for input before due is called.
func (d *Decoder) patience() time.Duration {
	p := &d.progress
	wait := min(tick, max(d.config.Flush.Interval, copyCheck))
	if d.open > 0 {
		wait = min(wait, d.openSince.Add(d.config.Linger).Sub(d.now))
	}
	if !d.tx.open && len(d.touched) > 0 {
		wait = min(wait, p.lastData.Add(d.config.Flush.Interval).Sub(d.now))
	}
	return max(wait, 0)
}

// inquire asks the server for its position when it is needed and nothing comes: while a table is copied, which ends at a
// position that an idle source would never be seen to reach, and so that a silent source's clock is known.
func (d *Decoder) inquire() {
	p := &d.progress
	if d.config.RequestKeepalive == nil || d.tx.open || d.now.Sub(p.lastAsked) < askEvery {
		return
	}
	if d.now.Sub(max2(p.heard, p.lastAsked)) < d.config.IdleEvery/2 && len(d.config.Router.Copying()) == 0 {
		return
	}
	p.asked, p.lastAsked = true, d.now
	d.config.RequestKeepalive()
}

func max2(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
