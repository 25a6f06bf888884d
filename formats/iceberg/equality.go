package iceberg

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/iceberg-go"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/recent"
	"github.com/streambed/streambed/formats/storage"
	"golang.org/x/sync/errgroup"
)

// Bounds of what resolving equality deletes holds at once: keys of one pass over the data files, and delete files known
// by number before all is forgotten.
const (
	keysPerPass  = 1 << 19
	bytesPerPass = 32 << 20
	numberedKeys = 1 << 20
)

// keyDelete is a live equality delete file.
type keyDelete struct {
	file     iceberg.DataFile
	sequence int64
}

// target is a data file that equality deletes may reach.
type target struct {
	path         string
	sequence     int64
	lower, upper map[int][]byte
}

// keyResolver turns equality deletes into positions. What a delete file takes from a data file never changes, so it is
// found once and kept, by data file, within a fixed bound: a plan after a small commit reads only the keys that the
// commit wrote, and the key columns of the data files whose bounds they meet.
type keyResolver struct {
	store storage.Store
	cache *recent.Cache[*resolved] // by data file
	// turn is held by the one that reads files, so that memory stays bounded and nothing is read twice.
	turn chan struct{}

	mu      sync.Mutex
	numbers map[string]uint32 // of delete files, by path
}

// resolved is what is known of one data file; it is never changed.
type resolved struct {
	// considered are the numbers of the delete files that have been looked at, parts what those took that took something.
	considered *roaring.Bitmap
	parts      map[uint32]*roaring.Bitmap
	all        *roaring.Bitmap
}

var unresolved = &resolved{considered: roaring.New()}

func newKeyResolver(store storage.Store, limit int64) *keyResolver {
	return &keyResolver{store: store, cache: recent.New[*resolved](limit), turn: make(chan struct{}, 1), numbers: map[string]uint32{}}
}

// resolve gives the rows that the deletes take from the targets, by path; those without any are left out. The bitmaps are
// shared and must not be changed. It may block on the store.
func (k *keyResolver) resolve(ctx context.Context, schema *formats.Schema, deletes []keyDelete, targets []target) (map[string]*roaring.Bitmap, error) {
	out := map[string]*roaring.Bitmap{}
	if len(deletes) == 0 || len(targets) == 0 {
		return out, nil
	}
	p := k.number(deletes)
	known, complete := k.known(p, targets)
	if !complete {
		select {
		case k.turn <- struct{}{}:
			defer func() { <-k.turn }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		var err error
		if known, err = k.read(ctx, schema, p, targets); err != nil {
			return nil, err
		}
	}
	for i, r := range known {
		if bits := r.of(p.asked); bits != nil {
			out[targets[i].path] = bits
		}
	}
	return out, nil
}

// keyPlan is a set of numbered delete files.
type keyPlan struct {
	asked    *roaring.Bitmap
	byNumber map[uint32]*keyDelete
}

func (k *keyResolver) number(deletes []keyDelete) *keyPlan {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.numbers)+len(deletes) > numberedKeys {
		k.numbers = map[string]uint32{}
		k.cache.Clear()
	}
	p := &keyPlan{asked: roaring.New(), byNumber: make(map[uint32]*keyDelete, len(deletes))}
	for i := range deletes {
		path := deletes[i].file.FilePath()
		n, ok := k.numbers[path]
		if !ok {
			n = uint32(len(k.numbers))
			k.numbers[path] = n
		}
		p.asked.Add(n)
		p.byNumber[n] = &deletes[i]
	}
	return p
}

// known gives what is known of the targets, and whether it is all that the plan asks for.
func (k *keyResolver) known(p *keyPlan, targets []target) ([]*resolved, bool) {
	out, complete := make([]*resolved, len(targets)), true
	for i := range targets {
		r, ok := k.cache.Get(targets[i].path)
		if !ok {
			r = unresolved
		}
		out[i] = r
		complete = complete && r.considered.AndCardinality(p.asked) == p.asked.GetCardinality()
	}
	return out, complete
}

// of joins what the asked delete files take; nil when that is nothing.
func (r *resolved) of(asked *roaring.Bitmap) *roaring.Bitmap {
	every := true
	for n := range r.parts {
		every = every && asked.Contains(n)
	}
	if every {
		return r.all
	}
	var bits *roaring.Bitmap
	for n, part := range r.parts {
		if asked.Contains(n) {
			if bits == nil {
				bits = roaring.New()
			}
			bits.Or(part)
		}
	}
	return bits
}

// with adds findings.
func (r *resolved) with(considered *roaring.Bitmap, found map[uint32]*roaring.Bitmap) *resolved {
	next := &resolved{considered: roaring.Or(r.considered, considered), parts: r.parts, all: r.all}
	next.considered.RunOptimize()
	if len(found) == 0 {
		return next
	}
	next.parts, next.all = make(map[uint32]*roaring.Bitmap, len(r.parts)+len(found)), roaring.New()
	for _, parts := range []map[uint32]*roaring.Bitmap{r.parts, found} {
		for n, part := range parts {
			next.parts[n] = part
			next.all.Or(part)
		}
	}
	next.all.RunOptimize()
	return next
}

func (r *resolved) weight() int64 {
	w := int64(200 + r.considered.GetSizeInBytes())
	if r.all != nil {
		w += int64(r.all.GetSizeInBytes())
	}
	for _, part := range r.parts {
		w += 50 + int64(part.GetSizeInBytes())
	}
	return w
}

// read completes what is known of the targets, in passes of bounded memory.
func (k *keyResolver) read(ctx context.Context, schema *formats.Schema, p *keyPlan, targets []target) ([]*resolved, error) {
	known, _ := k.known(p, targets)
	work := make([]*roaring.Bitmap, len(targets)) // numbers of the delete files to be looked up in each
	needed := roaring.New()
	for i := range targets {
		missing := roaring.AndNot(p.asked, known[i].considered)
		for it := missing.Iterator(); it.HasNext(); {
			n := it.Next()
			if d := p.byNumber[n]; d.sequence > targets[i].sequence && mayMeet(schema, d.file, &targets[i]) {
				if work[i] == nil {
					work[i] = roaring.New()
				}
				work[i].Add(n)
				needed.Add(n)
			}
		}
	}
	found := make([]map[uint32]*roaring.Bitmap, len(targets))
	for it := needed.Iterator(); it.HasNext(); {
		pass := roaring.New()
		keys := newKeySet(schema)
		for it.HasNext() && (pass.IsEmpty() || keys.count < keysPerPass && keys.bytes < bytesPerPass) {
			n := it.Next()
			pass.Add(n)
			if err := keys.load(ctx, k.store, n, p.byNumber[n].file); err != nil {
				return nil, err
			}
		}
		if err := k.scan(ctx, keys, pass, targets, work, found); err != nil {
			return nil, err
		}
	}
	for i := range targets {
		if roaring.AndNot(p.asked, known[i].considered).IsEmpty() {
			continue
		}
		known[i] = known[i].with(p.asked, found[i])
		k.cache.Put(targets[i].path, known[i], known[i].weight())
	}
	return known, nil
}

// scan looks the keys up in every target that one of the pass' delete files may reach.
func (k *keyResolver) scan(ctx context.Context, keys *keySet, pass *roaring.Bitmap, targets []target, work []*roaring.Bitmap, found []map[uint32]*roaring.Bitmap) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range targets {
		if work[i] == nil || !work[i].Intersects(pass) {
			continue
		}
		g.Go(func() error {
			if found[i] == nil {
				found[i] = map[uint32]*roaring.Bitmap{}
			}
			if err := keys.find(ctx, k.store, targets[i].path, roaring.And(work[i], pass), found[i]); err != nil {
				return fmt.Errorf("applying equality deletes to %s: %w", targets[i].path, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// mayMeet compares the bounds of a delete file with those of a data file: false when no key of one can be in the other.
func mayMeet(schema *formats.Schema, d iceberg.DataFile, t *target) bool {
	for _, id := range d.EqualityFieldIDs() {
		at := slices.IndexFunc(schema.Columns, func(c formats.Column) bool { return c.ID == id })
		if at < 0 || d.NullValueCounts()[id] > 0 {
			continue
		}
		kind := schema.Columns[at].Type.Kind
		if less(kind, d.UpperBoundValues()[id], t.lower[id]) || less(kind, t.upper[id], d.LowerBoundValues()[id]) {
			return false
		}
	}
	return true
}
