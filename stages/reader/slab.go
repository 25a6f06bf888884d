package reader

import (
	"sync"

	"github.com/streambed/streambed/stages/message"
)

// SlabSize is the size in bytes of a pooled slab; a longer message gets a slab of its own.
const SlabSize = 256 << 10

// slab is a piece of the byte stream as it came from the socket. The messages of raw point into buf, so nothing is
// copied on the way to the decoder. It belongs to the receiving goroutine until it is sent, then to whoever has raw.
type slab struct {
	buf []byte
	raw message.Raw
	// bytes counts the pgoutput bytes of raw's messages, admitted what was acquired for them so far.
	bytes, admitted int64
	sent            bool
}

var slabs sync.Pool

func newSlab(size int) *slab {
	s := &slab{buf: make([]byte, size)}
	s.raw.Release = s.release
	return s
}

// takeSlab gives an empty slab of at least size bytes.
func takeSlab(size int) *slab {
	if size > SlabSize {
		return newSlab(size)
	}
	if s, ok := slabs.Get().(*slab); ok {
		return s
	}
	return newSlab(SlabSize)
}

// release is Raw.Release.
func (s *slab) release() {
	if !s.sent {
		panic("a slab of the replication stream was released twice")
	}
	s.sent = false
	s.recycle()
}

// recycle forgets the messages and gives the memory back, if it is of the usual size.
func (s *slab) recycle() {
	s.reset()
	if len(s.buf) == SlabSize {
		slabs.Put(s)
	}
}

// reset forgets the messages, keeping the memory.
func (s *slab) reset() {
	clear(s.raw.Messages)
	s.raw.Messages = s.raw.Messages[:0]
	s.raw.Cost, s.bytes, s.admitted = 0, 0, 0
}
