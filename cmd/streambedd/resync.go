package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
	"github.com/streambed/streambed/cmd/internal/config"
	"github.com/streambed/streambed/cmd/internal/lake"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages"
	"github.com/streambed/streambed/stages/source"
)

// resyncRequest is the body of POST /resync: one table, or all.
type resyncRequest struct {
	Table *formats.TableName `json:"table,omitempty"`
	All   bool               `json:"all,omitempty"`
}

// resyncer is the running pipeline's side of the command.
type resyncer interface {
	Resync(formats.TableName) error
	ResyncAll() error
}

func newResync(p *program) *cobra.Command {
	var table string
	var all bool
	cmd := &cobra.Command{
		Use:   "resync --table schema.table | --all",
		Short: "Copy a table anew while the pipeline runs",
		Long: "resync copies a table anew from the source, beside the one that readers see, which stays readable until the new\n" +
			"copy is whole and takes its place. It takes up a table again that was set aside. The command returns at once, and\n" +
			"`streambedd status` shows the progress. With --all the daemon may be stopped, also by a lost slot or a source that\n" +
			"was restored: then the slot is made anew where needed, and the copies begin with the next start.",
		Args: noArgs,
	}
	cmd.Flags().StringVar(&table, "table", "", `the table, as schema.table; parts with dots in double quotes: 'public."a.b"'`)
	cmd.Flags().BoolVar(&all, "all", false, "every table of the pipeline")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if all == (table != "") {
			return usage(errors.New("say which table with --table schema.table, or --all"))
		}
		request := resyncRequest{All: all}
		if !all {
			name, err := tableFlag(table)
			if err != nil {
				return err
			}
			request.Table = &name
		}
		cfg, err := p.load(cmd)
		if err != nil {
			return err
		}
		if err := post(cmd.Context(), cfg.State, "/resync", request, nil); err != nil {
			if errors.Is(err, errNotRunning) && all {
				return p.reset(cmd.Context(), cfg)
			}
			if errors.Is(err, errNotRunning) {
				return fmt.Errorf("%w: start it with `streambedd run`, then resync", err)
			}
			return err
		}
		if all {
			fmt.Fprintln(p.out, "All tables are copied anew; `streambedd status` shows how far they are.")
			return nil
		}
		fmt.Fprintf(p.out, "Table %s is copied anew; `streambedd status` shows how far it is.\n", source.Show(*request.Table))
		return nil
	}
	return cmd
}

// reset readies a pipeline that does not run for copying everything anew at its next start.
func (p *program) reset(ctx context.Context, cfg *config.Config) error {
	log, err := newLog(cfg.Log, p.errOut)
	if err != nil {
		return usage(err)
	}
	defer func() { _ = log.Sync() }()
	lock, err := lockState(cfg.State)
	if err != nil {
		return err
	}
	defer lock.Close()
	d := &daemon{cfg: cfg, log: log}
	if d.store, err = lake.OpenStore(ctx, cfg); err != nil {
		return err
	}
	if d.lake, err = lake.OpenAnew(ctx, cfg, d.store, log); err != nil {
		return err
	}
	defer d.lake.Close()
	if err := stages.Reset(ctx, d.options(nil)); err != nil {
		return err
	}
	fmt.Fprintln(p.out, "All tables are copied anew when the pipeline is started; until a copy is whole its table stays as it is.")
	return nil
}

// handleResync answers POST /resync on the control socket.
func handleResync(mux *http.ServeMux, pipeline resyncer) {
	mux.HandleFunc("POST /resync", func(w http.ResponseWriter, r *http.Request) {
		var request resyncRequest
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&request); err != nil {
			http.Error(w, "the request cannot be read: "+err.Error(), http.StatusBadRequest)
			return
		}
		var err error
		switch {
		case request.All:
			err = pipeline.ResyncAll()
		case request.Table != nil:
			err = pipeline.Resync(*request.Table)
		default:
			err = errors.New("the request names no table")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}
