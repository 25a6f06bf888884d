package iceberg

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/iceberg-go"
)

// vectorMode is format 3: one deletion vector a data file, replaced by the union at each checkpoint.
type vectorMode struct{}

func (vectorMode) version() int { return 3 }

func (vectorMode) settled(c *content) bool {
	for _, e := range c.files {
		if e.file.ContentType() != dataContent {
			return false
		}
	}
	for _, r := range c.removed {
		for _, e := range r.entries {
			if !isVector(e.file) {
				return false
			}
		}
	}
	return true
}

func (vectorMode) before(ctx context.Context, l *Lake, r *row) error {
	if v := r.content().meta.Version(); v < 3 {
		return r.wrong(fmt.Errorf("deletion vectors need format 3 and the table has format %d: restart Streambed, which brings it there", v))
	}
	return nil
}

func (vectorMode) deletes(s *stager, r *row) error {
	w, err := newVectorFile(fmt.Sprintf("%s/data/%s-deletes.puffin", s.folder, s.commit))
	if err != nil {
		return err
	}
	var bits []*roaring.Bitmap
	err = s.positional(r, func(data iceberg.DataFile, union *roaring.Bitmap) error {
		bits = append(bits, union)
		return w.add(data, union)
	})
	if err != nil || len(bits) == 0 {
		return err
	}
	body, files, err := w.finish(s.meta.PartitionSpecByID)
	if err != nil {
		return err
	}
	s.out.put(w.path, body)
	for i, file := range files {
		s.addRemoval(file, *file.ReferencedDataFile(), bits[i])
	}
	return nil
}
