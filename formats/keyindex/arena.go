package keyindex

import "encoding/binary"

const (
	smallestBlock = 256
	largestBlock  = 256 << 10
)

// arena holds byte strings in blocks that grow with it, so that neither a table with three keys nor one with millions
// wastes much, and nothing is ever copied to grow. Strings keep their place until reset.
type arena struct {
	blocks [][]byte
	bytes  int64
}

// reserve gives room for a string of n bytes, and its reference. The caller fills it.
func (a *arena) reserve(n int) (uint64, []byte) {
	var head [binary.MaxVarintLen64]byte
	h := binary.PutUvarint(head[:], uint64(n))
	last := len(a.blocks) - 1
	if last < 0 || cap(a.blocks[last])-len(a.blocks[last]) < h+n {
		size := smallestBlock
		if last >= 0 {
			size = min(2*cap(a.blocks[last]), largestBlock)
		}
		a.blocks = append(a.blocks, make([]byte, 0, max(size, h+n)))
		last++
		a.bytes += int64(cap(a.blocks[last]))
	}
	b := a.blocks[last]
	at := len(b)
	b = append(b, head[:h]...)
	b = b[:at+h+n]
	a.blocks[last] = b
	return uint64(last)<<32 | uint64(at), b[at+h:]
}

func (a *arena) add(s []byte) uint64 {
	ref, room := a.reserve(len(s))
	copy(room, s)
	return ref
}

// get gives the string of a reference; it is the arena's own memory.
func (a *arena) get(ref uint64) []byte {
	b := a.blocks[ref>>32][uint32(ref):]
	n, h := binary.Uvarint(b)
	return b[h : h+int(n) : h+int(n)]
}

// reset forgets all strings. It keeps the newest block when that is within keep bytes.
func (a *arena) reset(keep int64) {
	n := len(a.blocks)
	if n == 0 || int64(cap(a.blocks[n-1])) > keep {
		*a = arena{}
		return
	}
	a.blocks[0] = a.blocks[n-1][:0]
	clear(a.blocks[1:])
	a.blocks = a.blocks[:1]
	a.bytes = int64(cap(a.blocks[0]))
}

const chunkLength = 128

// list is a growing array that never moves its elements.
type list[T any] struct {
	chunks []*[chunkLength]T
	length int
}

// add appends a zero element and gives its place.
func (l *list[T]) add() *T {
	if l.length == len(l.chunks)*chunkLength {
		l.chunks = append(l.chunks, new([chunkLength]T))
	}
	l.length++
	return l.at(l.length - 1)
}

func (l *list[T]) at(i int) *T { return &l.chunks[i/chunkLength][i%chunkLength] }

// reset forgets all elements and keeps at most the given number of chunks.
func (l *list[T]) reset(chunks int) {
	if len(l.chunks) > chunks {
		clear(l.chunks[chunks:])
		l.chunks = l.chunks[:chunks]
	}
	for _, c := range l.chunks {
		clear(c[:])
	}
	l.length = 0
}
