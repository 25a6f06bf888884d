// Command demo shows Streambed at work: a private Postgres with pgbench's tables, live traffic on it, the real streambedd
// writing a local Iceberg warehouse, and the same questions asked of both. It ends by itself and removes what it made;
// with KEEP=1 it leaves everything running until Ctrl-C. It exits with 1 when lake and source differ.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// scale is pgbench's: 100,000 accounts each.
const scale = 3

// The two stretches of live traffic.
const firstTraffic, secondTraffic = 12 * time.Second, 8 * time.Second

func init() {
	// Children end with the thread that started them; the main goroutine keeps the main thread, which lives as long as
	// the process.
	runtime.LockOSThread()
}

func main() {
	bin := flag.String("bin", "bin", "folder of the built programs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *bin, os.Getenv("KEEP") == "1"); err != nil {
		if ctx.Err() != nil {
			fmt.Println("\nStopped before its end; everything it made is removed.")
			os.Exit(1)
		}
		fmt.Fprintln(os.Stderr, "\nThe demo failed:", err)
		os.Exit(1)
	}
}

// demo is what a run has made.
type demo struct {
	folder   string
	postgres *postgres.Server
	daemon   *daemon
	source   *session
	lake     *session
}

func run(ctx context.Context, bin string, keep bool) (err error) {
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	d := &demo{}
	defer func() { err = errors.Join(err, d.close()) }()
	if d.folder, err = os.MkdirTemp("", "streambed-demo-"); err != nil {
		return err
	}
	if err = d.startSource(ctx); err != nil {
		return err
	}
	if err = d.startStreambed(ctx, bin); err != nil {
		return err
	}
	if err = d.show(ctx); err != nil {
		return errors.Join(err, d.daemon.explain())
	}
	d.elsewhere()
	if keep {
		return d.leaveRunning(ctx)
	}
	say("\nDone. Postgres and streambedd are stopped and %s is removed; KEEP=1 make demo leaves them running.", d.folder)
	return nil
}

// startSource starts Postgres and fills pgbench's tables.
func (d *demo) startSource(ctx context.Context) (err error) {
	if d.postgres, err = postgres.Start(ctx, postgres.Options{Settings: map[string]string{"max_connections": "50"}}); err != nil {
		return fmt.Errorf("a private Postgres could not be started: %w", err)
	}
	if d.source, err = connect(ctx, d.postgres.URL()); err != nil {
		return err
	}
	server, err := d.source.one(ctx, "show server_version")
	if err != nil {
		return err
	}
	heading("A source")
	say("Postgres %s, started for this demo on port %d.", server, d.postgres.Port)
	began := time.Now()
	if err = d.source.run(ctx, loadSQL(scale)); err != nil {
		return fmt.Errorf("pgbench's tables could not be loaded: %w", err)
	}
	say("Loaded pgbench's tables, %d accounts, in %s.", scale*accountsPerBranch, since(began))
	return nil
}

// startStreambed starts the daemon and waits until the first copy is done.
func (d *demo) startStreambed(ctx context.Context, bin string) (err error) {
	heading("A lake")
	began := time.Now()
	if d.daemon, err = startDaemon(bin, d.folder, d.postgres.URL()); err != nil {
		return err
	}
	say("bin/streambedd --config %s", d.daemon.config)
	if err = d.daemon.ready(ctx); err != nil {
		return errors.Join(err, d.daemon.explain())
	}
	say("All tables are copied and streaming, %s after the start. Status page: http://%s", since(began), d.daemon.page)
	d.lake, err = connect(ctx, d.daemon.queryURL())
	return err
}

// leaveRunning waits for the user to end it.
func (d *demo) leaveRunning(ctx context.Context) error {
	heading("Left running (KEEP=1)")
	say("Ask the lake:      %s", d.daemon.psql())
	say("Change the source: psql '%s'", d.postgres.URL())
	say("Watch:             http://%s   %s status --config %s", d.daemon.page, d.daemon.binary, d.daemon.config)
	say("\nPress Ctrl-C to stop everything and remove %s.", d.folder)
	select {
	case <-ctx.Done():
		say("\nStopping.")
		return nil
	case <-d.daemon.exited:
		return errors.Join(errors.New("streambedd ended by itself"), d.daemon.explain())
	}
}

// close stops and removes everything that was made, in the reverse order.
func (d *demo) close() error {
	var errs []error
	for _, s := range []*session{d.lake, d.source} {
		if s != nil {
			s.close()
		}
	}
	if d.daemon != nil {
		errs = append(errs, d.daemon.stop())
	}
	if d.postgres != nil {
		errs = append(errs, d.postgres.Close())
	}
	if d.folder != "" {
		errs = append(errs, os.RemoveAll(d.folder))
	}
	return errors.Join(errs...)
}
