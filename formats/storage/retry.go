package storage

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// retry calls f until it succeeds, fails for good, or ctx ends; between calls it waits, twice as long each time and at
// random by up to half, so that many writers do not come back at once. f tells whether its failure may pass.
func retry(ctx context.Context, f func(ctx context.Context) (again bool, err error)) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		again, err := f(ctx)
		if err == nil {
			return nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if !again {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}
