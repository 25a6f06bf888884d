package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
)

// Holder is a process' lease. It is safe for concurrent use; a nil Holder holds nothing.
type Holder struct {
	table *Table
	name  string
	log   *zap.Logger
	stop  context.CancelFunc
	ended chan struct{}

	mu    sync.Mutex
	reads map[*Read]struct{}
	// told is that the log knows that no lease can be held.
	told bool
}

// Read is one use of the lake: a query, or a transaction of several.
type Read struct {
	holder     *Holder
	began      time.Time
	checkpoint int64
}

// Hold takes a lease on a pipeline for this process and renews it every interval (0: Interval), until Close. The first
// heartbeat has been tried when it returns. A catalog that cannot be written, which a reader may well have, is no error:
// the log says once that files may go while they are read.
func Hold(ctx context.Context, t *Table, interval time.Duration, log *zap.Logger) *Holder {
	if interval == 0 {
		interval = Interval
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	h := &Holder{table: t, name: uuid.NewString(), log: log, stop: stop, ended: make(chan struct{}), reads: map[*Read]struct{}{}}
	h.beat(ctx)
	go func() {
		defer close(h.ended)
		again := time.NewTicker(interval)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				h.beat(running)
			case <-running.Done():
				return
			}
		}
	}()
	return h
}

// Begin tells that something is going to read the lake. It must come before the checkpoint is chosen; End gives it up.
func (h *Holder) Begin() *Read {
	if h == nil {
		return nil
	}
	r := &Read{holder: h, began: time.Now()}
	h.mu.Lock()
	h.reads[r] = struct{}{}
	h.mu.Unlock()
	return r
}

// At tells which checkpoint is read, for those who look at the leases.
func (r *Read) At(checkpoint int64) {
	if r == nil {
		return
	}
	r.holder.mu.Lock()
	if r.checkpoint == 0 || checkpoint < r.checkpoint {
		r.checkpoint = checkpoint
	}
	r.holder.mu.Unlock()
}

// End tells that the reading is over. It may be called more than once.
func (r *Read) End() {
	if r == nil {
		return
	}
	r.holder.mu.Lock()
	delete(r.holder.reads, r)
	r.holder.mu.Unlock()
}

// beat writes the heartbeat.
func (h *Holder) beat(ctx context.Context) {
	h.mu.Lock()
	var age time.Duration
	var checkpoint int64
	for r := range h.reads {
		age = max(age, time.Since(r.began))
		if r.checkpoint > 0 && (checkpoint == 0 || r.checkpoint < checkpoint) {
			checkpoint = r.checkpoint
		}
	}
	h.mu.Unlock()
	err := h.table.write(ctx, h.name, checkpoint, age)
	if ctx.Err() != nil || errors.Is(err, errNothingYet) {
		return
	}
	h.mu.Lock()
	tell := err != nil && !h.told
	h.told = err != nil
	h.mu.Unlock()
	if tell {
		h.log.Warn("queries cannot tell the catalog what they read, so maintenance may delete files under those that outlast its grace: let this process write to the catalog, or keep queries shorter than that", zap.Error(err))
	}
}

// Close gives the lease up. Nothing may read any more.
func (h *Holder) Close() {
	if h == nil {
		return
	}
	h.stop()
	<-h.ended
	ctx, cancel := context.WithTimeout(context.Background(), margin)
	defer cancel()
	// One that cannot be removed expires.
	_ = h.table.remove(ctx, h.name)
}
