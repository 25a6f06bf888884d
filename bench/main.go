package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// options are the command line.
type options struct {
	scale     scale
	workloads []workload
	targets   []target
	store     string // folder or s3
	catalog   string // sqlite or postgres
	postgres  string // major version, or "" for what is installed
	memory    string
	interval  time.Duration
	binary    string
	json      string
	keep      bool
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	r, err := run(ctx, *o, os.Stderr)
	if r != nil {
		r.print(os.Stdout)
		if o.json != "" {
			err = errors.Join(err, r.write(o.json))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) // nothing is left to clean up
	}
}

// parse reads the command line.
func parse(args []string, out io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(out)
	names := f.String("workloads", nameList(workloads, func(w workload) string { return w.name }), "what to run, in this order")
	lakes := f.String("targets", nameList(targets, func(t target) string { return t.name }), "formats and modes to run it on")
	factor := f.Float64("scale", 1, "multiplies rows and changes")
	f.Int64Var(&o.scale.Rows, "rows", 1_000_000, "rows of the table")
	f.Int64Var(&o.scale.Changes, "changes", 100_000, "single-row updates of trickle")
	f.Int64Var(&o.scale.Cut, "cut", 1000, "changed rows a cut of trickle")
	f.StringVar(&o.store, "store", "folder", "folder, or s3 for a private S3 server")
	f.StringVar(&o.catalog, "catalog", "sqlite", "sqlite or postgres")
	f.StringVar(&o.postgres, "postgres", "", "major version of the source; default what is installed")
	f.StringVar(&o.memory, "memory", "1GiB", "the daemon's memory")
	f.DurationVar(&o.interval, "interval", 10*time.Second, "the daemon's flush.interval: bounds the wait for the last cut")
	f.StringVar(&o.binary, "daemon", "", "a streambedd; default is built from this tree")
	f.StringVar(&o.json, "json", "", "file to write the figures to")
	f.BoolVar(&o.keep, "keep", false, "leave the lakes, logs and configurations in place")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is not understood: every setting is a flag, see -help", f.Arg(0))
	}
	if o.store != "folder" && o.store != "s3" {
		return nil, fmt.Errorf("-store is %q; use folder or s3", o.store)
	}
	if o.catalog != "sqlite" && o.catalog != "postgres" {
		return nil, fmt.Errorf("-catalog is %q; use sqlite or postgres", o.catalog)
	}
	o.scale.Rows, o.scale.Changes = int64(float64(o.scale.Rows)**factor), int64(float64(o.scale.Changes)**factor)
	if o.scale.Rows < 1 || o.scale.Changes < 1 || o.scale.Cut < 1 {
		return nil, errors.New("rows, changes and cut must be at least 1")
	}
	var err error
	if o.workloads, err = choose("workload", *names, workloads, func(w workload) string { return w.name }); err != nil {
		return nil, err
	}
	o.targets, err = choose("target", *lakes, targets, func(t target) string { return t.name })
	return o, err
}

func nameList[T any](all []T, name func(T) string) string {
	var names []string
	for _, one := range all {
		names = append(names, name(one))
	}
	return strings.Join(names, ",")
}

// choose finds what a list of names asks for.
func choose[T any](what, list string, all []T, name func(T) string) ([]T, error) {
	var out []T
	for _, want := range strings.Split(list, ",") {
		i := slices.IndexFunc(all, func(one T) bool { return name(one) == strings.TrimSpace(want) })
		if i < 0 {
			return nil, fmt.Errorf("there is no %s %q; choose from %s", what, want, nameList(all, name))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// bench is what all measurements share.
type bench struct {
	options  options
	dir      string // temporary
	binary   string
	server   *postgres.Server
	measured int
}

// run measures every workload on every target. The report holds what was measured before an error.
func run(ctx context.Context, o options, progress io.Writer) (*report, error) {
	dir, err := os.MkdirTemp("", "sbb-") // short: it holds a socket
	if err != nil {
		return nil, err
	}
	if o.keep {
		fmt.Fprintln(progress, "everything stays in", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	b := &bench{options: o, dir: dir, binary: o.binary}
	if b.binary == "" {
		if b.binary, err = buildDaemon(ctx, dir); err != nil {
			return nil, err
		}
	} else if b.binary, err = filepath.Abs(b.binary); err != nil {
		return nil, err
	}
	if b.server, err = startServer(ctx, o.postgres); err != nil {
		return nil, err
	}
	defer b.server.Close()
	version, err := b.server.Query(ctx, "SHOW server_version")
	if err != nil {
		return nil, err
	}
	r := &report{Time: time.Now().UTC(), CPUs: runtime.NumCPU(), Postgres: version[0][0], Store: o.store, Catalog: o.catalog, Memory: o.memory, Scale: o.scale}
	for i := range o.workloads {
		for j := range o.targets {
			w, t := &o.workloads[i], &o.targets[j]
			one, err := b.measure(ctx, w, t)
			switch {
			case errors.Is(err, errRefused):
				one = &result{Workload: w.name, Target: t.name, Skipped: err.Error()}
			case err != nil:
				return r, fmt.Errorf("%s on %s: %w", w.name, t.name, err)
			}
			r.Results = append(r.Results, *one)
			fmt.Fprintf(progress, "%s on %s: %.1f s\n", w.name, t.name, one.Seconds)
		}
	}
	return r, nil
}
