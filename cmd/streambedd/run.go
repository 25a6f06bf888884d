package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/streambed/streambed/cmd/internal/config"
	"github.com/streambed/streambed/cmd/internal/lake"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/queryd"
	"github.com/streambed/streambed/stages"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// stopWithin is how long a graceful stop may take. Going on after it is safe at any moment (promise 2); waiting for
// ever is not.
const stopWithin = 30 * time.Second

func newRun(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the pipeline until it is told to stop",
		Long: "run follows the source until SIGTERM or SIGINT: it then finishes what is under way and exits with 0. A second\n" +
			"signal ends it at once, which loses nothing either. It exits with 1 when it cannot go on, and with 2 when the\n" +
			"configuration is wrong. With --standby it waits while another daemon runs the pipeline, and takes over when that\n" +
			"one ends, however it ends.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd) },
	}
	runFlags(cmd)
	return cmd
}

// runFlags defines the flags of run, which the program itself takes too.
func runFlags(cmd *cobra.Command) {
	cmd.Flags().Bool(standbyFlag, false, "wait while another daemon runs the pipeline, and take over when it ends")
}

const standbyFlag = "standby"

func (p *program) run(cmd *cobra.Command) error {
	cfg, err := p.load(cmd)
	if err != nil {
		return err
	}
	fail, err := failpoints(p.env)
	if err != nil {
		return err
	}
	log, err := newLog(cfg.Log, p.errOut)
	if err != nil {
		return usage(err)
	}
	defer func() { _ = log.Sync() }()
	ctx, stop := stopOnSignal(cmd.Context(), log)
	defer stop()
	standby, err := cmd.Flags().GetBool(standbyFlag)
	if err != nil {
		return err
	}
	d, err := open(ctx, cfg, log, fail, standby)
	if err != nil {
		return stopped(ctx, err)
	}
	err = stopped(ctx, d.run(ctx))
	d.close()
	if err == nil {
		log.Info("stopped")
	}
	return err
}

// stopped makes success of a stop that was asked for.
func stopped(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// stopOnSignal gives a context that ends with the first SIGTERM or SIGINT. The second ends the process, and so does a
// stop that takes too long.
func stopOnSignal(parent context.Context, log *zap.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			log.Info("stopping: what is under way is finished first; another signal ends the process at once", zap.Stringer("signal", s))
			cancel()
		case <-done:
			return
		}
		select {
		case s := <-signals:
			log.Warn("ended by a second signal; nothing is lost, what was under way is done again after the next start", zap.Stringer("signal", s))
		case <-time.After(stopWithin):
			log.Error("the stop took too long and is cut short; nothing is lost, what was under way is done again after the next start", zap.Duration("after", stopWithin))
		case <-done:
			return
		}
		_ = log.Sync()
		os.Exit(exitFailed)
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel() }
}

// daemon is everything that runs in one process.
type daemon struct {
	cfg      *config.Config
	log      *zap.Logger
	started  time.Time
	standby  bool
	lock     *os.File
	store    storage.Store
	counts   *storage.Counting
	lake     formats.Lake
	pipeline *stages.Pipeline
	reader   formats.Reader
	queries  *queryd.Server
	control  net.Listener
	web      net.Listener
}

// open takes the state folder and opens whatever can fail at once, before anything at the source is touched.
func open(ctx context.Context, cfg *config.Config, log *zap.Logger, fail func(string), standby bool) (d *daemon, err error) {
	d = &daemon{cfg: cfg, log: log, started: time.Now(), standby: standby}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	limitMemory(cfg)
	if d.lock, err = takeState(ctx, cfg.State, standby, log); err != nil {
		return d, err
	}
	if d.control, err = listenControl(cfg.State); err != nil {
		return d, err
	}
	if cfg.HTTP.Listen != "" {
		if d.web, err = net.Listen("tcp", cfg.HTTP.Listen); err != nil {
			return d, fmt.Errorf("the status page cannot listen on %s: %w; stop what listens there, or set another http.listen", cfg.HTTP.Listen, err)
		}
	}
	if d.store, d.counts, err = lake.OpenCountedStore(ctx, cfg); err != nil {
		return d, err
	}
	if d.lake, d.reader, err = lake.Open(ctx, cfg, d.store, log, fail); err != nil {
		return d, err
	}
	if d.queries, err = openQueries(cfg, d.reader, d.store, log); err != nil {
		return d, err
	}
	d.pipeline, err = stages.New(d.options(fail))
	return d, err
}

// limitMemory tells Go's garbage collector what share of the budget is ours. It is a soft limit: near it, collection
// works harder, and the admission budget keeps what is live well below.
func limitMemory(cfg *config.Config) {
	if os.Getenv("GOMEMLIMIT") == "" {
		_, query := cfg.MemoryShares()
		debug.SetMemoryLimit(cfg.Memory - query)
	}
}

func (d *daemon) options(fail func(string)) stages.Options {
	cfg := d.cfg
	memory, _ := cfg.MemoryShares()
	store := d.store
	if d.queries != nil {
		store = d.queries.Feed(store)
	}
	return stages.Options{
		Pipeline: cfg.Pipeline,
		Source: stages.SourceOptions{URL: cfg.Source.URL, PrimaryURL: cfg.Source.PrimaryURL, MaxSlotWAL: cfg.Source.MaxSlotWAL, Slot: cfg.Source.Slot,
			Publication: cfg.Source.Publication, Tables: cfg.Source.Tables, Exclude: cfg.Source.Exclude, Columns: columnSettings(cfg)},
		Lake: d.lake, Store: store, StateDir: filepath.Join(cfg.State, "pipeline"), Memory: memory,
		Flush:         stages.FlushOptions{Interval: cfg.Flush.Interval, Rows: cfg.Flush.Rows, Bytes: cfg.Flush.Bytes},
		Values:        valueOptions(cfg.Values),
		UploadWorkers: cfg.Parallelism.UploadWorkers, CopyWorkers: cfg.Parallelism.CopyWorkers, InFlight: cfg.Parallelism.InFlight,
		TargetFileSize: cfg.Lake.TargetFileSize, Standby: d.standby, Failpoint: fail, Log: d.log,
	}
}

func valueOptions(v config.Values) types.Options {
	o := types.Options{Numeric: numericType(v.Numeric)}
	if v.Refuse {
		o.Unrepresentable = types.Refuse
	}
	return o
}

// run runs the pipeline and its servers until ctx ends or one of them fails.
func (d *daemon) run(ctx context.Context) error {
	report := func() report {
		r := newReport(d.pipeline.Status, d.started, os.Getpid())
		r.Store = d.counts.Counts()
		return r
	}
	// The servers answer until the pipeline has come to rest, so that a stop can be watched.
	servers, endServers := context.WithCancel(context.WithoutCancel(ctx))
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer endServers()
		err := d.pipeline.Run(running)
		if err == nil && running.Err() == nil {
			return errors.New("the pipeline ended without being told to")
		}
		return err
	})
	group.Go(func() error { return serve(servers, d.control, controlHandler(report, d.pipeline)) })
	if d.web != nil {
		group.Go(func() error { return serve(servers, d.web, webHandler(report)) })
	}
	if d.queries != nil {
		group.Go(func() error { return d.queries.Serve(servers) })
	}
	d.log.Info("streambedd runs", zap.String("version", version), zap.String("pipeline", d.cfg.Pipeline),
		zap.String("warehouse", d.cfg.Lake.Warehouse), zap.String("mode", d.cfg.Lake.Mode), zap.String("queries", d.cfg.Query.Listen), zap.String("page", d.cfg.HTTP.Listen))
	return group.Wait()
}

// close gives up whatever open took; it is called once, after run.
func (d *daemon) close() {
	// Readers go before the lake, whose catalog they use.
	if d.queries != nil {
		_ = d.queries.Close()
	}
	if d.reader != nil {
		_ = d.reader.Close()
	}
	if d.lake != nil {
		if err := d.lake.Close(); err != nil {
			d.log.Warn("closing the lake's catalog failed", zap.Error(err))
		}
	}
	for _, l := range []net.Listener{d.control, d.web} {
		if l != nil {
			_ = l.Close()
		}
	}
	if d.lock != nil {
		_ = d.lock.Close()
	}
}
