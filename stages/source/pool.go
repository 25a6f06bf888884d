package source

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// poolIdle is how long a connection is kept after the last use of its pool.
const poolIdle = 2 * time.Second

// Pool lends connections to the source and keeps them for the next borrower: each new one costs the source a process,
// which the copies of a thousand small tables would feel. It is safe for concurrent use. Those that nobody has borrowed
// for a while are closed.
type Pool struct {
	url, purpose string

	mu     sync.Mutex
	idle   []*pgx.Conn
	sweep  *time.Timer
	closed bool
}

// NewPool makes an empty pool; url and purpose are as for Connect.
func NewPool(url, purpose string) *Pool {
	p := &Pool{url: url, purpose: purpose}
	p.sweep = time.AfterFunc(poolIdle, p.closeIdle)
	return p
}

// Take lends a connection, outside of a transaction; it blocks only if one has to be made. One that was kept may turn out
// broken when it is used, which is no reason to think that the next one is.
func (p *Pool) Take(ctx context.Context) (*pgx.Conn, error) {
	p.mu.Lock()
	p.sweep.Stop()
	for len(p.idle) > 0 {
		conn := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if !conn.IsClosed() {
			p.mu.Unlock()
			return conn, nil
		}
	}
	p.mu.Unlock()
	return Connect(ctx, p.url, p.purpose)
}

// Give returns a connection. One that is broken or in a transaction is closed.
func (p *Pool) Give(conn *pgx.Conn) {
	p.mu.Lock()
	keep := !p.closed && !conn.IsClosed() && conn.PgConn().TxStatus() == 'I'
	if keep {
		p.idle = append(p.idle, conn)
		p.sweep.Reset(poolIdle)
	}
	p.mu.Unlock()
	if !keep {
		CloseConn(conn)
	}
}

func (p *Pool) closeIdle() {
	p.mu.Lock()
	idle := slices.Clone(p.idle)
	p.idle = nil
	p.mu.Unlock()
	for _, conn := range idle {
		CloseConn(conn)
	}
}

// Close closes the idle connections, and those lent when they are given back.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.sweep.Stop()
	p.mu.Unlock()
	p.closeIdle()
}
