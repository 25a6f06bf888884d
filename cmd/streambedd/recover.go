package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/streambed/streambed/cmd/internal/config"
	"github.com/streambed/streambed/cmd/internal/lake"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/stages/source"
)

func newRecover(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Make a lost catalog anew from the warehouse",
		Long: "recover is for a catalog that was lost, or was put back from an old copy. It finds in the warehouse the newest\n" +
			"checkpoint that all tables hold whole, writes a catalog of it, and compares its position with what the slot can\n" +
			"still give: the next start goes on from there, and nothing is lost or there twice. Stop the daemon first. It exits\n" +
			"with 3 when a table or the slot needs more than that, and says what.",
		Args: noArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.load(cmd)
		if err != nil {
			return err
		}
		return p.recover(cmd.Context(), cfg)
	}
	return cmd
}

// recover works while it holds both locks of the pipeline: no daemon commits meanwhile.
func (p *program) recover(ctx context.Context, cfg *config.Config) error {
	log, err := newLog(cfg.Log, p.errOut)
	if err != nil {
		return usage(err)
	}
	defer func() { _ = log.Sync() }()
	state, err := lockState(cfg.State)
	if err != nil {
		return err
	}
	defer state.Close()
	lock, err := source.AcquireLock(ctx, sourceConfig(cfg))
	if err != nil {
		return err
	}
	defer lock.Release()
	store, err := lake.OpenStore(ctx, cfg)
	if err != nil {
		return err
	}
	r, err := lake.Recover(ctx, cfg, store, log)
	if errors.Is(err, iceberg.ErrNothingLost) {
		return fmt.Errorf("%w; there is nothing to recover", err)
	}
	if err != nil {
		return err
	}
	damaged := printRecovery(p.out, r)
	if err := proveSlot(ctx, cfg, &r.State); err != nil {
		return findings("the catalog is there again and its tables can be read, but the pipeline cannot go on: %w", err)
	}
	fmt.Fprintf(p.out, "The slot still has everything after %s: start the pipeline with `streambedd run`.\n", r.State.Position)
	if damaged > 0 {
		return findings("files are missing from %s; the next start copies them anew", plural(damaged, "table", "tables"))
	}
	return nil
}

// printRecovery says what came back, and counts the tables that files are missing from.
func printRecovery(w io.Writer, r *iceberg.Recovery) (damaged int) {
	fmt.Fprintf(w, "The catalog of pipeline %s is made anew: lake at %s, checkpoint %d%s.\n", r.State.Pipeline, r.State.Position,
		r.State.Checkpoint, committedAt(r.State.CommitTime))
	if r.Dropped {
		fmt.Fprintln(w, "The last checkpoint was stored for some of its tables only; they were taken back to the one before, and it is made again from the slot.")
	}
	for _, t := range r.Tables {
		fmt.Fprintf(w, "  %s: %s in %s, as of checkpoint %d\n", source.Show(t.Name), plural(int(t.Rows), "row", "rows"),
			plural(int(t.Files), "file", "files"), t.Checkpoint)
		switch {
		case t.Damage != "":
			damaged++
			fmt.Fprintf(w, "    %s; it is copied anew at the next start\n", t.Damage)
		case t.SetAside != "":
			fmt.Fprintf(w, "    set aside: %s\n", t.SetAside)
		}
	}
	return damaged
}

// proveSlot tells why the slot cannot go on from a state; nil when it can.
func proveSlot(ctx context.Context, cfg *config.Config, state *formats.State) error {
	const remedy = "run `streambedd resync --all` to copy every table anew"
	system, err := source.Identify(ctx, cfg.Source.URL)
	if err != nil {
		return err
	}
	if held := state.Identity; held != (formats.Identity{}) &&
		(held.SystemIdentifier != system.SystemIdentifier || held.DatabaseOID != system.DatabaseOID) {
		return fmt.Errorf("the source is another database than the lake was filled from; point source.url at the right one, or %s", remedy)
	}
	conn, err := source.Connect(ctx, cfg.Source.URL, "recover")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	slot, err := source.ReadSlot(ctx, conn, sourceConfig(cfg).Slot)
	if err != nil {
		return err
	}
	if err := slot.Err(); err != nil && state.Position > 0 && !errors.Is(err, source.ErrSlotBusy) {
		return err
	}
	if state.Position > 0 && slot.ConfirmedFlush > state.Position {
		return fmt.Errorf("slot %s was acknowledged up to %s, the warehouse holds everything up to %s: what lies between cannot be had any more; %s",
			slot.Name, slot.ConfirmedFlush, state.Position, remedy)
	}
	return nil
}
