package batcher

import (
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/streambed/streambed/formats"
)

// TestDeletesThatWaitForTheirCutFollowTheirRows: files that another commit has replaced meanwhile are not in the lake any
// more when the cut is committed.
func TestDeletesThatWaitForTheirCutFollowTheirRows(t *testing.T) {
	b := &Batcher{}
	for path, rows := range map[string][]uint32{"one": {0, 3}, "two": {1}, "kept": {5}} {
		for _, row := range rows {
			b.cut.deleteAt(path, row)
		}
	}
	// Of file one, row 1 was deleted and so not moved; row 3 became row 2. File two comes behind it.
	rewrites := []formats.Rewrite{{Old: "one", New: "joined", Deleted: roaring.BitmapOf(1)}, {Old: "two", New: "joined", Offset: 4}, {Old: "three", New: "other"}}
	b.followDeletes(rewrites, movesOf(rewrites))
	for path, want := range map[string][]uint32{"joined": {0, 2, 5}, "kept": {5}} {
		if got := b.cut.deletes[path]; got == nil || !got.Equals(roaring.BitmapOf(want...)) {
			t.Errorf("of %s the rows %v are deleted, wanted %v", path, got, want)
		}
	}
	if len(b.cut.deletes) != 2 {
		t.Errorf("%v", b.cut.deletes)
	}
}
