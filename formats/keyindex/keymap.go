package keyindex

import (
	"hash/maphash"
	"iter"
	"math"
	"unsafe"
)

// hashSeed is shared by all maps, so that a key is hashed once for several of them.
var hashSeed = maphash.MakeSeed()

func hashOf(key []byte) uint32 { return uint32(maphash.Bytes(hashSeed, key)) }

// KeyMap maps keys, given as bytes, to numbers. It is compact (about 35 bytes beside the key itself), allocates nothing
// per key, and keeps the order in which keys came. The zero value is an empty map that keeps no memory at Reset.
// It is not safe for concurrent use, but for concurrent reading.
type KeyMap struct {
	keep int64
	// slots is an open-addressing table, its length a power of two: a hash in the upper half and the entry's number + 1
	// in the lower one; 0 is free. The hash spares most looks at entries that are not the wanted one.
	slots   []uint64
	entries list[mapEntry]
	keys    arena
}

type mapEntry struct {
	value uint64
	key   uint64
}

const (
	smallestTable = 16
	entryChunk    = int64(unsafe.Sizeof([chunkLength]mapEntry{}))
)

// NewKeyMap makes an empty map that keeps up to about keep bytes of its memory at Reset.
func NewKeyMap(keep int64) *KeyMap { return &KeyMap{keep: keep} }

// Len gives the number of keys.
func (m *KeyMap) Len() int { return m.entries.length }

// Bytes gives the memory held, in bytes.
func (m *KeyMap) Bytes() int64 {
	return int64(len(m.slots))*8 + int64(len(m.entries.chunks))*(entryChunk+8) + m.keys.bytes
}

// Get gives the value of a key.
func (m *KeyMap) Get(key []byte) (v uint64, ok bool) {
	if p := m.find(hashOf(key), key); p != nil {
		return *p, true
	}
	return 0, false
}

// Put sets the value of a key, which it copies.
func (m *KeyMap) Put(key []byte, v uint64) {
	p, _ := m.Slot(key)
	*p = v
}

// Slot gives the place of a key's value, which stays valid until Reset, and whether the key was there already. A new
// key is copied and its value is 0.
func (m *KeyMap) Slot(key []byte) (value *uint64, found bool) {
	h := hashOf(key)
	if p := m.find(h, key); p != nil {
		return p, true
	}
	if m.entries.length >= len(m.slots)/4*3 {
		m.grow()
	}
	if m.entries.length >= math.MaxUint32-1 {
		panic("a key map holds at most 2^32-2 keys")
	}
	e := m.entries.add()
	e.key = m.keys.add(key)
	m.insert(uint64(h)<<32 | uint64(m.entries.length))
	return &e.value, false
}

// At gives the key that came as number i, from 0, and the place of its value. The key is the map's own memory; both are
// valid until Reset.
func (m *KeyMap) At(i int) (key []byte, value *uint64) {
	e := m.entries.at(i)
	return m.keys.get(e.key), &e.value
}

// All gives the keys in the order in which they first came, each with the place of its value, as At does.
func (m *KeyMap) All() iter.Seq2[[]byte, *uint64] {
	return func(yield func([]byte, *uint64) bool) {
		for i := 0; i < m.entries.length; i++ {
			if !yield(m.At(i)) {
				return
			}
		}
	}
}

// Reset empties the map. Memory beyond the bound given to NewKeyMap is let go; keys and places handed out earlier are
// no longer valid.
func (m *KeyMap) Reset() {
	if m.entries.length == 0 && m.Bytes() <= m.keep {
		return
	}
	left := m.keep
	if bytes := int64(len(m.slots)) * 8; bytes <= left {
		clear(m.slots)
		left -= bytes
	} else {
		m.slots = nil
	}
	m.entries.reset(int(left / (entryChunk + 8)))
	left -= int64(len(m.entries.chunks)) * (entryChunk + 8)
	m.keys.reset(left)
}

func (m *KeyMap) find(h uint32, key []byte) *uint64 {
	if len(m.slots) == 0 {
		return nil
	}
	mask := uint32(len(m.slots) - 1)
	for at := h & mask; ; at = (at + 1) & mask {
		s := m.slots[at]
		if s == 0 {
			return nil
		}
		if uint32(s>>32) != h {
			continue
		}
		e := m.entries.at(int(uint32(s)) - 1)
		if string(m.keys.get(e.key)) == string(key) {
			return &e.value
		}
	}
}

func (m *KeyMap) insert(slot uint64) {
	mask := uint32(len(m.slots) - 1)
	at := uint32(slot>>32) & mask
	for m.slots[at] != 0 {
		at = (at + 1) & mask
	}
	m.slots[at] = slot
}

func (m *KeyMap) grow() {
	old := m.slots
	m.slots = make([]uint64, max(smallestTable, 2*len(old)))
	for _, s := range old {
		if s != 0 {
			m.insert(s)
		}
	}
}
