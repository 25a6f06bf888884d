package formats

import (
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

func TestRowsAreFollowedThroughEveryReplacement(t *testing.T) {
	var m Moves
	m.Note([]Rewrite{{Old: "a", New: "b", Offset: 10, Deleted: roaring.BitmapOf(0, 2)}, {Old: "gone", Deleted: roaring.BitmapOf(0)}}, 1)
	m.Note([]Rewrite{{Old: "b", New: "c", Deleted: roaring.BitmapOf(11)}}, 2)
	ch := &TableChange{Deletes: map[string]*roaring.Bitmap{"a": roaring.BitmapOf(1, 2, 3, 4), "gone": roaring.BitmapOf(0), "c": roaring.BitmapOf(5), "d": roaring.BitmapOf(7)}}
	got := m.Follow(ch).Deletes
	// Of a, 2 was gone before b, 3 became 11 of b and was gone before c; 1 and 4 became 10 and 12 of b, 10 and 11 of c.
	if len(got) != 2 || !got["c"].Equals(roaring.BitmapOf(5, 10, 11)) || !got["d"].Equals(roaring.BitmapOf(7)) {
		t.Errorf("the deletes are now %v", got)
	}
	if len(ch.Deletes) != 4 {
		t.Error("the change that was given has changed")
	}
	still := &TableChange{Deletes: map[string]*roaring.Bitmap{"d": roaring.BitmapOf(7)}}
	if m.Follow(still) != still {
		t.Error("a change that names no replaced file was copied")
	}
	m.Note(nil, followed+2)
	if n := len(m.files); n != 1 {
		t.Errorf("%d replacements are remembered, want the one of the last %d checkpoints", n, followed)
	}
}
