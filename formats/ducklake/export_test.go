package ducklake

import "time"

// SetResolveTime shortens how long a commit tries to find out what became of it.
func SetResolveTime(d time.Duration) (restore func()) {
	old := resolveTime
	resolveTime = d
	return func() { resolveTime = old }
}

// Statements counts the statements that the lake's transactions have sent.
func (l *Lake) Statements() int64 { return l.catalog.statements.Load() }
