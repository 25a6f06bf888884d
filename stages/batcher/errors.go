package batcher

import (
	"errors"
	"fmt"

	"github.com/streambed/streambed/stages/rows"
)

// errTable marks errors that set one table aside.
var errTable = errors.New("the table cannot be followed")

func tableError(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errTable, fmt.Errorf(format, args...))
}

// TableError marks err as one table's own: it sets that table aside and stops nothing else.
func TableError(err error) error { return fmt.Errorf("%w: %w", errTable, err) }

// errResync marks table errors that copying the table anew mends.
var errResync = errors.New("it is copied anew")

// NeedsResync marks err as one table's own that copying it anew mends, which then happens without being asked for.
func NeedsResync(err error) error { return fmt.Errorf("%w: %w: %w", errTable, err, errResync) }

// ErrRestart tells a copier that its copy cannot go on and has to begin anew.
var ErrRestart = errors.New("the table was altered while it was being copied")

func isTableError(err error) bool {
	return errors.Is(err, errTable) || errors.Is(err, rows.ErrValue)
}

// reason is the sentence that the user reads: what happened, and what to do.
func (b *Batcher) reason(err error) string {
	if errors.Is(err, errResync) {
		return fmt.Sprintf("%v; the table stays as of its last checkpoint until the new copy is whole", err)
	}
	return fmt.Sprintf("%v; the table stays as of its last checkpoint until `streambedd resync --table %s`", err, b.name())
}
