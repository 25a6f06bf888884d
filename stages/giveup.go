package stages

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streambed/streambed/stages/source"
	"go.uber.org/zap"
)

// ErrSlotGivenUp means that the slot was dropped because the source kept more WAL for it than source.max_slot_wal allows.
var ErrSlotGivenUp = errors.New("the replication slot was given up")

// slotLook is how often the slot's WAL is looked at.
const slotLook = 5 * time.Second

// watchSlot stops the pipeline, with ErrSlotGivenUp as cause, once the source keeps more WAL for it than is allowed: also
// while the pipeline is paused, or store and catalog do not answer. A daemon that stands by leaves that to the one which
// works. It returns when ctx ends, and at once where nothing bounds the WAL.
func (p *Pipeline) watchSlot(ctx context.Context, stop context.CancelCauseFunc) {
	if p.options.Source.MaxSlotWAL <= 0 {
		return
	}
	pool := source.NewPool(p.source.URL, "slot")
	defer pool.Close()
	tick := time.NewTicker(slotLook)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		standby := p.standby
		p.mu.Unlock()
		if standby {
			continue
		}
		state, err := p.readSlot(ctx, pool)
		if err != nil {
			if ctx.Err() == nil {
				p.options.Log.Warn("the WAL that the source keeps for the slot cannot be looked at", zap.Error(err))
			}
			continue
		}
		if state.Exists && state.Retained > p.options.Source.MaxSlotWAL {
			stop(fmt.Errorf("%w: the source kept %d MiB of WAL for slot %s, and source.max_slot_wal allows %d; run `streambedd resync --all`, which makes another slot and copies every table anew",
				ErrSlotGivenUp, state.Retained>>20, p.source.Slot, p.options.Source.MaxSlotWAL>>20))
			return
		}
	}
}

func (p *Pipeline) readSlot(ctx context.Context, pool *source.Pool) (*source.SlotState, error) {
	conn, err := pool.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer pool.Give(conn)
	return source.ReadSlot(ctx, conn, p.source.Slot)
}

// giveUp drops the slot if that is why ctx ended, and gives the reason; nil when the pipeline was just told to stop. No run
// may be under way.
func (p *Pipeline) giveUp(ctx context.Context) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, ErrSlotGivenUp) {
		return nil
	}
	p.setTrouble(cause.Error())
	if err := p.discardSlot(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("%w; but %w", cause, err)
	}
	return cause
}
