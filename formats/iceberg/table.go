package iceberg

import (
	"cmp"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/iceberg-go"
)

// entry is a live data or delete file with its manifest entry's numbers.
type entry struct {
	file iceberg.DataFile
	// snapshot, sequence and fileSequence are those of the snapshot that added the file.
	snapshot, sequence, fileSequence int64
	// in is the manifest that lists it.
	in *manifest
	// of is the data file that a file of positions or a vector is about, if it is about no other; "" for all others.
	of string
}

func (e *entry) manifestEntry(status iceberg.ManifestEntryStatus) iceberg.ManifestEntry {
	return iceberg.NewManifestEntry(status, &e.snapshot, &e.sequence, &e.fileSequence, e.file)
}

// group is what the entries of one manifest have in common.
type group struct {
	content iceberg.ManifestContent
	spec    int32
}

// manifest is a stored manifest. Its live entries are immutable: a changed one is a new manifest.
type manifest struct {
	file iceberg.ManifestFile
	group
	live []*entry
}

// removal is what deletion vectors and position delete files take from a data file.
type removal struct {
	// entries are those that are about this data file alone.
	entries []*entry
	// bits are shared with readers and never changed.
	bits *roaring.Bitmap
}

// content is an incarnation's committed content, in memory.
type content struct {
	metadata
	manifests []*manifest
	// files are the live data files, and delete files that are about more than one of them, by path.
	files map[string]*entry
	// removed are the rows deleted by position, by data file. What equality deletes reach is not among them.
	removed map[string]removal
	totals  counts
	// rows are those that are not deleted.
	rows int64
}

func newContent(md metadata) *content {
	return &content{metadata: md, files: map[string]*entry{}, removed: map[string]removal{}}
}

// isKeyed tells an equality delete file.
func isKeyed(f iceberg.DataFile) bool { return f.ContentType() == iceberg.EntryContentEqDeletes }

// keyDeletes lists the live equality delete files whose sequence number is above since, by path.
func (c *content) keyDeletes(since int64) (out []keyDelete) {
	if c.totals.eqFiles == 0 {
		return nil
	}
	for _, path := range sortedKeys(c.files) {
		if e := c.files[path]; isKeyed(e.file) && e.sequence > since {
			out = append(out, keyDelete{e.file, e.sequence})
		}
	}
	return out
}

// targets lists the live data files, by path.
func (c *content) targets() (out []target) {
	for _, path := range sortedKeys(c.files) {
		if e := c.files[path]; e.file.ContentType() == dataContent {
			out = append(out, e.target())
		}
	}
	return out
}

// oldestFirst lists the live data files, so that neighbours were written one after the other.
func (c *content) oldestFirst() (out []*entry) {
	for _, e := range c.files {
		if e.file.ContentType() == dataContent {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.file.FilePath(), b.file.FilePath()))
	})
	return out
}

func (e *entry) target() target {
	return target{e.file.FilePath(), e.sequence, e.file.LowerBoundValues(), e.file.UpperBoundValues()}
}

// shares reports whether there are delete files that are about more than one data file.
func (c *content) shares() bool {
	if c.totals.eqFiles+c.totals.posFiles == 0 { // without a look at every file (promise 10)
		return false
	}
	for _, e := range c.files {
		if e.file.ContentType() != dataContent {
			return true
		}
	}
	return false
}

// put is an object to store.
type put struct {
	uri  string
	body []byte
}

// staged is an encoded change: what to store, and what the content becomes once the swap has been made. Until then
// nothing of the content has changed, so a failed put or swap needs no undoing.
type staged struct {
	content *content
	puts    []put
	// metadataPut is the metadata file, put last where order matters.
	metadataPut put

	next      metadata
	manifests []*manifest
	totals    counts
	rows      int64

	fresh       []*manifest
	gone, added []*entry
	removed     map[string]removal // without bits: nothing of the data file is deleted by position any more
	replaced    []*entry           // stand for those of the same file
}

func (s *staged) put(uri string, body []byte) { s.puts = append(s.puts, put{uri, body}) }

// adopt makes the staged change the content; it is called once, after the swap.
func (s *staged) adopt() {
	c := s.content
	for _, e := range s.gone {
		if e.of == "" {
			delete(c.files, e.file.FilePath())
		}
	}
	for _, e := range slices.Concat(s.replaced, s.added) {
		if e.of == "" {
			c.files[e.file.FilePath()] = e
		}
	}
	for path, v := range s.removed {
		if v.bits == nil {
			delete(c.removed, path)
		} else {
			c.removed[path] = v
		}
	}
	for _, m := range s.fresh {
		for _, e := range m.live {
			e.in = m
		}
	}
	c.metadata, c.manifests, c.totals, c.rows = s.next, s.manifests, s.totals, s.rows
}
