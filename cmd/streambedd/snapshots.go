package main

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages/source"
)

func newSnapshots(p *program) *cobra.Command {
	var table string
	cmd := &cobra.Command{
		Use:   "snapshots --table schema.table",
		Short: "List the kept snapshots of a table, for time travel",
		Args:  noArgs,
	}
	cmd.Flags().StringVar(&table, "table", "", `the table, as schema.table; parts with dots in double quotes: 'public."a.b"'`)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		name, err := tableFlag(table)
		if err != nil {
			return err
		}
		cfg, err := p.load(cmd)
		if err != nil {
			return err
		}
		reader, err := openReader(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		if reader == nil {
			return fmt.Errorf("pipeline %s has not written to its lake yet; start it with `streambedd run`", cfg.Pipeline)
		}
		defer reader.Close()
		list, err := reader.Snapshots(cmd.Context(), name)
		if errors.Is(err, formats.ErrNoSuchTable) {
			return fmt.Errorf("the lake shows no table %s; `streambedd status` lists those it has", source.Show(name))
		}
		if err != nil {
			return fmt.Errorf("the snapshots of %s cannot be read: %w", source.Show(name), err)
		}
		w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "CHECKPOINT\tLSN\tSOURCE COMMIT TIME\tWRITTEN\tOPERATION\tROWS\tFILES\tDELETED\tSNAPSHOT")
		for _, s := range list {
			committed := "-"
			if !s.CommitTime.IsZero() {
				committed = s.CommitTime.UTC().Format("2006-01-02 15:04:05.000000Z")
			}
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\n", s.Checkpoint, s.Position, committed,
				s.Time.UTC().Format("2006-01-02 15:04:05.000Z"), s.Operation, s.Rows, s.Files, s.Deleted, s.ID)
		}
		return w.Flush()
	}
	return cmd
}

// tableFlag reads the value of --table.
func tableFlag(text string) (formats.TableName, error) {
	if text == "" {
		return formats.TableName{}, usage(errors.New("--table is missing; name a table, such as --table public.orders"))
	}
	name, err := source.ParseName(text)
	if err != nil {
		return formats.TableName{}, usage(fmt.Errorf("--table: %w", err))
	}
	return name, nil
}
