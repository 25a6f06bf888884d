package duck

import (
	"context"
	"time"

	bindings "github.com/duckdb/duckdb-go-bindings"
)

// Conn is a connection; one goroutine uses it at a time. Running a statement ends an unfinished result of the one
// before.
type Conn struct {
	db   *DB
	conn bindings.Connection
	// Mark is free for the owner of the connection, to remember what is set on it; a new connection has "".
	Mark string
}

// Release gives the connection back for reuse. Its statements and results must be closed.
func (c *Conn) Release() {
	if !c.db.put(c) {
		c.Discard()
	}
}

// Discard closes the connection.
func (c *Conn) Discard() { bindings.Disconnect(&c.conn) }

// interruptEvery is how often a running statement is told again to stop: an interrupt that comes between two steps of
// it is lost.
const interruptEvery = 5 * time.Millisecond

// guard runs f, interrupting DuckDB from the moment ctx ends until f returns.
func (c *Conn) guard(ctx context.Context, f func()) {
	done, finished := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(finished)
		again := time.NewTicker(interruptEvery)
		defer again.Stop()
		for {
			bindings.Interrupt(c.conn)
			select {
			case <-done:
				return
			case <-again.C:
			}
		}
	})
	f()
	close(done)
	if !stop() {
		<-finished
	}
}

// Exec runs one statement and drops its result.
func (c *Conn) Exec(ctx context.Context, sql string) error {
	s, err := c.Prepare(ctx, sql)
	if err != nil {
		return err
	}
	defer s.Close()
	rows, err := s.Execute(ctx)
	if err != nil {
		return err
	}
	defer rows.Close()
	for {
		if chunk, err := rows.Next(ctx); chunk == nil {
			return err
		}
	}
}

// Text runs a query of one row and one column and gives the value's text; null for NULL or no row.
func (c *Conn) Text(ctx context.Context, sql string, args ...string) (text string, null bool, err error) {
	s, err := c.Prepare(ctx, sql)
	if err != nil {
		return "", true, err
	}
	defer s.Close()
	for i, a := range args {
		if err := s.Bind(i+1, StringValue(a)); err != nil {
			return "", true, err
		}
	}
	rows, err := s.Execute(ctx)
	if err != nil {
		return "", true, err
	}
	defer rows.Close()
	null = true
	for {
		chunk, err := rows.Next(ctx)
		if chunk == nil {
			return text, null, err
		}
		if chunk.Rows > 0 && null && !chunk.Columns[0].Null(0) {
			text, null = string(chunk.Columns[0].Bytes(0)), false
		}
	}
}
