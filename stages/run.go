package stages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/batcher"
	"github.com/streambed/streambed/stages/committer"
	"github.com/streambed/streambed/stages/decoder"
	"github.com/streambed/streambed/stages/maintenance"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/reader"
	"github.com/streambed/streambed/stages/snapshot"
	"github.com/streambed/streambed/stages/source"
	"github.com/streambed/streambed/stages/uploader"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// errTextNeeded ends a run that reads binary values because a table with a type we only read as text has come.
var errTextNeeded = errors.New("a table has a column whose type is read in text form; the stream starts again in that form")

// errPromoted ends a run so that the next one notes the source's new timeline.
var errPromoted = errors.New("the standby that is followed was promoted; the stream starts again")

// run is one life of the stages: from the lake's durable state until something breaks.
type run struct {
	pipeline *Pipeline
	log      *zap.Logger
	state    *formats.State
	position lsn.LSN
	binary   bool

	registry  *registry
	budget    *message.Budget
	pool      *uploader.Pool
	reader    *reader.Reader
	decoder   *decoder.Decoder
	committer *committer.Committer
	// maintenance is nil for a lake that has none.
	maintenance *maintenance.Actor
	raw         chan *message.Raw
	cuts        chan *message.Cut
	// connections are lent to the copies and to whoever looks a table up.
	connections *source.Pool
	copies      *semaphore.Weighted
	workers     *semaphore.Weighted

	group *errgroup.Group
	ctx   context.Context
	known []source.Table
	// unreachable is why the primary of a standby could not be asked last; "" when it could.
	unreachable string
	// wake makes watchTables look at once; asked are tables that are to be copied anew, by oid.
	wake  chan struct{}
	mu    sync.Mutex
	asked map[uint32]bool
	// recheck has watchTables compare tables anew although the catalog has not changed: a copy is done, during which its
	// table was left alone.
	recheck atomic.Bool
	// dropped are the tables of the lake that the source does not have for this pipeline any more.
	dropped atomic.Pointer[map[formats.TableName]bool]
	// list is the newest list of tables that discoverRecent read.
	listing sync.Mutex
	list    []source.Table
	listed  time.Time
}

// newRun claims the lake, makes sure that the source has what we need, and readies the stages.
func newRun(ctx context.Context, p *Pipeline) (*run, error) {
	r := &run{pipeline: p, log: p.options.Log, registry: newRegistry(), wake: make(chan struct{}, 1), asked: map[uint32]bool{}}
	state, err := p.options.Lake.Claim(ctx)
	if err != nil {
		return nil, err
	}
	r.state = state
	if err := r.checkIdentity(ctx); err != nil {
		return nil, err
	}
	tables, err := r.readySource(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.clearSpill(); err != nil {
		return nil, err
	}
	r.readyStages(tables)
	return r, r.registerTables(ctx, tables)
}

// clearSpill removes what an earlier run left under construction.
func (p *Pipeline) clearSpill() error {
	if err := os.RemoveAll(p.spillDir()); err != nil {
		return fmt.Errorf("the spill folder cannot be emptied: %w", err)
	}
	if err := os.MkdirAll(p.spillDir(), 0o700); err != nil {
		return fmt.Errorf("the spill folder cannot be made: %w", err)
	}
	return nil
}

// checkIdentity makes sure that the source is the one that the lake was filled from.
func (r *run) checkIdentity(ctx context.Context) error {
	system, err := source.Identify(ctx, r.pipeline.source.URL)
	if err != nil {
		return err
	}
	held := r.state.Identity
	if held == system.Identity {
		return nil
	}
	if held != (formats.Identity{}) {
		if held.SystemIdentifier != system.SystemIdentifier || held.DatabaseOID != system.DatabaseOID {
			return fmt.Errorf("%w: it has system identifier %s and database oid %d, expected %s and %d; point source.url at the right one, or stop here and run `streambedd resync --all` to copy every table from this one",
				ErrAnotherSource, system.SystemIdentifier, system.DatabaseOID, held.SystemIdentifier, held.DatabaseOID)
		}
		if held.Timeline != system.Timeline {
			forked, err := source.ForkedAt(ctx, r.pipeline.source.URL, held.Timeline, system.Timeline)
			if err != nil {
				return err
			}
			passed, err := r.followedPast(ctx, forked)
			if err != nil {
				return err
			}
			if forked < r.state.Position && !passed {
				return fmt.Errorf("%w: after a failover it lacks changes that the lake holds (timeline %d left %d at %s, the lake is at %s); run `streambedd resync --all` to copy every table anew",
					ErrAnotherSource, system.Timeline, held.Timeline, forked, r.state.Position)
			}
		}
	}
	return r.pipeline.options.Lake.SetIdentity(ctx, system.Identity)
}

// followedPast tells that the source's slot has been acknowledged past a position. Where the source's history forked there,
// this very server was followed beyond the fork: a standby that was promoted under the stream. A slot that was brought to it
// from the old primary is never ahead of what it had at the fork.
func (r *run) followedPast(ctx context.Context, fork lsn.LSN) (bool, error) {
	conn, err := source.Connect(ctx, r.pipeline.source.URL, "control")
	if err != nil {
		return false, err
	}
	defer source.CloseConn(conn)
	slot, err := source.ReadSlot(ctx, conn, r.pipeline.source.Slot)
	if err != nil {
		return false, err
	}
	return slot.Exists && slot.ConfirmedFlush > fork, nil
}

// readySource makes publications and slot where they are missing, in this order, and lists the tables.
func (r *run) readySource(ctx context.Context) ([]source.Table, error) {
	cfg := &r.pipeline.source
	conn, err := source.Connect(ctx, cfg.URL, "control")
	if err != nil {
		return nil, err
	}
	defer source.CloseConn(conn)
	cfg.UserPublication = slices.ContainsFunc(r.state.Tables, func(t formats.TableState) bool { return source.InUserPublication(t.Publication, cfg.Publication) })
	if err := r.pipeline.ensurePublications(ctx, conn); err != nil {
		return nil, err
	}
	if r.state.Position > 0 {
		// A slot that is gone is not made anew silently: it would keep WAL that does not connect to the lake.
		held, err := source.ReadSlot(ctx, conn, cfg.Slot)
		if err != nil {
			return nil, err
		}
		if !held.Exists {
			return nil, fmt.Errorf("%w: slot %s is gone from the source, the lake is at %s; run `streambedd resync --all` to copy every table anew", ErrSlotPast, cfg.Slot, r.state.Position)
		}
	}
	_, position, err := source.EnsureSlot(ctx, conn, cfg)
	if err != nil {
		return nil, err
	}
	switch {
	case r.state.Position == 0:
		r.position = position
	case position > r.state.Position:
		return nil, fmt.Errorf("%w: slot %s was acknowledged up to %s by somebody else, the lake is at %s; run `streambedd resync --all` to copy every table anew", ErrSlotPast, cfg.Slot, position, r.state.Position)
	default:
		r.position = r.state.Position
	}
	return source.Discover(ctx, conn, cfg)
}

// readyStages makes everything but the batchers.
func (r *run) readyStages(tables []source.Table) {
	o := &r.pipeline.options
	r.binary = allBinary(tables, o)
	r.budget = message.NewBudget(o.Memory/4, func() { r.registry.relieve(r.budget.Capacity(), r.budget.Behind()) })
	r.pool = uploader.New(o.Store, o.UploadWorkers, o.UploadWorkers)
	r.connections = source.NewPool(r.pipeline.source.URL, "copy")
	r.copies = semaphore.NewWeighted(int64(o.CopyWorkers))
	r.workers = semaphore.NewWeighted(int64(o.CopyWorkers))
	cfg := &r.pipeline.source
	r.reader = reader.New(reader.Config{ConnString: cfg.URL, Slot: cfg.Slot, Publications: r.publications(), Start: r.position,
		Binary: r.binary, Streaming: true, Budget: r.budget, Log: r.log})
	r.committer = committer.New(committer.Config{Lake: o.Lake, State: r.state, InFlight: o.InFlight,
		Acknowledge: r.reader.Acknowledge, Failpoint: o.Failpoint, Log: r.log})
	r.readyMaintenance()
	r.raw = make(chan *message.Raw, 16)
	r.cuts = make(chan *message.Cut)
	r.decoder = decoder.New(decoder.Config{Position: r.position, InitialCommitTime: r.state.CommitTime, Flush: decoder.Flush(o.Flush),
		Router: r.registry, Budget: r.budget, RequestKeepalive: r.reader.RequestKeepalive,
		SpillDir: r.pipeline.spillDir(), SpillMemory: max(1<<20, o.Memory/16), Log: r.log})
}

// publications are ours, or the user's own alone.
func (r *run) publications() []string {
	cfg := &r.pipeline.source
	if cfg.UserPublication {
		return []string{cfg.Publication}
	}
	return []string{cfg.Publication, cfg.AppendPublication()}
}

// work runs the stages until one of them fails or ctx ends.
func (r *run) work(ctx context.Context) error {
	defer r.connections.Close()
	r.group, r.ctx = errgroup.WithContext(ctx)
	for _, b := range r.registry.batchers() {
		r.startBatcher(b)
	}
	r.group.Go(func() error { return r.pool.Run(r.ctx) })
	r.group.Go(func() error { return r.committer.Run(r.ctx, r.cuts) })
	r.group.Go(func() error { return r.decoder.Run(r.ctx, r.raw, r.cuts) })
	r.group.Go(func() error { return r.reader.Run(r.ctx, r.raw) })
	r.group.Go(func() error { return r.watchTables(r.ctx) })
	r.group.Go(func() error { return r.watchLock(r.ctx) })
	if r.maintenance != nil {
		r.group.Go(func() error { return r.maintenance.Run(r.ctx) })
	}
	for _, t := range r.registry.all() {
		r.startCopy(t, t.tail, t.copier)
	}
	err := r.group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (r *run) watchLock(ctx context.Context) error {
	select {
	case <-r.pipeline.lock.Lost():
		return errors.New("the connection that holds the source's lock was lost")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *run) startBatcher(b *batcher.Batcher) {
	r.group.Go(func() error { return b.Run(r.ctx) })
}

func (r *run) startCopy(t *table, b *batcher.Batcher, copier *snapshot.Copier) {
	if copier == nil {
		return
	}
	r.group.Go(func() error {
		err := copier.Run(r.ctx)
		switch {
		case r.ctx.Err() != nil:
			return context.Cause(r.ctx)
		case errors.Is(err, source.ErrTableGone):
			r.log.Info("a table went away while it was being copied", zap.String("table", source.Show(t.name())))
			r.registry.remove(t.oid)
			return nil
		case err == nil && b.SetAside() == "":
			r.log.Info("table is live", zap.String("table", source.Show(t.name())), zap.Int64("rows", copier.Progress().Rows))
			r.registry.copied(t)
			r.recheck.Store(true)
		}
		return err
	})
}
