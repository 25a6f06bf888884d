package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages/source"
)

// operated is what the control socket has the running pipeline do.
type operated interface {
	resyncer
	maintainer
	Pause(context.Context) error
	Resume() error
	Cleanup(ctx context.Context, name formats.TableName, grace time.Duration) error
}

// cleanupRequest is the body of POST /cleanup.
type cleanupRequest struct {
	Table formats.TableName `json:"table"`
	Grace time.Duration     `json:"grace"`
}

func newPause(p *program) *cobra.Command {
	return p.simple("pause", "Stop committing, until resume; the source keeps its WAL meanwhile",
		"pause has the running daemon commit nothing more, until `streambedd resume`, also over a restart. Its query server goes\n"+
			"on answering. The slot stays where it is, so the source keeps its WAL: watch its disk.",
		"/pause", "Paused: nothing is committed, and the source keeps its WAL, until `streambedd resume`.")
}

func newResume(p *program) *cobra.Command {
	return p.simple("resume", "Go on after pause", "resume has a paused daemon go on from where it was.", "/resume", "Resumed.")
}

// simple makes a command that asks the daemon for one thing.
func (p *program) simple(use, short, long, what, done string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Long: long, Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.load(cmd)
		if err != nil {
			return err
		}
		if err := order(cmd.Context(), cfg.State, what, struct{}{}); err != nil {
			return err
		}
		fmt.Fprintln(p.out, done)
		return nil
	}}
}

func newCleanup(p *program) *cobra.Command {
	var table string
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "cleanup --table schema.table",
		Short: "Remove a table from the lake that was dropped at the source or is excluded",
		Long: "cleanup takes a table away from readers that the pipeline does not follow any more, and has the running daemon delete\n" +
			"its files when the grace has passed, for queries under way. Its history goes with it.",
		Args: noArgs,
	}
	cmd.Flags().StringVar(&table, "table", "", `the table, as schema.table; parts with dots in double quotes: 'public."a.b"'`)
	cmd.Flags().DurationVar(&grace, "grace", time.Hour, "how long its files stay for queries under way")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		name, err := tableFlag(table)
		if err != nil {
			return err
		}
		if grace < 0 {
			return usage(errors.New("--grace is negative; give a duration such as 1h"))
		}
		cfg, err := p.load(cmd)
		if err != nil {
			return err
		}
		if err := order(cmd.Context(), cfg.State, "/cleanup", cleanupRequest{name, grace}); err != nil {
			return err
		}
		fmt.Fprintf(p.out, "Table %s is gone from the lake; its files are deleted in %s.\n", source.Show(name), grace)
		return nil
	}
	return cmd
}

// order has the running daemon do something, and waits until it is done.
func order(ctx context.Context, folder, what string, request any) error {
	err := post(ctx, folder, what, request, nil)
	if errors.Is(err, errNotRunning) {
		return fmt.Errorf("%w: start it with `streambedd run` first", err)
	}
	return err
}

// handleOperate answers the commands of this file on the control socket.
func handleOperate(mux *http.ServeMux, pipeline operated) {
	handle := func(what string, do func(r *http.Request) error) {
		mux.HandleFunc("POST "+what, func(w http.ResponseWriter, r *http.Request) {
			if err := do(r); err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}
	handle("/pause", func(r *http.Request) error { return pipeline.Pause(r.Context()) })
	handle("/resume", func(*http.Request) error { return pipeline.Resume() })
	handle("/cleanup", func(r *http.Request) error {
		var request cleanupRequest
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&request); err != nil {
			return fmt.Errorf("the request cannot be read: %w", err)
		}
		return pipeline.Cleanup(r.Context(), request.Table, request.Grace)
	})
}
