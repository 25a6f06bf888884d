package keyindex

import (
	"crypto/sha256"
	"encoding/binary"
)

// Position is a row's place: the id of its data file, as FileID gives it, and its number in the file, from 0.
type Position struct {
	File uint64
	Row  uint32
}

// FileID gives the id of a data file: a hash of its path. It is the same in every run, so no list of files has to be
// kept; callers map the ids of live files back to their paths and ignore the others.
func FileID(path string) uint64 {
	sum := sha256.Sum256([]byte(path))
	return binary.BigEndian.Uint64(sum[:])
}

// LongKey is the length in bytes from which on a key is held by its first bytes and a SHA-256 digest, LongKey bytes
// together. Shorter ones are held as they are, so the two can never be mistaken for each other.
const LongKey = 512

// The database's key space:
//
//	's' 'v'                          -> the version of this layout
//	's' 'n'                          -> the last table number given out, 4 bytes
//	's' 't' id                       -> an incarnation's number, 4 bytes
//	'q' number                       -> the sequence number held, 8 bytes
//	'e' number | key | file | row    -> nothing: one entry
//	'o' spill | key | file | row     -> nothing for a Put, one byte for a Remove: a part of a change, see spill.go
//
// Numbers are big-endian. A table number is 4 bytes and is never given out twice.
const (
	spaceSystem   = 's'
	spaceSequence = 'q'
	spaceEntries  = 'e'
	spaceSpill    = 'o'

	prefixLength   = 5
	positionLength = 12
	layoutVersion  = 1
)

var (
	keyVersion = []byte{spaceSystem, 'v'}
	keyNumber  = []byte{spaceSystem, 'n'}
	keyTables  = []byte{spaceSystem, 't'}
)

func tableKey(space byte, number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{space}, number)
}

// span gives the bounds of all keys of a table, or spill, in a space.
func span(space byte, number uint32) (from, to []byte) {
	from = tableKey(space, number)
	if number == 1<<32-1 {
		return from, []byte{space + 1}
	}
	return from, tableKey(space, number+1)
}

func putPosition(b []byte, p Position) {
	binary.BigEndian.PutUint64(b, p.File)
	binary.BigEndian.PutUint32(b[8:], p.Row)
}

func appendPosition(b []byte, p Position) []byte {
	b = binary.BigEndian.AppendUint64(b, p.File)
	return binary.BigEndian.AppendUint32(b, p.Row)
}

func readPosition(b []byte) Position {
	return Position{File: binary.BigEndian.Uint64(b), Row: binary.BigEndian.Uint32(b[8:])}
}

func (p Position) compare(q Position) int {
	switch {
	case p.File < q.File || p.File == q.File && p.Row < q.Row:
		return -1
	case p == q:
		return 0
	}
	return 1
}

// held gives the form in which a key is held: itself, or what stands for a long one.
func held(key []byte) []byte {
	if len(key) < LongKey {
		return key
	}
	const head = LongKey - sha256.Size
	sum := sha256.Sum256(key[head:])
	return append(append(make([]byte, 0, LongKey), key[:head]...), sum[:]...)
}
