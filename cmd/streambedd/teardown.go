package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/streambed/streambed/stages/source"
)

func newTeardown(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "teardown",
		Short: "Remove the pipeline's slot and publications from the source; the lake stays",
		Long: "teardown ends a pipeline for good: afterwards the source keeps no WAL for it, and its lake can be read but not\n" +
			"continued. Stop the daemon first.",
		Args: noArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.load(cmd)
		if err != nil {
			return err
		}
		if _, err := askStatus(cmd.Context(), cfg.State); err == nil {
			return errors.New("the daemon is running on this pipeline; stop it first, so that it does not make slot and publications anew")
		}
		done, err := source.Teardown(cmd.Context(), sourceConfig(cfg))
		for _, line := range done {
			fmt.Fprintln(p.out, line)
		}
		return err
	}
	return cmd
}
