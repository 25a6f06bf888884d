package stages

import (
	"context"
	"errors"
	"fmt"

	"github.com/streambed/streambed/stages/reader"
	"github.com/streambed/streambed/stages/source"
)

// mend removes what a run ended on and the next one would end on too, where nobody has to be asked. It gives whether
// there was progress, and the error that is left.
func (p *Pipeline) mend(ctx context.Context, r *run, failed error) (progressed bool, err error) {
	held := r.committer.Status()
	switch {
	case ctx.Err() != nil:
	case errors.Is(failed, reader.ErrUndecodable) && held.Position == 0:
		// Nothing has been taken from the slot yet: another one is as good.
		if err := p.discardSlot(ctx); err != nil {
			return false, err
		}
		return true, fmt.Errorf("the slot, from which nothing had been taken yet, is made anew: %v", failed)
	case errors.Is(failed, reader.ErrPublicationMissing):
		// The server looks for the publication as its catalog was when the changes were made: from this slot it never gets
		// past those made while there was none, even if there is one again. Those changes are lost to the stream.
		if err := p.beginAnew(ctx); err != nil {
			return false, fmt.Errorf("a publication was dropped while the pipeline followed it: %w", err)
		}
		return true, fmt.Errorf("a publication was dropped while the pipeline followed it, and changes made meanwhile never reach the stream; the slot is made anew and every table is copied anew: %v", failed)
	}
	return held.Commits > 0, failed
}

func (p *Pipeline) discardSlot(ctx context.Context) error {
	conn, err := source.Connect(ctx, p.source.URL, "control")
	if err != nil {
		return err
	}
	defer source.CloseConn(conn)
	return p.dropSlot(ctx, conn)
}
