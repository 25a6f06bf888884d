package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/jackc/pgx/v5/pgproto3"
)

// ErrClientGone ends the context of a connection whose client has hung up.
var ErrClientGone = errors.New("the client has closed the connection")

// Conn is a client's connection. One goroutine uses it; Close may be called from any.
type Conn struct {
	net     net.Conn
	backend *pgproto3.Backend
	input   *input
	ctx     context.Context
	end     context.CancelCauseFunc
	out     []byte
	err     error
}

// flushAt is the size of the output buffer at which rows are sent on, keepBuffer the largest one that is kept.
const (
	flushAt    = 64 << 10
	keepBuffer = 1 << 20
)

func newConn(c net.Conn, o Options) *Conn {
	ctx, end := context.WithCancelCause(context.Background())
	conn := &Conn{net: c, ctx: ctx, end: end, input: newInput(c, end)}
	conn.backend = pgproto3.NewBackend(conn.input, io.Discard)
	conn.backend.SetMaxBodyLen(o.MaxMessage)
	return conn
}

// Receive waits for the client's next message. It is valid until the next call.
func (c *Conn) Receive() (pgproto3.FrontendMessage, error) { return c.backend.Receive() }

// AuthType tells which kind of answer the client's next password message is.
func (c *Conn) AuthType(t uint32) error { return c.backend.SetAuthType(t) }

// Send puts messages into the output buffer.
func (c *Conn) Send(messages ...pgproto3.BackendMessage) {
	for _, m := range messages {
		out, err := m.Encode(c.out)
		if err != nil {
			c.err = errors.Join(c.err, err)
			return
		}
		c.out = out
	}
}

// Append puts an encoded message into the output buffer and sends the buffer on when it is large; then it blocks until
// the client takes it: a slow client slows only itself.
func (c *Conn) Append(encode func(dst []byte) []byte) error {
	c.out = encode(c.out)
	if len(c.out) < flushAt {
		return nil
	}
	return c.Flush()
}

// Flush sends what is buffered.
func (c *Conn) Flush() error {
	if c.err != nil {
		return c.err
	}
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.net.Write(c.out)
	c.out = c.out[:0]
	if cap(c.out) > keepBuffer {
		c.out = nil
	}
	if err != nil {
		c.err = err
		c.end(ErrClientGone)
	}
	return err
}

// Close hangs up.
func (c *Conn) Close() error {
	c.end(net.ErrClosed)
	c.input.stop()
	return c.net.Close()
}

// RemoteAddr is the client's address.
func (c *Conn) RemoteAddr() net.Addr { return c.net.RemoteAddr() }

// NetConn is the connection below, a *tls.Conn when encrypted.
func (c *Conn) NetConn() net.Conn { return c.net }

// input reads from the network ahead of the session, up to a bound, so that a client that hangs up is noticed while its
// statement runs. Before start it reads directly.
type input struct {
	net net.Conn
	end context.CancelCauseFunc

	mu      sync.Mutex
	changed sync.Cond
	started bool
	stopped bool
	buffer  []byte
	err     error
}

// readAhead bounds the buffered input.
const readAhead = 64 << 10

func newInput(c net.Conn, end context.CancelCauseFunc) *input {
	i := &input{net: c, end: end}
	i.changed.L = &i.mu
	return i
}

func (i *input) start() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.started {
		i.started = true
		go i.run()
	}
}

func (i *input) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
	i.changed.Broadcast()
}

func (i *input) run() {
	piece := make([]byte, 16<<10)
	for {
		n, err := i.net.Read(piece)
		i.mu.Lock()
		for len(i.buffer) > 0 && len(i.buffer)+n > readAhead && !i.stopped {
			i.changed.Wait()
		}
		i.buffer = append(i.buffer, piece[:n]...)
		if err != nil || i.stopped {
			if err == nil {
				err = net.ErrClosed
			}
			i.err = err
		}
		i.changed.Broadcast()
		i.mu.Unlock()
		if err != nil {
			i.end(ErrClientGone)
			return
		}
	}
}

// Read implements io.Reader.
func (i *input) Read(p []byte) (int, error) {
	i.mu.Lock()
	if !i.started {
		i.mu.Unlock()
		return i.net.Read(p)
	}
	defer i.mu.Unlock()
	for len(i.buffer) == 0 {
		if i.err != nil {
			return 0, i.err
		}
		i.changed.Wait()
	}
	n := copy(p, i.buffer)
	i.buffer = i.buffer[n:]
	if len(i.buffer) == 0 {
		i.buffer = nil
	}
	i.changed.Broadcast()
	return n, nil
}

// Interrupt makes Receive return, now or when it is called next, without hanging up. It may be called from any
// goroutine.
func (c *Conn) Interrupt() {
	i := c.input
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err == nil {
		i.err = net.ErrClosed
	}
	i.changed.Broadcast()
}
