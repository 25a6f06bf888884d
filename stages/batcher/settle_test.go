package batcher

import (
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
)

// TestDeletesThatWaitForTheirCutFollowTheirRows: files that another commit has replaced meanwhile are not in the lake any
// more when the cut is committed.
func TestDeletesThatWaitForTheirCutFollowTheirRows(t *testing.T) {
	b := &Batcher{}
	for path, rows := range map[string][]uint32{"one": {0, 3}, "two": {1}, "kept": {5}} {
		for _, row := range rows {
			b.cut.deleteAt(path, row)
			deleteFrom(&b.cut.keyed, path, row)
		}
	}
	// Of file one, row 1 was deleted and so not moved; row 3 became row 2. File two comes behind it.
	rewrites := []formats.Rewrite{{Old: "one", New: "joined", Deleted: roaring.BitmapOf(1)}, {Old: "two", New: "joined", Offset: 4}, {Old: "three", New: "other"}}
	b.followDeletes(rewrites, movesOf(rewrites))
	for path, want := range map[string][]uint32{"joined": {0, 2, 5}, "kept": {5}} {
		if got := b.cut.keyed[path]; got == nil || !got.Equals(b.cut.deletes[path]) {
			t.Errorf("of %s the rows %v are deleted by key", path, got)
		}
		if got := b.cut.deletes[path]; got == nil || !got.Equals(roaring.BitmapOf(want...)) {
			t.Errorf("of %s the rows %v are deleted, wanted %v", path, got, want)
		}
	}
	if len(b.cut.deletes) != 2 {
		t.Errorf("%v", b.cut.deletes)
	}
}

// TestALargeCutSettlesWhereRowsAreDeletedByKey: what a cut knows of its keys stays within bounds in mode mor too, and a row
// that was settled is changed again in the same cut.
func TestALargeCutSettlesWhereRowsAreDeletedByKey(t *testing.T) {
	f := live(t, formats.KeyPrimary, iceberg.MergeOnRead)
	f.keys = 3
	f.reopen()
	var first, again []change
	var want []string
	for i := range 12 {
		k := strconv.Itoa(i)
		first = append(first, insert(k, "old", "big"))
		again = append(again, update(k, "new", "same"))
		if i%2 == 0 {
			want = append(want, k+"|newest|big")
		}
	}
	slices.Sort(want)
	f.send(first...)
	f.cut()
	for _, c := range again {
		f.send(c) // each may settle
	}
	for i := range 12 {
		if k := strconv.Itoa(i); i%2 == 0 {
			f.send(update(k, "newest", "same"))
		} else {
			f.send(remove(k))
		}
	}
	f.cut()
	f.expect(want)
	if found, err := filepath.Glob(f.dir + "/warehouse/*/*/*/data/keys-*.parquet"); err != nil || len(found) < 4 {
		t.Errorf("12 keys, settled 3 at a time, went into %d files: %v", len(found), err)
	}
	f.reopen()
	f.expect(want)
	f.send(remove("0"))
	f.cut()
	f.expect(want[1:])
}
