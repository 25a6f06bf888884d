package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/streambed/streambed/cmd/internal/config"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/source"
)

func newCheck(p *program) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Examine source and configuration; print every finding with the SQL that mends it",
		Long: "check changes nothing. It exits with 3 when a finding would keep the pipeline or a table from working; warnings\n" +
			"alone do not change the exit code.",
		Args: noArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.load(cmd)
		if err != nil {
			return err
		}
		list, err := source.Check(cmd.Context(), sourceConfig(cfg))
		list = append(list, localFindings(cfg)...)
		if asJSON {
			e := json.NewEncoder(p.out)
			e.SetIndent("", "  ")
			if list == nil {
				list = []source.Finding{}
			}
			if err := e.Encode(list); err != nil {
				return err
			}
		} else {
			printFindings(p.out, list)
			printMemory(p.out, cfg)
		}
		if err != nil {
			return err
		}
		if n := countErrors(list); n > 0 {
			return findings("%s must be mended before the pipeline can work", plural(n, "finding", "findings"))
		}
		return nil
	}
	return cmd
}

// sourceConfig is what package source needs of a configuration.
func sourceConfig(cfg *config.Config) *source.Config {
	return &source.Config{URL: cfg.Source.URL, PrimaryURL: cfg.Source.PrimaryURL, Slot: cfg.Source.Slot,
		Publication: cfg.Source.Publication, Tables: cfg.Source.Tables, Exclude: cfg.Source.Exclude, Columns: columnSettings(cfg)}
}

// columnSettings are the settings by column of the tables that have some.
func columnSettings(cfg *config.Config) map[formats.TableName]source.ColumnSettings {
	settings := map[formats.TableName]source.ColumnSettings{}
	for _, t := range cfg.Tables {
		s := source.ColumnSettings{Exclude: t.ExcludeColumns, Numeric: map[string]types.Type{}}
		for column, n := range t.Numeric {
			s.Numeric[column] = numericType(n)
		}
		settings[formats.TableName{Schema: t.Schema, Table: t.Name}] = s
	}
	return settings
}

// numericType is the lake type that a numeric setting asks for.
func numericType(n config.Numeric) types.Type {
	if n.String {
		return types.Type{Kind: types.String}
	}
	return types.Type{Kind: types.Decimal, Precision: n.Precision, Scale: n.Scale}
}

func countErrors(list []source.Finding) int {
	n := 0
	for _, f := range list {
		if f.Severity == source.Error {
			n++
		}
	}
	return n
}

func printFindings(w io.Writer, list []source.Finding) {
	if len(list) == 0 {
		fmt.Fprintln(w, "nothing to mend: source and configuration are fit for the pipeline")
		return
	}
	for _, f := range list {
		fmt.Fprintf(w, "%s: %s: %s\n", f.Severity, f.Subject, f.Text)
		if f.SQL != "" {
			fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(f.SQL, "\n", "\n    "))
		}
	}
}

func printMemory(w io.Writer, cfg *config.Config) {
	pipeline, query := cfg.MemoryShares()
	fmt.Fprintf(w, "memory %s: %s for rows on their way, %s for queries, the rest for encoding, the key index and headroom\n",
		config.FormatSize(cfg.Memory), bytesText(pipeline), bytesText(query))
}
