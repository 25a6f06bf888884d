package iceberg

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
)

// stager is the scratch state while one change is encoded.
type stager struct {
	*content
	out        *staged
	id         int64 // of the snapshot
	sequence   int64
	rowID      int64 // the next unassigned row id
	commit     string
	folder     string
	manifestNo int

	added map[group][]*entry
	order []group // of added, in order of appearance
	dead  map[*manifest][]*entry
	gone  map[*entry]bool
	// anew tells to write every manifest again, for the format has changed; assigned counts the row ids given to
	// existing rows by that.
	anew     bool
	assigned int64
}

// plan is what all changes of a checkpoint share.
type plan struct {
	checkpoint *formats.Checkpoint
	now        time.Time
	// mark gives the property that says which attempt made a metadata file, by its current snapshot.
	mark func(snapshot int64) string
	// keep reports whether a kept checkpoint lies in [since, until).
	keep func(since, until int64) bool
	// replaces tells that no row changes.
	replaces bool
}

// stage encodes a change as one snapshot. It changes nothing of the content and does no I/O. A change that only makes
// the table gives metadata without a snapshot. The history of a table that nobody sees, or that is published by this
// change, is not kept.
func stage(r *row, p *plan) (*staged, error) {
	c, ref, ch := r.content(), r.state.Table, r.change
	commit := uuid.NewString()
	s := &stager{content: c, out: &staged{content: r.inc.content, removed: map[string]removal{}}, id: rand.Int64(), commit: commit,
		sequence: c.meta.LastSequenceNumber() + 1, rowID: c.meta.NextRowID(), folder: ref.Location,
		added: map[group][]*entry{}, dead: map[*manifest][]*entry{}, gone: map[*entry]bool{}, anew: c != r.inc.content}
	first := s.rowID
	b, err := table.MetadataBuilderFromBase(c.meta, c.location)
	if err != nil {
		return nil, err
	}
	next := metadata{version: c.version + 1, history: c.history, log: c.log, schemas: c.schemas, schema: c.schema}
	if ch.Schema != nil && !ch.Create {
		if err := setSchema(b, ch.Schema, c.meta.Version()); err != nil {
			return nil, err
		}
		if next.schema, err = encodeSchema(ch.Schema); err != nil {
			return nil, err
		}
	}
	if ch.Publish {
		if err := b.SetProperties(iceberg.Properties{publishedProperty: strconv.FormatInt(p.checkpoint.Number, 10)}); err != nil {
			return nil, err
		}
	}
	mark := func(snapshot int64) error {
		return b.SetProperties(iceberg.Properties{markProperty: p.mark(snapshot)})
	}
	if (ch.Create || s.anew && s.parent() == nil && len(c.files) == 0) && len(ch.Add) == 0 && len(ch.Deletes) == 0 && !ch.Publish {
		s.out.totals, s.out.manifests, s.out.rows = c.totals, c.manifests, c.rows
		if err := mark(0); err != nil {
			return nil, err
		}
		return s.finish(b, next, ref)
	}
	if err := s.apply(r); err != nil {
		return nil, err
	}
	list, err := s.manifestList(b.CurrentSchema(), first)
	if err != nil {
		return nil, err
	}
	s.out.totals = c.totals
	summary, err := summarize(&s.out.totals, s.out.added, s.out.gone, p.checkpoint)
	if err != nil {
		return nil, err
	}
	s.out.rows = r.grows
	if !ch.Truncate {
		s.out.rows += c.rows
	}
	summary.Properties[summaryRows] = strconv.FormatInt(s.out.rows, 10)
	if p.replaces {
		summary.Operation = table.OpReplace
	}
	schemaID := b.CurrentSchema().ID
	snap := &table.Snapshot{SnapshotID: s.id, ParentSnapshotID: s.parent(), SequenceNumber: s.sequence, ManifestList: list,
		Summary: summary, TimestampMs: max(p.now.UnixMilli(), c.meta.LastUpdatedMillis()), SchemaID: &schemaID}
	if c.meta.Version() >= 3 {
		rows := s.rowID - first
		snap.FirstRowID, snap.AddedRows = &first, &rows
	}
	keep := p.keep
	if ch.Publish || !r.inc.published {
		keep = func(int64, int64) bool { return false }
	}
	if err := s.move(b, &next, snap, p.checkpoint.Number, keep); err != nil {
		return nil, err
	}
	if err := mark(s.id); err != nil {
		return nil, err
	}
	if ch.Schema != nil {
		if err := dropSchemas(b, c.meta, next.history); err != nil {
			return nil, err
		}
	}
	return s.finish(b, next, ref)
}

// apply collects the change's files.
func (s *stager) apply(r *row) error {
	if r.change.Truncate || r.settles { // else no look at every file (promise 10)
		for _, path := range slices.Sorted(maps.Keys(s.files)) {
			if e := s.files[path]; r.change.Truncate || e.file.ContentType() != dataContent {
				s.remove(e)
			}
		}
		for _, path := range slices.Sorted(maps.Keys(s.content.removed)) {
			s.restore(path)
		}
	}
	return r.mode.deletes(s, r)
}

// restore takes away the delete files that are about one data file.
func (s *stager) restore(path string) {
	old, ok := s.content.removed[path]
	if _, done := s.out.removed[path]; done || !ok {
		return
	}
	for _, e := range old.entries {
		s.remove(e)
	}
	s.out.removed[path] = removal{}
}

// addRemoval adds a delete file about one data file, whose earlier ones have been taken away.
func (s *stager) addRemoval(file iceberg.DataFile, of string, bits *roaring.Bitmap) {
	e := s.add(file, iceberg.ManifestContentDeletes)
	e.of = of
	s.out.removed[of] = removal{[]*entry{e}, bits}
}

// drop removes data files, and with each the delete files about it, which never outlive it.
func (s *stager) drop(paths []string) {
	for _, path := range paths {
		s.remove(s.files[path])
		s.restore(path)
	}
}

// positional adds the change's data files and hands write all deleted positions of each file that lost some. A file
// without a row left is removed instead, or not added.
func (s *stager) positional(r *row, write func(data iceberg.DataFile, union *roaring.Bitmap) error) error {
	s.drop(r.removed)
	ch := r.change
	fresh := make(map[string]iceberg.DataFile, len(ch.Add))
	for i := range ch.Add {
		file, err := s.dataFile(&ch.Add[i])
		if err != nil {
			return err
		}
		fresh[ch.Add[i].Path] = file
	}
	for _, path := range slices.Sorted(maps.Keys(ch.Deletes)) {
		data, union, err := s.union(path, fresh[path], ch.Deletes[path])
		switch {
		case err != nil:
			return err
		case union == nil:
		case int64(union.GetCardinality()) < data.Count():
			if err := write(data, union); err != nil {
				return err
			}
		case fresh[path] != nil:
			delete(fresh, path)
		default:
			s.remove(s.files[path])
		}
	}
	for i := range ch.Add {
		if file := fresh[ch.Add[i].Path]; file != nil {
			e := s.add(file, iceberg.ManifestContentData)
			if sequence, ok := r.sequences[file.FilePath()]; ok {
				e.sequence = sequence
			}
		}
	}
	return nil
}

// deletable finds the data file that rows are deleted from: fresh, or a live one.
func (s *stager) deletable(path string, fresh iceberg.DataFile, deleted *roaring.Bitmap) (iceberg.DataFile, error) {
	data := fresh
	if e := s.files[path]; data == nil && e != nil && !s.gone[e] && e.file.ContentType() == dataContent {
		data = e.file
	}
	if data == nil {
		return nil, fmt.Errorf("rows are to be deleted from %s, which is not a live file", path)
	}
	if deleted != nil && !deleted.IsEmpty() {
		if last := int64(deleted.Maximum()); last >= data.Count() {
			return nil, fmt.Errorf("row %d is to be deleted from %s, which has %d rows", last, path, data.Count())
		}
	}
	return data, nil
}

// union joins a file's deleted positions with new ones and takes away the delete files that are about it alone; nil when
// there are no new ones.
func (s *stager) union(path string, fresh iceberg.DataFile, deleted *roaring.Bitmap) (iceberg.DataFile, *roaring.Bitmap, error) {
	data, err := s.deletable(path, fresh, deleted)
	if err != nil || deleted == nil || deleted.IsEmpty() {
		return nil, nil, err
	}
	union := deleted.Clone()
	if fresh == nil {
		if old := s.content.removed[path]; old.bits != nil {
			union.Or(old.bits)
		}
		s.restore(path)
	}
	union.RunOptimize()
	return data, union, nil
}

// parent is the current snapshot's id, nil when there is none.
func (s *stager) parent() *int64 {
	if current := s.meta.CurrentSnapshot(); current != nil {
		return &current.SnapshotID
	}
	return nil
}

// move makes snap the current snapshot and drops what is not kept.
func (s *stager) move(b *table.MetadataBuilder, next *metadata, snap *table.Snapshot, checkpoint int64, keep func(since, until int64) bool) error {
	held := pinned(s.meta)
	var err error
	if next.history, next.log, err = s.addSnapshot(snap, checkpoint, held, keep); err != nil {
		return err
	}
	if err := b.AddSnapshot(snap); err != nil {
		return err
	}
	if err := setMain(b, s.meta, snap.SnapshotID); err != nil {
		return err
	}
	if parent := s.parent(); parent != nil && !held[*parent] {
		return b.RemoveSnapshots([]int64{*parent}, false)
	}
	return nil
}

// finish builds and encodes the metadata file.
func (s *stager) finish(b *table.MetadataBuilder, next metadata, ref formats.TableRef) (*staged, error) {
	var err error
	if next.meta, err = b.Build(); err != nil {
		return nil, err
	}
	next.location = fmt.Sprintf("%s/metadata/%05d-%s.metadata.json", ref.Location, next.version, s.commit)
	body, err := next.encode()
	if err != nil {
		return nil, err
	}
	s.out.next, s.out.metadataPut = next, put{next.location, body}
	return s.out, nil
}

func (s *stager) remove(e *entry) {
	s.out.gone = append(s.out.gone, e)
	s.gone[e] = true
	s.dead[e.in] = append(s.dead[e.in], e)
}

func (s *stager) add(file iceberg.DataFile, content iceberg.ManifestContent) *entry {
	e := &entry{file: file, snapshot: s.id, sequence: s.sequence, fileSequence: s.sequence}
	g := group{content, file.SpecID()}
	if s.added[g] == nil {
		s.order = append(s.order, g)
	}
	s.added[g] = append(s.added[g], e)
	s.out.added = append(s.out.added, e)
	return e
}

// dataFile describes an uploaded file to Iceberg.
func (s *stager) dataFile(f *formats.DataFile) (iceberg.DataFile, error) {
	if old := s.files[f.Path]; old != nil {
		return nil, fmt.Errorf("data file %s was committed before", f.Path)
	}
	spec := s.meta.PartitionSpecByID(s.meta.DefaultPartitionSpec())
	b, err := iceberg.NewDataFileBuilder(*spec, iceberg.EntryContentData, f.Path, iceberg.ParquetFile, nil, nil, nil, f.Rows, f.Size)
	if err != nil {
		return nil, fmt.Errorf("data file %s: %w", f.Path, err)
	}
	return withStats(b, &f.Stats), nil
}

// withStats finishes a file's description.
func withStats(b *iceberg.DataFileBuilder, st *formats.FileStats) iceberg.DataFile {
	b.ColumnSizes(st.ColumnSizes).ValueCounts(st.ValueCounts).NullValueCounts(st.NullCounts).NaNValueCounts(st.NaNCounts).
		LowerBoundValues(st.Lower).UpperBoundValues(st.Upper)
	if len(st.SplitOffsets) > 0 {
		b.SplitOffsets(st.SplitOffsets)
	}
	return b.Build()
}

// manifestList writes the manifests and the list of them, and gives the list's place.
func (s *stager) manifestList(schema *iceberg.Schema, first int64) (string, error) {
	version := s.meta.Version()
	if err := s.writeManifests(schema); err != nil {
		return "", err
	}
	files := make([]iceberg.ManifestFile, len(s.out.manifests))
	for i, m := range s.out.manifests {
		files[i] = m.file
	}
	var list bytes.Buffer
	if err := iceberg.WriteManifestList(version, &list, s.id, s.parent(), &s.sequence, first, files); err != nil {
		return "", err
	}
	if version >= 3 {
		if err := s.takeRowIDs(list.Bytes(), first); err != nil {
			return "", err
		}
	}
	uri := fmt.Sprintf("%s/metadata/snap-%d-0-%s.avro", s.folder, s.id, s.commit)
	s.out.put(uri, list.Bytes())
	return uri, nil
}

// takeRowIDs takes over what the list has assigned to the manifests of new data, and proves it.
func (s *stager) takeRowIDs(list []byte, first int64) error {
	records, err := iceberg.ReadManifestList(bytes.NewReader(list))
	if err != nil {
		return err
	}
	next := first
	for i, m := range s.out.manifests {
		if m.file.SequenceNum() >= 0 {
			continue
		}
		m.file = records[i]
		if m.content == iceberg.ManifestContentData && len(m.live) > 0 {
			if id := m.file.FirstRowID(); id == nil || *id != next {
				return fmt.Errorf("a manifest got row ids from %d, expected %d", value(id), next)
			}
			next += m.file.AddedRows()
		}
	}
	if next += s.assigned; next != s.rowID {
		return fmt.Errorf("row ids end at %d, expected %d", next, s.rowID)
	}
	return nil
}
