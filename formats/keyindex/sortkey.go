package keyindex

import (
	"bytes"
	"slices"
)

// sortRef stands for a byte string that is held elsewhere.
type sortRef struct {
	// head are the first bytes in which the strings differ, as a number: most comparisons end with it.
	head uint64
	// ref leads to the string.
	ref uint64
}

// sortRefs orders refs by their strings, which get gives.
func sortRefs(refs []sortRef, get func(ref uint64) []byte) {
	if len(refs) < 2 {
		return
	}
	common := commonLength(refs, get)
	for i := range refs {
		refs[i].head = head(get(refs[i].ref), common)
	}
	slices.SortFunc(refs, func(a, b sortRef) int {
		switch {
		case a.head < b.head:
			return -1
		case a.head > b.head:
			return 1
		}
		return bytes.Compare(get(a.ref), get(b.ref))
	})
}

// commonLength gives the number of bytes with which all strings begin.
func commonLength(refs []sortRef, get func(ref uint64) []byte) int {
	first := get(refs[0].ref)
	n := len(first)
	for _, r := range refs[1:] {
		s := get(r.ref)
		n = min(n, len(s))
		for i := range n {
			if s[i] != first[i] {
				n = i
				break
			}
		}
	}
	return n
}

// head gives the eight bytes after the common ones, as a number; missing ones are zeros, and the whole comparison
// decides between equals.
func head(s []byte, common int) uint64 {
	var h uint64
	for i := range 8 {
		h <<= 8
		if common+i < len(s) {
			h |= uint64(s[common+i])
		}
	}
	return h
}
