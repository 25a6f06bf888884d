package formats

import (
	"math/rand"
	"slices"
	"testing"
)

func TestPageRangesCoverEveryPageOnce(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for range 2000 {
		pages, chunk := uint32(random.Intn(40)), uint32(1+random.Intn(8))
		var done []PageRange
		for {
			left := PagesLeft(done, pages, chunk)
			if len(left) == 0 {
				break
			}
			for i, r := range left {
				if r.From >= r.To {
					t.Fatalf("empty range %v of %d pages, done %v", r, pages, done)
				}
				if r.To <= pages && r.To-r.From > chunk {
					t.Fatalf("range %v is longer than %d pages", r, chunk)
				}
				for _, d := range append(slices.Clone(done), left[:i]...) {
					if r.From < d.To && d.From < r.To {
						t.Fatalf("range %v overlaps %v", r, d)
					}
				}
			}
			done = MergePages(done, left[random.Intn(len(left))])
		}
		if len(done) != 1 || done[0] != (PageRange{From: 0, To: ^uint32(0)}) {
			t.Fatalf("%d pages by %d end as %v, not as everything", pages, chunk, done)
		}
	}
}
