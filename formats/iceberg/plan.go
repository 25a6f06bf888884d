package iceberg

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/iceberg-go"
	"github.com/streambed/streambed/formats"
	"golang.org/x/sync/errgroup"
)

// wholePuffin is the size up to which a Puffin file is read in one piece, in bytes.
const wholePuffin = 4 << 20

// listed is a manifest of a manifest list.
type listed struct{ file iceberg.ManifestFile }

// planned is a live entry of a manifest, ready for a plan: a data file, or a delete file.
type planned struct {
	file     formats.ScanFile
	sequence int64
	deletes  iceberg.DataFile // nil for a data file
}

// deleted is a decoded deletion vector, or what a position delete file holds, by data file.
type deleted struct {
	bits   *roaring.Bitmap
	byFile map[string]*roaring.Bitmap
}

// Plan lists the files of one table at a view, oldest first.
func (r *Reader) Plan(ctx context.Context, view *formats.View, name formats.TableName) (*formats.ScanPlan, error) {
	i := slices.IndexFunc(view.Tables, func(vt formats.ViewTable) bool { return vt.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%s did not exist at checkpoint %d: %w", formatName(name), view.Checkpoint, formats.ErrNoSuchTable)
	}
	vt := &view.Tables[i]
	plan := &formats.ScanPlan{Schema: vt.Schema}
	if vt.Snapshot == 0 {
		return plan, nil
	}
	entries, err := r.planEntries(ctx, vt)
	if err == nil {
		plan.Files, err = r.join(ctx, &vt.Schema, entries)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot plan a scan of %s at checkpoint %d: %w", formatName(name), view.Checkpoint, err)
	}
	return plan, nil
}

// planEntries reads the live entries of a table's snapshot, the manifests in parallel.
func (r *Reader) planEntries(ctx context.Context, vt *formats.ViewTable) ([][]planned, error) {
	list, err := r.manifestList(ctx, vt)
	if err != nil {
		return nil, err
	}
	entries := make([][]planned, len(list))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(4 * runtime.GOMAXPROCS(0))
	for i, m := range list {
		if known, ok := r.manifests.Get(m.file.FilePath()); ok {
			entries[i] = known
			continue
		}
		g.Go(func() (err error) {
			entries[i], err = r.readPlanned(gctx, m.file)
			return err
		})
	}
	return entries, g.Wait()
}

func (r *Reader) manifestList(ctx context.Context, vt *formats.ViewTable) ([]listed, error) {
	path := ""
	if h, ok := r.heads.Get(vt.Version); ok {
		path = h.List
	} else {
		md, err := r.readMetadata(ctx, vt.Pointer)
		if err != nil {
			return nil, err
		}
		s := md.byID(vt.Snapshot)
		if s == nil {
			return nil, fmt.Errorf("snapshot %d: %w", vt.Snapshot, formats.ErrExpired)
		}
		path = s.list
	}
	if list, ok := r.lists.Get(path); ok {
		return list, nil
	}
	body, err := r.store.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	files, err := iceberg.ReadManifestList(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("manifest list %s: %w", path, err)
	}
	list := make([]listed, len(files))
	for i, f := range files {
		list[i] = listed{f}
	}
	r.lists.Put(path, list, int64(len(body)))
	return list, nil
}

// entryWeight is what a cached entry is taken to weigh, beside its statistics.
const entryWeight = 600

func (r *Reader) readPlanned(ctx context.Context, mf iceberg.ManifestFile) ([]planned, error) {
	entries, err := readManifest(ctx, r.store, mf)
	if err != nil {
		return nil, err
	}
	out := make([]planned, len(entries))
	weight := int64(0)
	for i, e := range entries {
		f := e.DataFile()
		weight += entryWeight
		switch {
		case f.ContentType() == iceberg.EntryContentData:
			out[i] = planned{file: r.scanFile(f), sequence: e.SequenceNum()}
			weight += int64(len(out[i].file.Stats.ColumnSizes)) * 300
		case isVector(f) && f.ReferencedDataFile() == nil:
			return nil, fmt.Errorf("a deletion vector in %s names no data file", f.FilePath())
		default:
			out[i] = planned{deletes: f, sequence: e.SequenceNum()}
		}
	}
	r.manifests.Put(mf.FilePath(), out, weight)
	return out, nil
}

func (r *Reader) scanFile(f iceberg.DataFile) formats.ScanFile {
	return formats.ScanFile{Path: f.FilePath(), Local: r.store.Local(f.FilePath()), Rows: f.Count(), Size: f.FileSizeBytes(),
		Stats: formats.FileStats{ColumnSizes: f.ColumnSizes(), ValueCounts: f.ValueCounts(), NullCounts: f.NullValueCounts(),
			NaNCounts: f.NaNValueCounts(), Lower: f.LowerBoundValues(), Upper: f.UpperBoundValues(), SplitOffsets: f.SplitOffsets()}}
}

// join puts the deletes to their files, and the files in order.
func (r *Reader) join(ctx context.Context, schema *formats.Schema, entries [][]planned) ([]formats.ScanFile, error) {
	var data, vectors, positions []planned
	var keys []keyDelete
	for _, m := range entries {
		for _, e := range m {
			switch {
			case e.deletes == nil:
				data = append(data, e)
			case isVector(e.deletes):
				vectors = append(vectors, e)
			case isKeyed(e.deletes):
				keys = append(keys, keyDelete{e.deletes, e.sequence})
			default:
				positions = append(positions, e)
			}
		}
	}
	bits, err := r.readVectors(ctx, vectors)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(data, func(a, b planned) int {
		return cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.file.Path, b.file.Path))
	})
	if err := r.addPositions(ctx, data, positions, bits); err != nil {
		return nil, err
	}
	byKey, err := r.byKey(ctx, schema, keys, data)
	if err != nil {
		return nil, err
	}
	files := make([]formats.ScanFile, len(data))
	for i, e := range data {
		files[i] = e.file
		files[i].Deleted = joined(bits[e.file.Path], byKey[e.file.Path])
	}
	return files, nil
}

// byKey gives what equality deletes take from the data files.
func (r *Reader) byKey(ctx context.Context, schema *formats.Schema, keys []keyDelete, data []planned) (map[string]*roaring.Bitmap, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	targets := make([]target, len(data))
	for i, e := range data {
		targets[i] = target{e.file.Path, e.sequence, e.file.Stats.Lower, e.file.Stats.Upper}
	}
	return r.keys.resolve(ctx, schema, keys, targets)
}

// addPositions adds what position delete files take from data files of their own sequence number and older.
func (r *Reader) addPositions(ctx context.Context, data, positions []planned, bits map[string]*roaring.Bitmap) error {
	if len(positions) == 0 {
		return nil
	}
	sequences := make(map[string]int64, len(data))
	for _, e := range data {
		sequences[e.file.Path] = e.sequence
	}
	read := make([]deleted, len(positions))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(4 * runtime.GOMAXPROCS(0))
	for i, p := range positions {
		path := p.deletes.FilePath()
		known, ok := r.vectors.Get(path)
		if ok {
			read[i] = known
			continue
		}
		g.Go(func() error {
			found, err := readPositions(gctx, r.store, path)
			if err != nil {
				return err
			}
			read[i] = deleted{byFile: found}
			weight := int64(len(path)) + 200
			for _, b := range found {
				weight += int64(b.GetSizeInBytes()) + 200
			}
			r.vectors.Put(path, read[i], weight)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, p := range positions {
		for path, found := range read[i].byFile {
			if sequence, live := sequences[path]; live && sequence <= p.sequence {
				bits[path] = joined(bits[path], found)
			}
		}
	}
	return nil
}

// readVectors gives the deleted positions by data file, reading each Puffin file at most once.
func (r *Reader) readVectors(ctx context.Context, vectors []planned) (map[string]*roaring.Bitmap, error) {
	bits := make(map[string]*roaring.Bitmap, len(vectors))
	missing := map[string][]iceberg.DataFile{}
	for _, v := range vectors {
		path := *v.deletes.ReferencedDataFile()
		if _, twice := bits[path]; twice {
			return nil, fmt.Errorf("data file %s has two deletion vectors", path)
		}
		known, ok := r.vectors.Get(vectorKey(v.deletes))
		bits[path] = known.bits
		if !ok {
			missing[v.deletes.FilePath()] = append(missing[v.deletes.FilePath()], v.deletes)
		}
	}
	found := make(chan map[string]*roaring.Bitmap, len(missing))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(4 * runtime.GOMAXPROCS(0))
	for path, files := range missing {
		g.Go(func() error {
			read, err := r.readPuffin(gctx, path, files)
			found <- read
			return err
		})
	}
	err := g.Wait()
	close(found)
	for read := range found {
		for path, b := range read {
			bits[path] = b
		}
	}
	return bits, err
}

func vectorKey(f iceberg.DataFile) string {
	return fmt.Sprintf("%s@%d", f.FilePath(), value(f.ContentOffset()))
}

func (r *Reader) readPuffin(ctx context.Context, path string, files []iceberg.DataFile) (read map[string]*roaring.Bitmap, err error) {
	var source io.ReaderAt
	if files[0].FileSizeBytes() <= wholePuffin {
		body, err := r.store.Get(ctx, path)
		if err != nil {
			return nil, err
		}
		source = bytes.NewReader(body)
	} else {
		object, err := r.store.Open(ctx, path)
		if err != nil {
			return nil, err
		}
		defer object.Close()
		source = object
	}
	read = map[string]*roaring.Bitmap{}
	for _, f := range files {
		b, err := readVector(source, f)
		if err != nil {
			return nil, err
		}
		read[*f.ReferencedDataFile()] = b
		r.vectors.Put(vectorKey(f), deleted{bits: b}, int64(b.GetSizeInBytes())+int64(len(path))+200)
	}
	return read, nil
}
