package stages

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/source"
	"go.uber.org/zap"
)

// Reset has every table copied anew at the next start, from a slot that is made anew where it is gone, lost or no longer
// has what the lake needs, and from another source if that is what the configuration names now. It is for a pipeline that
// cannot go on (ErrSlotPast, ErrAnotherSource) and does not run. The tables stay readable as they are until their new
// copies are whole. It blocks on source and lake.
func Reset(ctx context.Context, o Options) error {
	p, err := New(o)
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.takeLock(ctx); err != nil {
		return err
	}
	return p.beginAnew(ctx)
}

// beginAnew gives up the stream as it was: another slot is made, and every table is copied anew by the next run. It
// claims the lake, so no run may be under way.
func (p *Pipeline) beginAnew(ctx context.Context) error {
	o := &p.options
	state, err := o.Lake.Claim(ctx)
	if err != nil {
		return err
	}
	system, err := source.Identify(ctx, p.source.URL)
	if err != nil {
		return err
	}
	position, err := p.freshSlot(ctx)
	if err != nil {
		return err
	}
	if err := o.Lake.SetIdentity(ctx, system.Identity); err != nil {
		return err
	}
	cp := &formats.Checkpoint{Number: state.Checkpoint + 1, From: state.Position, To: position, CommitTime: state.CommitTime, Known: state.Known}
	for _, t := range state.Tables {
		if t.Phase == formats.Copying {
			cp.Forget = append(cp.Forget, t.Table.ID)
			continue
		}
		t.Resync = true
		t.SetAside = "the stream was begun anew and the table is copied anew; it stays as of its last checkpoint until the new copy is whole"
		cp.States = append(cp.States, t)
	}
	o.Log.Info("every table is copied anew at the next start", zap.Stringer("from", position), zap.Int("tables", len(cp.States)))
	return o.Lake.Commit(ctx, cp)
}

// freshSlot makes the slot anew, and gives the position from which it has everything. The old one is of no use: it may
// begin before our publications, which the server then fails to find, or not be decodable at all.
func (p *Pipeline) freshSlot(ctx context.Context) (lsn.LSN, error) {
	conn, err := source.Connect(ctx, p.source.URL, "control")
	if err != nil {
		return 0, err
	}
	defer source.CloseConn(conn)
	if err := p.ensurePublications(ctx, conn); err != nil {
		return 0, err
	}
	if err := p.dropSlot(ctx, conn); err != nil {
		return 0, err
	}
	_, position, err := source.EnsureSlot(ctx, conn, &p.source)
	return position, err
}

// dropSlot drops the slot if it is ours, as soon as nobody reads it: the walsender of a run that has just ended may hold it
// for a moment.
func (p *Pipeline) dropSlot(ctx context.Context, conn *pgx.Conn) error {
	patience, cancel := context.WithTimeoutCause(ctx, slotPatience, fmt.Errorf("slot %s is still read by another session after %s", p.source.Slot, slotPatience))
	defer cancel()
	held, err := source.AwaitSlot(patience, conn, p.source.Slot, func(s *source.SlotState) {
		p.options.Log.Info("waiting for the slot's reader to end", zap.String("slot", s.Name), zap.Int32("backend", s.ActivePID))
	})
	if err != nil {
		return err
	}
	if why := held.Err(); errors.Is(why, source.ErrSlotForeign) {
		return why
	}
	return source.DropSlot(ctx, conn, p.source.Slot)
}

// slotPatience is how long a slot that is to be dropped is waited for.
const slotPatience = 30 * time.Second

// ensurePublications makes our publications where they are missing, on the primary if conn, which is to source.url, is to a
// standby: when it returns, they can be seen there. A primary that does not answer matters only if one is missing.
func (p *Pipeline) ensurePublications(ctx context.Context, conn *pgx.Conn) error {
	err := source.EnsurePublications(ctx, conn, &p.source)
	if !errors.Is(err, source.ErrReadOnly) {
		return err
	}
	primary, done, err := source.Primary(ctx, conn, &p.source, "control")
	if err != nil {
		return err
	}
	defer done()
	if err := source.EnsurePublications(ctx, primary, &p.source); err != nil {
		return err
	}
	return source.AwaitReplay(ctx, conn, primary)
}
