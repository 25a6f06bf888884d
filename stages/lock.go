package stages

import (
	"context"
	"errors"
	"time"

	"github.com/streambed/streambed/stages/source"
	"go.uber.org/zap"
)

// lockPatience is how long a lock is waited for at the start: a daemon that was just killed may still hold it.
const lockPatience = 5 * time.Second

// takeLock makes sure that the source's advisory lock is ours (design section 4, fencing). While another daemon has it, a
// standby waits, and anybody else gets source.ErrLocked.
func (p *Pipeline) takeLock(ctx context.Context) error {
	if p.lock != nil {
		select {
		case <-p.lock.Lost():
			p.lock.Release()
			p.lock = nil
		default:
			return nil
		}
	}
	if p.options.Standby {
		return p.awaitLock(ctx)
	}
	deadline := time.Now().Add(lockPatience)
	for {
		lock, err := source.AcquireLock(ctx, &p.source)
		if err == nil {
			p.lock = lock
			return nil
		}
		if !errors.Is(err, source.ErrLocked) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitLock takes the lock once the daemon that holds it has ended. What this process knew of the lake is stale then: the
// run that follows claims it anew, which fences the other one should it only have lost its connection (promise 8).
func (p *Pipeline) awaitLock(ctx context.Context) error {
	waited := false
	lock, err := source.AwaitLock(ctx, &p.source, func(held *source.LockedError) {
		waited = true
		p.setStandby(true)
		p.options.Log.Info("standing by: another Streambed runs this pipeline, and is taken over from when it ends",
			zap.Int32("backend", held.PID), zap.String("application", held.Application), zap.String("client", held.Client))
	})
	p.setStandby(false)
	if err != nil {
		return err
	}
	if waited {
		p.options.Log.Info("taking over: the source's lock is free")
	}
	p.lock = lock
	return nil
}

func (p *Pipeline) setStandby(waiting bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.standby = waiting
	if waiting {
		p.current, p.trouble = nil, "" // an earlier run's figures would be taken for those of the pipeline
	}
}
