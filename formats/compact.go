package formats

import (
	"cmp"
	"maps"
	"math/bits"
	"path"
	"slices"
	"strings"
)

// What is worth a rewrite: files of which more than one row in heavyPart is deleted, and smallFiles or more files of about
// one size that are smaller than a smallPart-th of the target size.
const (
	heavyPart  = 5
	smallPart  = 8
	smallFiles = 8
	// rewriteLimit bounds the bytes that are rewritten for a table at a time, so that one table does not hold up the others.
	rewriteLimit = 1 << 30
)

// FileSize is what Compactable looks at of a data file. Size is in bytes; Deleted is the number of deleted rows. Only files
// of one Partition are joined.
type FileSize struct {
	Rows, Size, Deleted int64
	Partition           string
}

// heavy reports whether so many rows are deleted that the file is worth a rewrite.
func (f *FileSize) heavy() bool { return f.Deleted*heavyPart > f.Rows }

// left is about the size of the rows that are not deleted.
func (f *FileSize) left() int64 { return f.Size * (f.Rows - f.Deleted) / max(f.Rows, 1) }

// tier are files of one partition and about one size.
type tier struct {
	partition string
	size      int
}

func (t tier) compare(o tier) int {
	return cmp.Or(cmp.Compare(t.size, o.size), cmp.Compare(t.partition, o.partition))
}

// Compactable groups files, given by their indexes, that are small or of which many rows are deleted: each group is worth
// being rewritten into one file of about target bytes at most. Files join others of about their size, so that a row is
// rewritten a few times only until its file is large; with all, any that can be joined.
func Compactable(files []FileSize, target int64, all bool) (groups [][]int) {
	tiers := map[tier][]int{}
	for i := range files {
		f := &files[i]
		if !f.heavy() && (!all && f.Size >= target/smallPart || all && f.Deleted == 0 && f.Size >= target/2) {
			continue
		}
		at := tier{partition: f.Partition}
		if !all {
			at.size = bits.Len64(uint64(f.left())>>16) / 3
		}
		tiers[at] = append(tiers[at], i)
	}
	total := int64(0)
	for _, at := range slices.SortedFunc(maps.Keys(tiers), tier.compare) {
		var now []int
		size, heavy := int64(0), false
		finish := func() {
			if heavy || len(now) >= smallFiles || all && len(now) > 1 {
				groups = append(groups, now)
				total += size
			}
			now, size, heavy = nil, 0, false
		}
		for _, i := range tiers[at] {
			f := &files[i]
			if len(now) > 0 && size+f.left() > target {
				finish()
			}
			if total > rewriteLimit {
				return groups
			}
			now, size, heavy = append(now, i), size+f.left(), heavy || f.heavy() || all && f.Deleted > 0
		}
		finish()
	}
	return groups
}

// FileKind is the word that a data file's name begins with, before a dash; "data" where it begins with none. A file that
// replaces others keeps it: the copy tells its own files by it.
func FileKind(uri string) string {
	kind, _, ok := strings.Cut(path.Base(uri), "-")
	if !ok || kind == "" || strings.ContainsFunc(kind, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return "data"
	}
	return kind
}
