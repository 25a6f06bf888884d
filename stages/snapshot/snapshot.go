// Package snapshot copies a table's existing rows into the lake, in chunks, while the stream goes on (design section 5).
// The batcher of the table brings the two together.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/batcher"
	"github.com/streambed/streambed/stages/source"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// chunkPages is the size of a chunk in pages of the source: 32 MiB at its usual page size, so that a chunk's transaction
// lasts a second or so.
const chunkPages = 4096

// ErrChanged means that the table was rewritten, renamed or dropped while it was being copied: the copy starts over.
var ErrChanged = errors.New("the table changed while it was being copied")

// ErrNotYet means that the table cannot be copied yet, for a reason that is being worked on: it is looked at again soon.
var ErrNotYet = errors.New("not yet")

// Config is what a copy works with.
type Config struct {
	// Connections lends those that the copy reads through.
	Connections *source.Pool
	// Discover gives the table as it was at some time after since; ErrChanged when it is gone.
	Discover func(ctx context.Context, since time.Time) (*source.Table, error)
	Batcher  *batcher.Batcher
	// State is the incarnation to go on with.
	State formats.TableState
	// NewTable makes another incarnation, under the name that the table has now.
	NewTable func(name formats.TableName) formats.TableRef
	Store    storage.Store
	Values   types.Options
	// Copies bounds the copies under way, and thereby our connections to the source; Workers the chunk readers of all
	// copies together.
	Copies         *semaphore.Weighted
	Workers        *semaphore.Weighted
	WorkersPerCopy int
	TargetFileSize int64
	// SpillDir is a local folder for files under construction.
	SpillDir string
	Log      *zap.Logger
}

// Copier copies one table.
type Copier struct {
	cfg      Config
	table    *source.Table
	state    formats.TableState
	keyless  bool
	copied   formats.CopyState // what the copy under way began with
	started  time.Time
	phase    atomic.Pointer[string]
	pages    atomic.Int64
	read     atomic.Int64
	rows     atomic.Int64
	bytes    atomic.Int64
	estimate atomic.Int64
}

// New makes a copier; Run does the work.
func New(cfg Config) *Copier {
	c := &Copier{cfg: cfg, state: cfg.State, started: time.Now()}
	c.say("waiting")
	return c
}

// Progress tells how far a copy is.
type Progress struct {
	// State is waiting (for open transactions), reading, finishing or published.
	State       string
	Rows, Bytes int64
	// EstimatedRows is the source's own estimate.
	EstimatedRows int64
	// Fraction of the pages has been read, 0 to 1.
	Fraction float64
	// Remaining is the time left at the present pace; 0 when unknown.
	Remaining time.Duration
}

// Progress may be called at any time.
func (c *Copier) Progress() Progress {
	p := Progress{State: *c.phase.Load(), Rows: c.rows.Load(), Bytes: c.bytes.Load(), EstimatedRows: c.estimate.Load()}
	if pages := c.pages.Load(); pages > 0 {
		p.Fraction = min(1, float64(c.read.Load())/float64(pages))
	}
	if p.Fraction > 0.01 && p.Fraction < 1 {
		p.Remaining = time.Duration(float64(time.Since(c.started)) * (1 - p.Fraction) / p.Fraction).Round(time.Second)
	}
	return p
}

func (c *Copier) say(phase string) { c.phase.Store(&phase) }

// retryAfter bounds the waits between attempts.
const retryFirst, retryMost = 500 * time.Millisecond, 15 * time.Second

// Run copies the table and returns once it is published, or ctx ends, or the table is gone (ErrChanged). What fails for a
// while is tried again: a table with a key goes on where it was, another one starts over.
func (c *Copier) Run(ctx context.Context) error {
	wait := retryFirst
	for {
		before := c.rows.Load()
		err := c.copyAndPublish(ctx)
		if err == nil {
			c.say("published")
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if c.cfg.Batcher.SetAside() != "" {
			return nil
		}
		if errors.Is(err, source.ErrTableGone) {
			return err
		}
		if c.rows.Load() > before || errors.Is(err, ErrNotYet) || errors.Is(err, ErrChanged) {
			wait = retryFirst
		}
		c.cfg.Log.Warn("copy is tried again", zap.String("table", source.Show(c.state.Table.Name)), zap.Duration("in", wait), zap.Error(err))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wait = min(2*wait, retryMost)
	}
}

// copyAndPublish makes the copy from where it stands, and waits until it is visible. Keys that are left open meanwhile are
// read once more.
func (c *Copier) copyAndPublish(ctx context.Context) error {
	published, err := c.attempt(ctx)
	for more := true; err == nil && more; {
		if more, err = c.awaitPublished(ctx, published); err == nil && more {
			published, err = c.readOpenKeys(ctx)
		}
	}
	return err
}

// attempt makes the copy from where it stands to its end, as one of the copies under way.
func (c *Copier) attempt(ctx context.Context) (published <-chan struct{}, err error) {
	asked := time.Now()
	c.say("waiting")
	if err := c.cfg.Copies.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	defer c.cfg.Copies.Release(1)
	conn, err := c.cfg.Connections.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer c.cfg.Connections.Give(conn)
	if c.table, err = c.cfg.Discover(ctx, asked); err != nil {
		return nil, err
	}
	copied, err := c.begin(ctx, conn)
	if err != nil {
		return nil, err
	}
	// From here on the batcher takes in all that is decoded. A column that came before, and after the table was looked at,
	// would be told to nobody. (Another change of a column is noticed with each chunk.)
	if last, err := source.LastAttnum(ctx, conn, c.table.OID); err != nil {
		return nil, err
	} else if last != c.table.LastAttnum {
		return nil, fmt.Errorf("%w: a column was added", ErrChanged)
	}
	if err := c.settleTransactions(ctx, conn); err != nil {
		return nil, err
	}
	c.say("reading")
	var exported string
	if c.keyless {
		tx, name, visible, err := exportSnapshot(ctx, conn)
		if err != nil {
			return nil, err
		}
		defer rollback(tx) // also keeps the exporting connection referenced until the last chunk is read
		if err := c.cfg.Batcher.SetSnapshot(ctx, visible); err != nil {
			return nil, err
		}
		exported = name
	}
	c.copied = copied
	if err := c.readAll(ctx, copied, exported); err != nil {
		return nil, err
	}
	c.say("finishing")
	reader := conn
	if c.keyless { // its transaction has the old snapshot
		if reader, err = c.cfg.Connections.Take(ctx); err != nil {
			return nil, err
		}
		defer c.cfg.Connections.Give(reader)
	}
	return c.finish(ctx, reader)
}

// settleTransactions waits until every transaction that is open now has ended. Those open when the table joined the
// publication were never sent whole; and a commit may be decoded before a new snapshot sees it.
func (c *Copier) settleTransactions(ctx context.Context, conn *pgx.Conn) error {
	since, err := source.TakeSnapshot(ctx, conn)
	if err != nil {
		return err
	}
	return source.WaitForOpenTransactions(ctx, conn, since, func(holders []source.Holder) {
		for _, h := range holders {
			c.cfg.Log.Info("copy waits for an open transaction", zap.String("table", source.Show(c.state.Table.Name)), zap.Stringer("holder", h))
		}
	})
}

// begin decides whether an earlier copy can be gone on with, and tells the batcher.
func (c *Copier) begin(ctx context.Context, conn *pgx.Conn) (formats.CopyState, error) {
	relations, err := measure(ctx, conn, c.table)
	if err != nil {
		return formats.CopyState{}, err
	}
	held, progress, created, broken, err := c.cfg.Batcher.CopyProgress(ctx)
	if err != nil {
		return formats.CopyState{}, err
	}
	c.state.Table, c.state.Schema = held.Table, held.Schema
	fresh := len(progress.Relations) == 0
	// Under another publication, or the same one joined again, changes may be missing; under another name the table is
	// another one to readers.
	same := !broken && sameColumns(&c.state.Schema, c.table) && held.Table.Name == c.table.Name &&
		(fresh || held.Publication == c.table.Fingerprint)
	// A keyless copy begins with an empty incarnation: which transactions the rows in one came from is known only to the
	// run that wrote them, and those that the new snapshot sees would be there twice (promise 2).
	if !same || c.keylessSchema() && (created || !fresh) || !fresh && !resumable(progress, relations) {
		c.state.Table, c.state.Schema = c.cfg.NewTable(c.table.Name), c.table.Schema(c.cfg.Values, nil)
		fresh = true
	}
	if fresh {
		low, err := source.InsertLSN(ctx, conn)
		if err != nil {
			return formats.CopyState{}, err
		}
		progress = formats.CopyState{Low: low, Relations: relations}
		c.rows.Store(0)
		c.bytes.Store(0)
		c.started = time.Now()
	}
	c.keyless = c.keylessSchema()
	var pages, done int64
	for _, r := range progress.Relations {
		pages += int64(r.Pages)
		for _, d := range r.Done {
			done += int64(min(d.To, r.Pages)) - int64(min(d.From, r.Pages))
		}
	}
	c.pages.Store(pages)
	c.read.Store(done)
	c.estimate.Store(c.table.EstimatedRows)
	return progress, c.cfg.Batcher.StartCopy(ctx, c.state.Table, c.state.Schema, c.table.Fingerprint, progress, c.keyless)
}

func (c *Copier) keylessSchema() bool { return len(c.state.Schema.Key) == 0 }

// resumable tells whether the relations are the ones that the copy began with.
func resumable(progress formats.CopyState, now []formats.CopyRelation) bool {
	if len(progress.Relations) == 0 || len(progress.Relations) != len(now) {
		return false
	}
	for i, r := range progress.Relations {
		if r.OID != now[i].OID || r.Filenode != now[i].Filenode {
			return false
		}
	}
	return true
}

// sameColumns tells whether the schema that the copy began with still is the table's.
func sameColumns(schema *formats.Schema, t *source.Table) bool {
	if len(schema.Columns) != len(t.Columns) || schema.KeyKind != t.KeyKind || !slices.Equal(schema.Key, t.Key) {
		return false
	}
	for i, c := range t.Columns {
		held := &schema.Columns[i]
		if held.Name != c.Name || held.Attnum != c.Attnum || held.Source.OID != c.Type.OID || held.Source.Typmod != c.Type.Typmod {
			return false
		}
	}
	return true
}

// measure lists the physical relations with their sizes, in the order of oid.
func measure(ctx context.Context, conn *pgx.Conn, t *source.Table) ([]formats.CopyRelation, error) {
	oids := []uint32{t.OID}
	if t.Partitioned {
		oids = nil
		for _, leaf := range t.Leaves {
			oids = append(oids, leaf.OID)
		}
	}
	rows, err := conn.Query(ctx, `SELECT c.oid, COALESCE(pg_relation_filenode(c.oid), 0),
		COALESCE(pg_relation_size(c.oid), 0) / current_setting('block_size')::bigint
		FROM pg_class c WHERE c.oid = ANY ($1) ORDER BY c.oid`, oids)
	if err != nil {
		return nil, err
	}
	var all []formats.CopyRelation
	var r formats.CopyRelation
	var pages int64
	_, err = pgx.ForEachRow(rows, []any{&r.OID, &r.Filenode, &pages}, func() error {
		r.Pages = uint32(pages)
		all = append(all, r)
		return nil
	})
	if err == nil && len(all) != len(oids) {
		err = fmt.Errorf("%w: it was dropped", ErrChanged)
	}
	return all, err
}

// readAll reads what is left of every relation.
func (c *Copier) readAll(ctx context.Context, copied formats.CopyState, exported string) error {
	var chunks []chunk
	for _, r := range copied.Relations {
		name := c.table.Name
		for _, leaf := range c.table.Leaves {
			if leaf.OID == r.OID {
				name = leaf.Name
			}
		}
		for _, pages := range formats.PagesLeft(r.Done, r.Pages, chunkPages) {
			chunks = append(chunks, chunk{relation: r, name: name, pages: pages})
		}
	}
	queue := make(chan chunk, len(chunks))
	for _, chunk := range chunks {
		queue <- chunk
	}
	close(queue)
	stop := c.report(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	for range min(max(1, c.cfg.WorkersPerCopy), len(chunks)) {
		group.Go(func() error { return c.work(ctx, queue, exported) })
	}
	return group.Wait()
}

// report logs the progress now and then until stopped.
func (c *Copier) report(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Add(1)
	go func() {
		defer done.Done()
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p := c.Progress()
				c.cfg.Log.Info("copying", zap.String("table", source.Show(c.state.Table.Name)), zap.Int64("rows", p.Rows),
					zap.Int64("bytes", p.Bytes), zap.Int64("percent", int64(p.Fraction*100)), zap.Duration("remaining", p.Remaining))
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		done.Wait()
	}
}

// readOpenKeys connects anew to read keys that the stream left open after the last chunk.
func (c *Copier) readOpenKeys(ctx context.Context) (published <-chan struct{}, err error) {
	if err := c.cfg.Copies.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	defer c.cfg.Copies.Release(1)
	conn, err := c.cfg.Connections.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer c.cfg.Connections.Give(conn)
	return c.finish(ctx, conn)
}

// finish reads what the stream left open, and asks for the table to be published: the channel is closed when it is.
func (c *Copier) finish(ctx context.Context, conn *pgx.Conn) (published <-chan struct{}, err error) {
	for {
		keys, err := c.cfg.Batcher.Unresolved(ctx)
		if err != nil {
			return nil, err
		}
		if len(keys) == 0 {
			break
		}
		// A change may be decoded before a new snapshot sees it.
		if err := c.settleTransactions(ctx, conn); err != nil {
			return nil, err
		}
		if err := c.resolve(ctx, conn, keys); err != nil {
			return nil, err
		}
	}
	high, err := source.InsertLSN(ctx, conn)
	if err != nil {
		return nil, err
	}
	now, err := measure(ctx, conn, c.table)
	if err != nil {
		return nil, err
	}
	if !resumable(c.copied, now) {
		return nil, fmt.Errorf("%w: its rows were rewritten or truncated", ErrChanged)
	}
	return c.cfg.Batcher.FinishCopy(ctx, high)
}

// awaitPublished waits until the table is visible; more tells that keys were left open meanwhile.
func (c *Copier) awaitPublished(ctx context.Context, published <-chan struct{}) (more bool, err error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-published:
			return false, nil
		case <-tick.C:
			if c.cfg.Batcher.SetAside() != "" {
				return false, nil
			}
			keys, err := c.cfg.Batcher.Unresolved(ctx)
			if err != nil {
				return false, err
			}
			if len(keys) > 0 {
				return true, nil
			}
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

func rollback(tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = tx.Rollback(ctx)
}
