// Package reader reads a logical replication slot: raw pgoutput messages in, keepalives and acknowledgements out.
package reader

import (
	"context"
	"math"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/message"
)

// Config says what to read.
type Config struct {
	// ConnString names the source; Connect is used instead when set, and is not changed.
	ConnString string
	Connect    *pgconn.Config

	Slot         string
	Publications []string
	// Start is the position that the lake holds: the end LSN of its last cut. 0 starts where the slot stands.
	Start lsn.LSN
	// Binary asks for values in binary form where a type has one.
	Binary bool
	// Streaming asks for large transactions before their commit, in blocks, from a server that can (Postgres 14 and later).
	Streaming bool

	// Budget admits what is handed on (promise 6).
	Budget *message.Budget
	// Expansion gives the budget's bytes a pgoutput byte is to be counted as; nil counts one. It is asked for each slab
	// from the receiving goroutine.
	Expansion func() float64
	// StatusInterval is the longest time between status updates; 0 means a second. It is shortened where the server's
	// wal_sender_timeout calls for it.
	StatusInterval time.Duration
	Log            *zap.Logger
}

// Reader is one replication connection. Run is called once; all other methods may be called at any time from any
// goroutine and do not block.
type Reader struct {
	config   Config
	interval time.Duration
	// inProgress is Config.Streaming where the server can.
	inProgress bool
	started    atomic.Bool

	// wake asks the answering goroutine for a status update at once; ask is whether it requests a keepalive in return.
	wake chan struct{}
	ask  atomic.Bool

	acknowledged, received atomic.Uint64
	bytes, messages, slabs atomic.Int64
	stalls                 atomic.Int64
}

// New makes a reader; Run connects it.
func New(config Config) *Reader {
	if config.StatusInterval <= 0 {
		config.StatusInterval = time.Second
	}
	if config.Log == nil {
		config.Log = zap.NewNop()
	}
	r := &Reader{config: config, interval: config.StatusInterval, wake: make(chan struct{}, 1)}
	r.acknowledged.Store(uint64(config.Start))
	r.received.Store(uint64(config.Start))
	return r
}

// Acknowledge tells the server that everything before position is durable in the lake, so that its WAL may go
// (promise 1). It is sent at once; a position behind the last one is ignored.
func (r *Reader) Acknowledge(position lsn.LSN) {
	if raise(&r.acknowledged, position) {
		r.wakeUp()
	}
}

// RequestKeepalive asks the server for a keepalive at once, which tells the decoder how far the stream has come.
func (r *Reader) RequestKeepalive() {
	r.ask.Store(true)
	r.wakeUp()
}

func (r *Reader) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// raise stores position if it is higher.
func raise(to *atomic.Uint64, position lsn.LSN) bool {
	for {
		old := to.Load()
		if uint64(position) <= old {
			return false
		}
		if to.CompareAndSwap(old, uint64(position)) {
			return true
		}
	}
}

// Received is the highest WAL position that the server has sent.
func (r *Reader) Received() lsn.LSN { return lsn.LSN(r.received.Load()) }

// Acknowledged is the position that the server is told.
func (r *Reader) Acknowledged() lsn.LSN { return lsn.LSN(r.acknowledged.Load()) }

// Bytes counts the bytes that came from the socket.
func (r *Reader) Bytes() int64 { return r.bytes.Load() }

// Messages counts the replication messages handed on, keepalives included.
func (r *Reader) Messages() int64 { return r.messages.Load() }

// Slabs counts the slabs handed on.
func (r *Reader) Slabs() int64 { return r.slabs.Load() }

// Stalls counts how often the reader had to wait for the decoder or the budget.
func (r *Reader) Stalls() int64 { return r.stalls.Load() }

// Streaming reports whether the server has agreed to stream.
func (r *Reader) Streaming() bool { return r.started.Load() }

// Run connects and streams into out until ctx ends or the stream breaks, and always returns an error: ctx's cause, or one
// that wraps a kind from errors.go. It blocks while out or the budget is full; the server goes on being answered. What it
// sent to out stays valid after it has returned. The last acknowledged position is sent before the connection closes.
func (r *Reader) Run(ctx context.Context, out chan<- *message.Raw) error {
	conn, err := r.connect(ctx)
	if err != nil {
		return err
	}
	r.config.Log.Info("streaming from the source", zap.String("slot", r.config.Slot), zap.Stringer("from", r.config.Start), zap.Bool("binary", r.config.Binary), zap.Bool("in_progress", r.inProgress))

	running, stop := context.WithCancelCause(ctx)
	// The deadline in the past ends a read or write that is under way.
	unblock := context.AfterFunc(running, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if err := r.answer(running, conn); err != nil {
			stop(err)
		}
	}()
	stop(r.receive(running, conn, out))
	<-answered
	unblock()
	r.leave(conn)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err = context.Cause(running)
	return r.streaming(err)
}

// leave tells the server the last position and says goodbye, so that the slot is free at once.
func (r *Reader) leave(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	farewell := status(nil, r.Received(), r.Acknowledged(), time.Now(), false)
	farewell = append(farewell, 'c', 0, 0, 0, 4, 'X', 0, 0, 0, 4) // CopyDone, Terminate
	_, _ = conn.Write(farewell)
	_ = conn.Close()
}

// answer sends status updates until ctx ends. It is the only one that writes to conn meanwhile.
func (r *Reader) answer(ctx context.Context, conn net.Conn) error {
	regular := time.NewTicker(r.interval)
	defer regular.Stop()
	var buf []byte
	for {
		buf = status(buf[:0], r.Received(), r.Acknowledged(), time.Now(), r.ask.Swap(false))
		if _, err := conn.Write(buf); err != nil {
			return err
		}
		select {
		case <-regular.C:
		case <-r.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// answerEvery is how often a request for an answer is followed at most. A server that shuts down asks again as soon as it
// is answered, until the lake has everything; the acknowledgement itself is never held back.
const answerEvery = 50 * time.Millisecond

// receive reads the socket straight into slabs and hands each on as soon as one read has brought whole messages: while the
// decoder is busy the kernel collects, so slabs are full under load, and nothing is held back when there is none.
func (r *Reader) receive(ctx context.Context, conn net.Conn, out chan<- *message.Raw) error {
	var answered time.Time
	s, filled := takeSlab(SlabSize), 0
	defer func() { r.drop(s) }() // s is the one not sent
	for {
		n, err := conn.Read(s.buf[filled:])
		r.bytes.Add(int64(n))
		filled += n
		taken, asked, fault := s.parse(filled)
		if now := time.Now(); asked && now.Sub(answered) >= answerEvery {
			answered = now
			r.wakeUp()
		}
		r.note(s.raw.Messages)
		// Whole messages count even when the stream broke behind them.
		rest := s.buf[taken:filled]
		if len(s.raw.Messages) > 0 {
			next := takeSlab(SlabSize)
			filled = copy(next.buf, rest)
			if err := r.deliver(ctx, s, out); err != nil {
				next.recycle()
				return err
			}
			s = next
		} else if taken > 0 {
			filled = copy(s.buf, rest)
		}
		if fault != nil {
			return fault
		}
		if err != nil {
			return err
		}
		if s, err = r.fit(ctx, s, filled); err != nil {
			return err
		}
	}
}

// note keeps the highest position seen.
func (r *Reader) note(messages []message.RawMessage) {
	var highest lsn.LSN
	for i := range messages {
		highest = max(highest, messages[i].Start, messages[i].End)
	}
	raise(&r.received, highest)
}

// fit gives s, or a slab of its own for a frame that is longer than s. Such a frame is admitted before its memory is
// taken.
func (r *Reader) fit(ctx context.Context, s *slab, filled int) (*slab, error) {
	size, err := frameSize(s.buf[:filled])
	if err != nil || size <= len(s.buf) {
		return s, err
	}
	cost := r.cost(int64(size - headerSize))
	if err := r.acquire(ctx, cost); err != nil {
		return s, err
	}
	own := takeSlab(size)
	own.admitted = cost
	copy(own.buf, s.buf[:filled])
	s.recycle()
	return own, nil
}

// drop gives back the memory of a slab that was not sent, and what was admitted for it.
func (r *Reader) drop(s *slab) {
	if s.admitted > 0 && r.config.Budget != nil {
		r.config.Budget.Received(s.admitted)
		r.config.Budget.Release(s.admitted)
	}
	s.recycle()
}

// cost is what bytes of pgoutput are counted as.
func (r *Reader) cost(bytes int64) int64 {
	if r.config.Expansion == nil {
		return bytes
	}
	weight := r.config.Expansion()
	if !(weight > 0) { // NaN too
		return bytes
	}
	return int64(math.Ceil(float64(bytes) * weight))
}

func (r *Reader) acquire(ctx context.Context, cost int64) error {
	if cost <= 0 || r.config.Budget == nil {
		return nil
	}
	return r.config.Budget.Acquire(ctx, cost)
}

// deliver admits a slab into the budget and sends it. Keepalives cost nothing. On an error s is still the caller's.
func (r *Reader) deliver(ctx context.Context, s *slab, out chan<- *message.Raw) error {
	if s.admitted == 0 {
		cost := r.cost(s.bytes)
		if err := r.acquire(ctx, cost); err != nil {
			return err
		}
		s.admitted = cost
	}
	if r.config.Budget != nil {
		s.raw.Cost = s.admitted
	}
	count := int64(len(s.raw.Messages))
	s.sent = true
	select {
	case out <- &s.raw:
		r.messages.Add(count)
		r.slabs.Add(1)
		return nil
	default:
	}
	r.stalls.Add(1)
	select {
	case out <- &s.raw:
		r.messages.Add(count)
		r.slabs.Add(1)
		return nil
	case <-ctx.Done():
		s.sent = false
		return context.Cause(ctx)
	}
}
