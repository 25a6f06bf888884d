package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/streambed/streambed/cmd/internal/config"
)

// version is set by the linker.
var version = "development"

// program is what the commands share: where they read their settings and where they write to.
type program struct {
	env         []string
	out, errOut io.Writer
}

func newRoot(p *program) *cobra.Command {
	root := &cobra.Command{
		Use:   "streambedd",
		Short: "Stream a Postgres database into open lake tables, exactly once",
		Long: "streambedd follows a Postgres database and keeps a lake of open tables equal to it.\n" +
			"Without a command it runs the pipeline, as `streambedd run` does.",
		Version:       version,
		Args:          noArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return p.run(cmd) },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(fmt.Errorf("%w; `%s --help` lists the flags", err, cmd.CommandPath()))
	})
	config.RegisterFlags(root.PersistentFlags())
	runFlags(root)
	root.AddCommand(newRun(p), newCheck(p), newStatus(p), newSnapshots(p), newVerify(p), newResync(p), newPause(p), newResume(p), newCleanup(p), newRecover(p), newMaintain(p), newTeardown(p))
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SuggestionsMinimumDistance = 2
	return root
}

// load reads the configuration that the command's flags name, refuses what this version cannot do, and passes warnings
// on.
func (p *program) load(cmd *cobra.Command) (*config.Config, error) {
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(path, p.env, cmd.Flags())
	if err != nil {
		return nil, usage(fmt.Errorf("the configuration is wrong:\n%w", err))
	}
	if cannot := cfg.Unsupported(); len(cannot) > 0 {
		return nil, usage(fmt.Errorf("the configuration asks for what this version cannot do:\n%s", strings.Join(cannot, "\n")))
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintln(p.errOut, "streambedd: warning:", w)
	}
	return cfg, nil
}

// noArgs refuses arguments that no command takes, and names the command that may have been meant.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	near := cmd.SuggestionsFor(args[0])
	if len(near) > 0 {
		return usage(fmt.Errorf("unknown command %q; did you mean %s?", args[0], near[0]))
	}
	return usage(fmt.Errorf("%q is not expected here; `%s --help` shows how the command is used", args[0], cmd.CommandPath()))
}
