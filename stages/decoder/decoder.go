// Package decoder turns the raw replication stream into runs of rows by table, and puts the cuts between transactions at
// which the lake gets its checkpoints.
package decoder

import (
	"context"
	"math"
	"time"

	"go.uber.org/zap"

	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/message"
)

// Flush says when a cut is made: at the first transaction end at which one of them is reached.
type Flush struct {
	// Interval is the time since the cut before.
	Interval time.Duration
	// Rows counts row changes, Bytes their tuples' bytes; 0 leaves a bound out.
	Rows, Bytes int64
}

// Config says where to begin and how to cut.
type Config struct {
	// Position is what the lake holds: a transaction whose commit record is before it is skipped whole (promise 2). The
	// LSNs of single changes are never compared: those of a transaction that was open at an earlier commit are below it.
	Position lsn.LSN
	// InitialCommitTime is the highest commit time in the lake.
	InitialCommitTime time.Time
	Flush             Flush
	Router            message.Router
	// Budget is where the cost of what is dropped is given back, and where a transaction that came in blocks is admitted
	// when it is replayed; nil when slabs cost nothing.
	Budget *message.Budget
	// SpillDir is where transactions in progress are kept beyond SpillMemory bytes, which all of them together may hold in
	// memory (0 means 4 MiB); "" keeps them in memory whatever their size. The folder must exist; Run removes its files.
	SpillDir    string
	SpillMemory int64
	// IdleEvery is the shortest time between cuts that only move the position; 0 means ten seconds.
	IdleEvery time.Duration
	// ChunkBytes is the size of tuples at which a run of rows is sent on; 0 means 64 KiB.
	ChunkBytes int
	// Linger is the longest time that rows wait for others before they are sent on; 0 means 20 ms. It delays no cut.
	Linger time.Duration
	// RequestKeepalive asks the server for its position; it must not block. It is called, at most every 200 ms, while a
	// table is being copied and no rows come, and rarely when the source is silent. It may be nil.
	RequestKeepalive func()
	Log              *zap.Logger
}

// Decoder is the stage between reader and batchers. Run is called once; the other methods may be called from any
// goroutine at any time and do not block.
type Decoder struct {
	config Config
	nudge  chan struct{}
	stats  counters
	seen   observations

	// What follows belongs to Run's goroutine.
	now       time.Time
	cuts      chan<- *message.Cut
	relations map[uint32]*relation
	// arrivals counts Relation messages, also those inside blocks.
	arrivals uint64
	spool    spool
	// block is the log of the block that is open; nil outside of blocks.
	block   *streamLog
	scratch []byte
	targets map[chan<- message.TableMessage]*target
	// touched are the targets that were sent, or are to be sent, rows or a truncate since the last cut, in that order.
	touched []*target
	// open counts the chunks not sent yet, the oldest of which was begun at openSince.
	open      int
	openSince time.Time
	cost      costs
	tx        transaction
	progress  progress
}

// New makes a decoder.
func New(config Config) *Decoder {
	if config.IdleEvery <= 0 {
		config.IdleEvery = 10 * time.Second
	}
	if config.ChunkBytes <= 0 {
		config.ChunkBytes = 64 << 10
	}
	if config.Linger <= 0 {
		config.Linger = 20 * time.Millisecond
	}
	if config.Budget == nil {
		config.Budget = message.NewBudget(math.MaxInt64, nil)
	}
	if config.Log == nil {
		config.Log = zap.NewNop()
	}
	if config.SpillMemory <= 0 {
		config.SpillMemory = 4 << 20
	}
	d := &Decoder{
		config:    config,
		nudge:     make(chan struct{}, 1),
		relations: map[uint32]*relation{},
		targets:   map[chan<- message.TableMessage]*target{},
		progress: progress{
			safe: config.Position, cutEnd: config.Position,
			commitTime: config.InitialCommitTime, known: config.InitialCommitTime, cutKnown: config.InitialCommitTime,
		},
	}
	d.spool = spool{dir: config.SpillDir, limit: config.SpillMemory, logs: map[uint32]*streamLog{}, stats: &d.stats}
	return d
}

// Nudge asks for a cut at the next place where one may be, without waiting for the interval.
func (d *Decoder) Nudge() {
	select {
	case d.nudge <- struct{}{}:
	default:
	}
}

// Run decodes what comes from in until ctx ends, in is closed, or the stream cannot be read. It sends rows, truncates and
// cuts to the routes and each cut to cuts first; it blocks while one of them is full. When in is closed it makes a last
// cut, if no transaction is open, and returns nil. Otherwise it gives ctx's cause, an *Error or a *SpillError. The budget's
// bytes that it holds at the end are given back, and transactions in progress are forgotten.
func (d *Decoder) Run(ctx context.Context, in <-chan *message.Raw, cuts chan<- *message.Cut) error {
	d.cuts = cuts
	d.now = time.Now()
	d.progress.lastCut, d.progress.lastData, d.progress.heard = d.now, d.now, d.now
	defer d.drop()
	defer d.spool.close()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case raw, ok := <-in:
			if done, err := d.input(ctx, raw, ok); done || err != nil {
				return err
			}
			continue
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
		// Nothing more at once. Rows may wait a moment for company, but not while the reader waits for their bytes.
		if d.open > 0 && d.config.Budget.Waiting() {
			if err := d.sendAll(ctx); err != nil {
				return err
			}
		}
		timer.Reset(d.patience())
		select {
		case raw, ok := <-in:
			if done, err := d.input(ctx, raw, ok); done || err != nil {
				return err
			}
			continue
		case <-d.nudge:
			d.progress.nudged = true
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		d.now = time.Now()
		if err := d.due(ctx); err != nil {
			return err
		}
		d.inquire()
	}
}

// input takes one slab, or the end of all.
func (d *Decoder) input(ctx context.Context, raw *message.Raw, ok bool) (done bool, err error) {
	d.now = time.Now()
	if !ok {
		if !d.tx.open {
			d.progress.nudged = true
		}
		return true, d.due(ctx)
	}
	if err := d.slab(ctx, raw); err != nil {
		return true, err
	}
	return false, d.due(ctx)
}

// slab decodes the messages of one slab and gives it back.
func (d *Decoder) slab(ctx context.Context, raw *message.Raw) error {
	defer raw.Release()
	d.cost.start(raw)
	defer d.giveBack()
	for i := range raw.Messages {
		m := &raw.Messages[i]
		if m.Keepalive {
			d.keepalive(m)
			continue
		}
		if err := d.message(ctx, m.Data); err != nil {
			return err
		}
	}
	return nil
}

// send passes m on, or gives ctx's cause.
func send[M any](ctx context.Context, to chan<- M, m M) error {
	select {
	case to <- m:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
