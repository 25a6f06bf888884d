package duck

/*
#include "live.h"
*/
import "C"

import (
	"errors"
	"sync"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"
)

// LiveFunction is the SQL name of the scalar function live(slot, file_index, file_row_number), which is false for
// deleted rows. It must not be within reach of users: a slot that is not theirs would answer for another table.
const LiveFunction = "streambed_live"

// LiveInOneFunction is the SQL name of live(slot, file_row_number) for a version of one file, which DuckDB evaluates
// within the scan. It must not be within reach of users either.
const LiveInOneFunction = "streambed_live_in_one"

// Deletes keeps the deleted positions of table versions in C memory, where the scalar function reads them. It is safe
// for concurrent use.
type Deletes struct {
	mu      sync.Mutex
	next    uint32
	free    []uint32
	bitmaps map[string][]*bitmap
}

// bitmap is the C form of one file's deleted positions, shared by all versions that hold the same ones.
type bitmap struct {
	positions *roaring.Bitmap
	memory    *C.streambed_bitmap
	users     int
}

// Version is a registered list of files. Its memory stays until Release.
type Version struct {
	// Slot is the first argument of the scalar function.
	Slot    uint32
	owner   *Deletes
	memory  *C.streambed_version
	paths   []string
	bitmaps []*bitmap
}

// Register makes the deleted positions of a version's files known, in the order of its file list; a file without
// deletes has nil. The positions must not change afterwards.
func (d *Deletes) Register(paths []string, deleted []*roaring.Bitmap) (*Version, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := &Version{owner: d, memory: C.streambed_new_version(C.uint64_t(len(paths)))}
	if v.memory == nil {
		return nil, errors.New("no memory for the deleted rows of a table")
	}
	for i, positions := range deleted {
		if positions == nil || positions.IsEmpty() {
			continue
		}
		b, err := d.share(paths[i], positions)
		if err != nil {
			v.drop()
			return nil, err
		}
		v.paths, v.bitmaps = append(v.paths, paths[i]), append(v.bitmaps, b)
		C.streambed_set_bitmap(v.memory, C.uint64_t(i), b.memory)
	}
	switch {
	case len(d.free) > 0:
		v.Slot, d.free = d.free[len(d.free)-1], d.free[:len(d.free)-1]
	case d.next < C.STREAMBED_VERSIONS:
		v.Slot = d.next
		d.next++
	default:
		v.drop()
		return nil, errors.New("more table versions with deleted rows are in use than the query server can hold")
	}
	C.streambed_set_version(C.uint32_t(v.Slot), v.memory)
	return v, nil
}

// Release gives the version's memory back. No statement may use its slot any more.
func (v *Version) Release() {
	v.owner.mu.Lock()
	defer v.owner.mu.Unlock()
	C.streambed_set_version(C.uint32_t(v.Slot), nil)
	v.owner.free = append(v.owner.free, v.Slot)
	v.drop()
}

func (v *Version) drop() {
	for i, b := range v.bitmaps {
		v.owner.unshare(v.paths[i], b)
	}
	v.bitmaps = nil
	C.streambed_free_version(v.memory)
}

// share finds the C form of a file's positions among those in use, or makes it.
func (d *Deletes) share(path string, positions *roaring.Bitmap) (*bitmap, error) {
	if d.bitmaps == nil {
		d.bitmaps = map[string][]*bitmap{}
	}
	for _, b := range d.bitmaps[path] {
		if b.positions == positions || b.positions.Equals(positions) {
			b.users++
			return b, nil
		}
	}
	memory, err := newBitmap(positions)
	if err != nil {
		return nil, err
	}
	b := &bitmap{positions: positions, memory: memory, users: 1}
	d.bitmaps[path] = append(d.bitmaps[path], b)
	return b, nil
}

func (d *Deletes) unshare(path string, b *bitmap) {
	if b.users--; b.users > 0 {
		return
	}
	C.streambed_free_bitmap(b.memory)
	list := d.bitmaps[path]
	for i := range list {
		if list[i] == b {
			list = append(list[:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(d.bitmaps, path)
		return
	}
	d.bitmaps[path] = list
}

func newBitmap(positions *roaring.Bitmap) (*C.streambed_bitmap, error) {
	const words = 1 << (C.STREAMBED_BLOCK_BITS - 6)
	memory := C.streambed_new_bitmap(C.uint64_t(positions.Maximum()>>C.STREAMBED_BLOCK_BITS) + 1)
	if memory == nil {
		return nil, errors.New("no memory for the deleted rows of a file")
	}
	var block []uint64
	current := int64(-1)
	for it := positions.Iterator(); it.HasNext(); {
		p := it.Next()
		if n := int64(p >> C.STREAMBED_BLOCK_BITS); n != current {
			m := C.streambed_new_block(memory, C.uint64_t(n))
			if m == nil {
				C.streambed_free_bitmap(memory)
				return nil, errors.New("no memory for the deleted rows of a file")
			}
			block, current = unsafe.Slice((*uint64)(unsafe.Pointer(m)), words), n
		}
		bit := p & (1<<C.STREAMBED_BLOCK_BITS - 1)
		block[bit>>6] |= 1 << (bit & 63)
	}
	return memory, nil
}
