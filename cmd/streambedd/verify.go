package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/streambed/streambed/cmd/internal/lake"
	"github.com/streambed/streambed/stages/verify"
)

func newVerify(p *program) *cobra.Command {
	var table string
	var asJSON bool
	var limit int
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "verify --table schema.table",
		Short: "Compare a table of the lake with its source, row by row, and print the differences",
		Long: "verify reads the table at the source and in the lake, both at one position, by key and value, in bounded memory.\n" +
			"The daemon may run and the source may be in use meanwhile. It exits with 3 when it finds a difference.",
		Args: noArgs,
	}
	cmd.Flags().StringVar(&table, "table", "", `the table, as schema.table; parts with dots in double quotes: 'public."a.b"'`)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	cmd.Flags().IntVar(&limit, "limit", 100, "most differences to print")
	cmd.Flags().DurationVar(&wait, "wait", 30*time.Second, "how long to wait for the lake to hold what the source holds; 0 for not at all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		name, err := tableFlag(table)
		if err != nil {
			return err
		}
		if limit < 1 || wait < 0 {
			return usage(fmt.Errorf("--limit must be at least 1 and --wait not negative"))
		}
		cfg, err := p.load(cmd)
		if err != nil {
			return err
		}
		store, err := lake.OpenStore(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		reader, err := openReaderOn(cmd.Context(), cfg, store)
		if err != nil {
			return err
		}
		if reader == nil {
			return fmt.Errorf("pipeline %s has not written to its lake yet; start it with `streambedd run`", cfg.Pipeline)
		}
		defer reader.Close()
		if wait == 0 {
			wait = -1
		}
		result, err := verify.Verify(cmd.Context(), verify.Options{Source: *sourceConfig(cfg), Reader: reader, Store: store, Table: name,
			Values: valueOptions(cfg.Values), Limit: limit, Wait: wait, Memory: max(16<<20, cfg.Memory/8),
			Progress: func(what string) { fmt.Fprintln(p.errOut, what) }})
		if err != nil {
			return err
		}
		if asJSON {
			e := json.NewEncoder(p.out)
			e.SetIndent("", "  ")
			if err := e.Encode(result); err != nil {
				return err
			}
		} else {
			printResult(p.out, result)
		}
		return verdict(result)
	}
	return cmd
}

func printResult(w io.Writer, r *verify.Result) {
	fmt.Fprintf(w, "%s: %s rows at the source (%s), %s in the lake (%s, checkpoint %d)\n", r.Table,
		number(r.SourceRows), r.SourcePosition, number(r.LakeRows), r.LakePosition, r.Checkpoint)
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	for _, d := range r.Differences {
		fmt.Fprintf(w, "%s: %s\n", d.Kind, d.Key)
		for _, c := range d.Columns {
			fmt.Fprintf(w, "    %s: source %s, lake %s\n", c.Column, c.Source, c.Lake)
		}
		if d.Kind == verify.Count {
			fmt.Fprintf(w, "    source %d times, lake %d times\n", d.SourceRows, d.LakeRows)
		}
	}
	if r.More {
		fmt.Fprintln(w, "and more; --limit shows further ones")
	}
	if !r.CaughtUp {
		fmt.Fprintf(w, "the lake is behind by %s of WAL: differences may be nothing but that; start the daemon, or give it more --wait\n", bytesText(r.Behind))
	}
	if r.Equal() && r.CaughtUp {
		fmt.Fprintln(w, "equal")
	}
}

// verdict makes an error of whatever keeps a result from being a proof that lake and source are equal.
func verdict(r *verify.Result) error {
	switch {
	case len(r.Differences) > 0 && r.More:
		return findings("%s differs from its source in more than %s", r.Table, plural(len(r.Differences), "row", "rows"))
	case len(r.Differences) > 0:
		return findings("%s differs from its source in %s", r.Table, plural(len(r.Differences), "row", "rows"))
	case r.Undecided > 0:
		return findings("%s of %s changed at the source all the time and could not be compared; try again when it is calmer", plural(int(r.Undecided), "row", "rows"), r.Table)
	case !r.CaughtUp:
		return findings("the lake is behind its source, so nothing is proved of %s", r.Table)
	}
	return nil
}
