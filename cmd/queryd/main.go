// Command queryd answers SQL from Postgres clients out of a lake that streambedd writes. It needs no source, no daemon
// and no claim: any number of them may serve one lake.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/streambed/streambed/cmd/internal/config"
	"go.uber.org/zap"
)

// version is set by the linker.
var version = "development"

const (
	exitFailed = 1
	// exitUsage: the command line or the configuration is wrong; trying again without a change is of no use.
	exitUsage = 2
)

type usageError struct{ error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit code. The last line on stderr of a failed run says why.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	cmd := newRoot(env, stderr)
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "queryd: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

func newRoot(env []string, stderr io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queryd",
		Short: "Answer SQL from Postgres clients out of a Streambed lake",
		Long: "queryd serves the tables of a lake over the Postgres wire protocol, read only, with time travel.\n" +
			"It reads the same pipeline.yaml as streambedd, or --warehouse, --catalog and --listen.",
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd, env, stderr)
			if err != nil {
				return err
			}
			log, err := newLog(cfg.Log, stderr)
			if err != nil {
				return usageError{err}
			}
			defer func() { _ = log.Sync() }()
			return serve(cmd.Context(), cfg, log)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; `queryd --help` lists the flags", err)}
	})
	config.RegisterFlags(cmd.Flags(), "pipeline", "warehouse", "catalog", "state", "memory", "query-listen", "log-level")
	cmd.Flags().String("listen", "", "the same as --query-listen")
	return cmd
}

// load reads the configuration; a missing source is no fault here.
func load(cmd *cobra.Command, env []string, stderr io.Writer) (*config.Config, error) {
	if listen := cmd.Flags().Lookup("listen"); listen.Changed {
		if err := cmd.Flags().Set("query-listen", listen.Value.String()); err != nil {
			return nil, usageError{err}
		}
	}
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return nil, err
	}
	cfg, err := config.LoadLake(path, env, cmd.Flags())
	if err != nil {
		return nil, usageError{fmt.Errorf("the configuration is wrong:\n%w", err)}
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintln(stderr, "queryd: warning:", w)
	}
	if cfg.Query.Listen == "" {
		return nil, usageError{errors.New("query.listen is off, so there is nothing to do; give an address with --listen 127.0.0.1:5433")}
	}
	return cfg, nil
}

// serve runs the query server until ctx ends.
func serve(ctx context.Context, cfg *config.Config, log *zap.Logger) error {
	server, free, err := open(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer free()
	address, err := server.Listen()
	if err != nil {
		return err
	}
	log.Info("queryd serves", zap.String("version", version), zap.Stringer("listen", address), zap.String("warehouse", cfg.Lake.Warehouse), zap.String("pipeline", cfg.Pipeline))
	return server.Serve(ctx)
}
