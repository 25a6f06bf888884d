package formats

import (
	"cmp"
	"slices"
)

// MergePages adds page ranges to a sorted list of disjoint ones; neighbours become one.
func MergePages(done []PageRange, more ...PageRange) []PageRange {
	if len(more) == 0 {
		return done
	}
	all := append(slices.Clone(done), more...)
	slices.SortFunc(all, func(a, b PageRange) int { return cmp.Compare(a.From, b.From) })
	merged := all[:1]
	for _, r := range all[1:] {
		if last := &merged[len(merged)-1]; r.From <= last.To {
			last.To = max(last.To, r.To)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// PagesLeft lists what of [0, pages) is not in done, in ranges of at most chunk pages. The last range is open-ended: its
// To is the largest page number. A relation without pages has one range.
func PagesLeft(done []PageRange, pages, chunk uint32) []PageRange {
	const end = ^uint32(0)
	var left []PageRange
	from := uint32(0)
	cut := func(to uint32) {
		for from < to {
			r := PageRange{From: from, To: min(to, from+min(chunk, end-from))}
			if r.From < pages && r.To >= pages || r.From >= pages {
				r.To = to // whatever lies past the size at the start belongs to the last chunk
			}
			left = append(left, r)
			from = r.To
		}
	}
	for _, d := range done {
		cut(d.From)
		from = max(from, d.To)
	}
	cut(end)
	return left
}
