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
	"github.com/streambed/streambed/cmd/internal/config"
	"github.com/streambed/streambed/cmd/internal/lake"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages"
)

// maintainer is the running pipeline's side of the command.
type maintainer interface {
	Maintain(ctx context.Context, m formats.Maintenance) (formats.MaintenanceReport, error)
}

func newMaintain(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "maintain",
		Short: "Compact, flush, expire or sweep now what is else done in the background",
		Long: "maintain does one task at once and says what it did. The daemon may run, and then does it between two checkpoints;\n" +
			"else the command does it itself.",
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			return usage(errors.New("say what to do: compact, flush, expire or orphans"))
		},
	}
	for _, task := range []struct {
		task         formats.Task
		short        string
		table, sweep bool
	}{
		{formats.Compact, "Join small files and rewrite those of which rows are deleted", true, false},
		{formats.Flush, "Move rows that the catalog keeps into files", true, false},
		{formats.Expire, "Remove snapshots that retention does not keep", false, false},
		{formats.Orphans, "Remove files that nothing names", false, true},
	} {
		var table string
		m := formats.Maintenance{Task: task.task, All: true}
		sub := &cobra.Command{Use: string(task.task), Short: task.short, Args: noArgs}
		if task.table {
			sub.Flags().StringVar(&table, "table", "", "only this table, as schema.table")
		}
		if task.sweep {
			sub.Flags().BoolVar(&m.DryRun, "dry-run", false, "only count them")
			sub.Flags().DurationVar(&m.Age, "older-than", 24*time.Hour, "leave younger files alone; one hour at least")
		}
		sub.RunE = func(cmd *cobra.Command, _ []string) error {
			if table != "" {
				name, err := tableFlag(table)
				if err != nil {
					return err
				}
				m.Table = &name
			}
			if task.sweep && m.Age < time.Hour {
				return usage(errors.New("--older-than must be an hour at least: younger files may be on their way into a checkpoint"))
			}
			return p.maintain(cmd, m)
		}
		cmd.AddCommand(sub)
	}
	return cmd
}

func (p *program) maintain(cmd *cobra.Command, m formats.Maintenance) error {
	cfg, err := p.load(cmd)
	if err != nil {
		return err
	}
	var report formats.MaintenanceReport
	err = post(cmd.Context(), cfg.State, "/maintain", m, &report)
	if errors.Is(err, errNotRunning) {
		report, err = p.maintainAlone(cmd.Context(), cfg, m)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(p.out, describeMaintenance(m, report))
	return nil
}

// describeMaintenance is one sentence.
func describeMaintenance(m formats.Maintenance, r formats.MaintenanceReport) string {
	switch {
	case r.Nothing():
		return "There was nothing to do."
	case m.Task == formats.Expire:
		return fmt.Sprintf("%s expired.", plural(r.Snapshots, "snapshot", "snapshots"))
	case m.Task == formats.Orphans && m.DryRun:
		return fmt.Sprintf("%s would be removed; orphans among them hold %s.", plural(r.Files, "file", "files"), config.FormatSize(r.Bytes))
	case m.Task == formats.Orphans:
		return fmt.Sprintf("%s removed; orphans among them held %s.", plural(r.Files, "file", "files"), config.FormatSize(r.Bytes))
	}
	return fmt.Sprintf("%s of %s went from %s into %s.", plural(int(r.Rows), "row", "rows"), plural(r.Tables, "table", "tables"),
		plural(r.Before, "file or cut", "files and cuts"), plural(r.After, "file", "files"))
}

// maintainAlone does the task while no daemon runs.
func (p *program) maintainAlone(ctx context.Context, cfg *config.Config, m formats.Maintenance) (formats.MaintenanceReport, error) {
	report := formats.MaintenanceReport{Task: m.Task}
	log, err := newLog(cfg.Log, p.errOut)
	if err != nil {
		return report, usage(err)
	}
	defer func() { _ = log.Sync() }()
	lock, err := lockState(cfg.State)
	if err != nil {
		return report, err
	}
	defer lock.Close()
	store, err := lake.OpenStore(ctx, cfg)
	if err != nil {
		return report, err
	}
	l, _, err := lake.Open(ctx, cfg, store, log, nil)
	if err != nil {
		return report, err
	}
	defer l.Close()
	return stages.MaintainAlone(ctx, l, m)
}

// handleMaintain answers POST /maintain on the control socket.
func handleMaintain(mux *http.ServeMux, pipeline maintainer) {
	mux.HandleFunc("POST /maintain", func(w http.ResponseWriter, r *http.Request) {
		var m formats.Maintenance
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&m); err != nil {
			http.Error(w, "the request cannot be read: "+err.Error(), http.StatusBadRequest)
			return
		}
		report, err := pipeline.Maintain(r.Context(), m)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(report) // who asked may have gone
	})
}
