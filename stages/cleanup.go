package stages

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages/source"
	"go.uber.org/zap"
)

// Cleanup removes a table from the lake that the pipeline does not follow any more: it was dropped at the source, or is
// excluded. Readers lose it at once; its files are deleted when grace has passed, for queries under way. The stream is
// interrupted for a moment. It blocks on source and lake; a running pipeline is required.
func (p *Pipeline) Cleanup(ctx context.Context, name formats.TableName, grace time.Duration) error {
	return p.alone(ctx, func(ctx context.Context) error { return p.cleanup(ctx, name, grace) })
}

func (p *Pipeline) cleanup(ctx context.Context, name formats.TableName, grace time.Duration) error {
	followed, err := p.discover(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(followed, func(t source.Table) bool { return t.Name == name }) {
		return fmt.Errorf("table %s is followed by this pipeline: drop it at the source, or put it into source.exclude and restart, before it is cleaned up", source.Show(name))
	}
	state, err := p.options.Lake.Claim(ctx)
	if err != nil {
		return err
	}
	cp := &formats.Checkpoint{Number: state.Checkpoint + 1, From: state.Position, To: state.Position, CommitTime: state.CommitTime, Known: state.Known}
	var gone []formats.TableRef
	for _, held := range state.Tables {
		switch {
		case held.Table.Name != name:
			continue
		case slices.ContainsFunc(followed, func(t source.Table) bool { return t.OID == held.OID }):
			return fmt.Errorf("table %s has another name at the source now and is followed: try again when the lake shows it under that one", source.Show(name))
		case held.Phase != formats.Copying:
			cp.Changes = append(cp.Changes, formats.TableChange{Table: held.Table, Unpublish: true})
		}
		cp.Forget = append(cp.Forget, held.Table.ID)
		gone = append(gone, held.Table)
	}
	if len(gone) == 0 {
		return fmt.Errorf("the lake has no table %s; `streambedd status` lists those it has", source.Show(name))
	}
	// Noted first: should we end before the commit, the note is of a table that is still there, and is dropped then.
	if err := p.trash.throw(ctx, gone, grace); err != nil {
		return err
	}
	if err := p.options.Lake.Commit(ctx, cp); err != nil {
		return err
	}
	p.options.Log.Info("table cleaned up: readers do not see it any more, its files go when the grace has passed",
		zap.String("table", source.Show(name)), zap.Duration("grace", grace))
	p.trash.look()
	return nil
}

// discover lists the tables that the source has for this pipeline now.
func (p *Pipeline) discover(ctx context.Context) ([]source.Table, error) {
	conn, err := source.Connect(ctx, p.source.URL, "control")
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return source.Discover(ctx, conn, &p.source)
}
