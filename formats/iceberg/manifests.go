package iceberg

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/iceberg-go"
)

// Manifests are folded by size classes: foldEvery manifests of one class (the logarithm of their entries to that base)
// become one, so that their number grows with the logarithm of the files' number. A rewritten manifest holds at most
// the given number of entries; delete manifests are smaller, since each replaced vector rewrites its whole manifest.
const (
	foldEvery         = 20
	maxDataEntries    = 1000
	maxDeleteEntries  = 100
	manifestNameWidth = "%s/metadata/%s-m%d.avro"
)

func maxEntries(g group) int {
	if g.content == iceberg.ManifestContentDeletes {
		return maxDeleteEntries
	}
	return maxDataEntries
}

// writeManifests writes the new manifests and lists them before the untouched ones.
func (s *stager) writeManifests(schema *iceberg.Schema) error {
	merge, rewritten := s.toRewrite()
	for _, g := range s.order { // new data apart: its row ids are inherited
		if g.content == iceberg.ManifestContentData {
			if err := s.write(schema, g, s.added[g], nil, nil); err != nil {
				return err
			}
		}
	}
	groups := slices.Clone(s.order)
	for g := range merge {
		if !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	slices.SortFunc(groups, func(a, b group) int { return int(a.content-b.content)<<16 + int(a.spec-b.spec) })
	for _, g := range groups {
		if err := s.rewrite(schema, g, merge[g]); err != nil {
			return err
		}
	}
	s.out.manifests = slices.Clone(s.out.fresh)
	for _, m := range s.content.manifests {
		if !rewritten[m] {
			s.out.manifests = append(s.out.manifests, m)
		}
	}
	return nil
}

// toRewrite picks the manifests that lost an entry, that have none left, or whose class is full.
func (s *stager) toRewrite() (map[group][]*manifest, map[*manifest]bool) {
	merge, rewritten := map[group][]*manifest{}, map[*manifest]bool{}
	classes := map[group]map[int][]*manifest{}
	for _, m := range s.content.manifests {
		if s.dead[m] != nil || len(m.live) == 0 || s.anew {
			merge[m.group] = append(merge[m.group], m)
			rewritten[m] = true
			continue
		}
		if len(m.live) > maxEntries(m.group)/2 {
			continue
		}
		if classes[m.group] == nil {
			classes[m.group] = map[int][]*manifest{}
		}
		class := 0
		for n := len(m.live); n >= foldEvery; n /= foldEvery {
			class++
		}
		classes[m.group][class] = append(classes[m.group][class], m)
	}
	for g, byClass := range classes {
		for _, class := range slices.Sorted(maps.Keys(byClass)) {
			if members := byClass[class]; len(members) >= foldEvery {
				merge[g] = append(merge[g], members...)
				for _, m := range members {
					rewritten[m] = true
				}
			}
		}
	}
	return merge, rewritten
}

// rewrite writes the survivors and the removed entries of the given manifests, and new delete files with them.
func (s *stager) rewrite(schema *iceberg.Schema, g group, from []*manifest) error {
	var live, dead, add []*entry
	if g.content == iceberg.ManifestContentDeletes {
		add = s.added[g]
	}
	for _, m := range from {
		if !s.anew { // of another format: it could not say what they were
			dead = append(dead, s.dead[m]...)
		}
		for _, e := range m.live {
			if !s.gone[e] {
				live = append(live, e)
			}
		}
	}
	for len(live)+len(dead)+len(add) > 0 {
		n := min(len(live), maxEntries(g))
		if err := s.write(schema, g, add, live[:n], dead); err != nil {
			return err
		}
		live, dead, add = live[n:], nil, nil
	}
	return nil
}

// write encodes one manifest: add as ADDED, live as EXISTING, dead as DELETED.
func (s *stager) write(schema *iceberg.Schema, g group, add, live, dead []*entry) error {
	spec, version := s.meta.PartitionSpecByID(int(g.spec)), s.meta.Version()
	var body bytes.Buffer
	w, err := iceberg.NewManifestWriter(version, &body, *spec, schema, s.id, iceberg.WithManifestWriterContent(g.content))
	if err != nil {
		return err
	}
	first, lineage := s.rowID, version >= 3 && g.content == iceberg.ManifestContentData
	if lineage && s.anew {
		if live, err = s.giveRowIDs(*spec, live); err != nil {
			return err
		}
	}
	for _, e := range add {
		// Without the snapshot's sequence number: readers inherit it from the manifest list.
		var sequence *int64
		if e.sequence != s.sequence {
			sequence = &e.sequence
		}
		if err := w.Add(iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &s.id, sequence, nil, e.file)); err != nil {
			return err
		}
		if lineage { // what readers inherit, needed once the entry becomes EXISTING
			if e.file, err = withFirstRowID(*spec, e.file, s.rowID); err != nil {
				return err
			}
			s.rowID += e.file.Count()
		}
	}
	for _, e := range live {
		if err := w.Existing(e.manifestEntry(iceberg.EntryStatusEXISTING)); err != nil {
			return err
		}
		if lineage {
			id := e.file.FirstRowID()
			if id == nil {
				return fmt.Errorf("data file %s has no first row id, which format 3 asks for: resync the table", e.file.FilePath())
			}
			first = min(first, *id)
		}
	}
	for _, e := range dead {
		if err := w.Delete(e.manifestEntry(iceberg.EntryStatusDELETED)); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	uri := fmt.Sprintf(manifestNameWidth, s.folder, s.commit, s.manifestNo)
	s.manifestNo++
	mf, err := w.ToManifestFile(uri, int64(body.Len()), iceberg.WithManifestFileContent(g.content))
	if err != nil {
		return err
	}
	if mf, err = s.assign(mf, lineage, len(live) > 0, first); err != nil {
		return err
	}
	s.out.put(uri, body.Bytes())
	s.out.fresh = append(s.out.fresh, &manifest{file: mf, group: g, live: append(slices.Clone(live), add...)})
	return nil
}

// giveRowIDs gives the rows of files from before format 3 their ids. The entries are copied: until the swap nothing of the
// content changes.
func (s *stager) giveRowIDs(spec iceberg.PartitionSpec, live []*entry) ([]*entry, error) {
	live = slices.Clone(live)
	for i, e := range live {
		if e.file.FirstRowID() != nil {
			continue
		}
		file, err := withFirstRowID(spec, e.file, s.rowID)
		if err != nil {
			return nil, err
		}
		next := *e
		next.file = file
		live[i] = &next
		s.out.replaced = append(s.out.replaced, &next)
		s.rowID += file.Count()
		s.assigned += file.Count()
	}
	return live, nil
}

// assign gives a manifest its sequence numbers, and its first row id if it holds EXISTING data files: without one the
// list would reserve row ids for those rows a second time. That id has no public setter, so such a manifest makes a
// round trip through a list of one. A manifest of new data stays as it is: the list assigns its ids, and takeRowIDs
// reads them back.
func (s *stager) assign(mf iceberg.ManifestFile, lineage, existing bool, first int64) (iceberg.ManifestFile, error) {
	if lineage && !existing {
		return mf, nil
	}
	if !lineage {
		low := mf.MinSequenceNum()
		if low < 0 {
			low = s.sequence
		}
		return iceberg.NewManifestFile(mf.Version(), mf.FilePath(), mf.Length(), mf.PartitionSpecID(), s.id).
			Content(mf.ManifestContent()).SequenceNum(s.sequence, low).Partitions(mf.Partitions()).
			AddedFiles(mf.AddedDataFiles()).AddedRows(mf.AddedRows()).ExistingFiles(mf.ExistingDataFiles()).
			ExistingRows(mf.ExistingRows()).DeletedFiles(mf.DeletedDataFiles()).DeletedRows(mf.DeletedRows()).Build(), nil
	}
	var b bytes.Buffer
	if err := iceberg.WriteManifestList(s.meta.Version(), &b, s.id, nil, &s.sequence, first, []iceberg.ManifestFile{mf}); err != nil {
		return nil, err
	}
	out, err := iceberg.ReadManifestList(&b)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// withFirstRowID copies a data file, adding its first row id. The builder hands out its own memory, so that setting it
// on the original would change what a retry writes.
func withFirstRowID(spec iceberg.PartitionSpec, f iceberg.DataFile, id int64) (iceberg.DataFile, error) {
	b, err := iceberg.NewDataFileBuilder(spec, f.ContentType(), f.FilePath(), f.FileFormat(), f.Partition(), nil, nil, f.Count(), f.FileSizeBytes())
	if err != nil {
		return nil, err
	}
	b.ColumnSizes(f.ColumnSizes()).ValueCounts(f.ValueCounts()).NullValueCounts(f.NullValueCounts()).NaNValueCounts(f.NaNValueCounts()).
		LowerBoundValues(f.LowerBoundValues()).UpperBoundValues(f.UpperBoundValues()).KeyMetadata(f.KeyMetadata()).FirstRowID(id)
	if offsets := f.SplitOffsets(); len(offsets) > 0 {
		b.SplitOffsets(offsets)
	}
	if order := f.SortOrderID(); order != nil {
		b.SortOrderID(*order)
	}
	return b.Build(), nil
}
