package queryd

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/queryd/filecache"
)

// tables keeps, for each table version in use, a DuckDB view over its files. A version's content never changes, so
// sessions at the same checkpoint share its view and sessions at different ones never meet. Versions that nobody uses
// are kept for a while.
type tables struct {
	db     *duck.DB
	reader formats.Reader
	// cache holds the files of a store that is not a folder of this machine.
	cache *filecache.Cache

	mu      sync.Mutex
	entries map[string]*tableVersion
	// idle are the entries without users, the longest idle first.
	idle []*tableVersion
	next int64
}

// idleVersions bounds the unused versions that are kept.
const idleVersions = 128

// tableVersion is one version of a table. Its view and memory live while it has users (promise 9).
type tableVersion struct {
	key  string
	view string
	// ready is closed when the view is made or err says why not.
	ready   chan struct{}
	err     error
	users   int
	deletes *duck.Version
	// objects are the files that the view reads from the cache, pins what keeps them there, one a user.
	objects []filecache.Object
	pins    []func()
}

func newTables(o *Options, db *duck.DB) (*tables, error) {
	cache, err := filecache.New(cacheFolder(o), o.CacheSize, o.Store)
	if err != nil {
		return nil, err
	}
	return &tables{db: db, reader: o.Reader, cache: cache, entries: map[string]*tableVersion{}}, nil
}

// pin keeps the version's files in the cache for one more user, fetching those that have left it.
func (t *tables) pin(ctx context.Context, v *tableVersion) error {
	if len(v.objects) == 0 {
		return nil
	}
	_, release, err := t.cache.Get(ctx, v.objects)
	if err != nil {
		return err
	}
	t.mu.Lock()
	v.pins = append(v.pins, release)
	t.mu.Unlock()
	return nil
}

// unpin gives up the holds on the version's files that are more than its users; one that has not pinned yet may leave
// too. REQUIRES: mu is held.
func (v *tableVersion) unpin() {
	for n := len(v.pins); n > v.users; n-- {
		v.pins[n-1]()
		v.pins = v.pins[:n-1]
	}
}

// acquire gives the version of a table at a view, making it if needed. The caller releases it when its statement is done.
func (t *tables) acquire(ctx context.Context, view *formats.View, table *formats.ViewTable) (*tableVersion, error) {
	key := table.Name.Schema + "\x00" + table.Name.Table + "\x00" + table.Version + "\x00" + strconv.Itoa(table.Schema.ID)
	for {
		v, mine := t.enter(key)
		if mine {
			v.err = t.build(ctx, v, view, table)
			close(v.ready)
		}
		select {
		case <-v.ready:
		case <-ctx.Done():
			t.release(v)
			return nil, context.Cause(ctx)
		}
		if v.err == nil {
			err := t.pin(ctx, v)
			if err == nil {
				return v, nil
			}
			t.release(v)
			return nil, err
		}
		t.release(v)
		if !mine && errors.Is(v.err, context.Canceled) && ctx.Err() == nil {
			continue // the one who made it gave up; we have not
		}
		return nil, v.err
	}
}

// enter finds an entry or makes an unfinished one, which the caller then builds.
func (t *tables) enter(key string) (v *tableVersion, mine bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v = t.entries[key]; v != nil {
		if v.users == 0 {
			for i, e := range t.idle {
				if e == v {
					t.idle = append(t.idle[:i], t.idle[i+1:]...)
					break
				}
			}
		}
		v.users++
		return v, false
	}
	t.next++
	v = &tableVersion{key: key, view: "v" + strconv.FormatInt(t.next, 10), ready: make(chan struct{}), users: 1}
	t.entries[key] = v
	return v, true
}

// release gives a version back.
func (t *tables) release(v *tableVersion) {
	t.mu.Lock()
	var drop []*tableVersion
	v.users--
	v.unpin()
	if v.users == 0 {
		select {
		case <-v.ready:
			if v.err != nil {
				if t.entries[v.key] == v {
					delete(t.entries, v.key)
				}
				break
			}
			t.idle = append(t.idle, v)
		default:
			// Its builder holds a use until it is ready.
		}
	} else if v.err != nil && isClosed(v.ready) && t.entries[v.key] == v {
		delete(t.entries, v.key)
	}
	if n := len(t.idle) - idleVersions; n > 0 {
		drop = append(drop, t.idle[:n]...)
		t.idle = append(t.idle[:0], t.idle[n:]...)
		for _, d := range drop {
			delete(t.entries, d.key)
		}
	}
	t.mu.Unlock()
	for _, d := range drop {
		t.drop(d)
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// drop removes a version that is in no list any more.
func (t *tables) drop(v *tableVersion) {
	ctx := context.Background()
	if conn, err := t.db.Conn(ctx); err == nil {
		// A failure leaves a view that nobody can name.
		_ = conn.Exec(ctx, "DROP VIEW IF EXISTS "+lakeSchema+"."+v.view)
		conn.Release()
	}
	if v.deletes != nil {
		v.deletes.Release()
	}
}

func (t *tables) close() {
	t.mu.Lock()
	idle := t.idle
	t.idle = nil
	t.mu.Unlock()
	for _, v := range idle {
		t.drop(v)
	}
}

// build makes a version's view.
func (t *tables) build(ctx context.Context, v *tableVersion, view *formats.View, table *formats.ViewTable) error {
	plan, err := t.reader.Plan(ctx, view, table.Name)
	if err != nil {
		return err
	}
	paths, deleted := make([]string, len(plan.Files)), make([]*roaring.Bitmap, len(plan.Files))
	any := false
	for i, f := range plan.Files {
		paths[i], deleted[i] = f.Local, f.Deleted
		any = any || f.Deleted != nil && !f.Deleted.IsEmpty()
		if f.Local == "" {
			v.objects = append(v.objects, filecache.Object{URI: f.Path, Size: f.Size})
		}
	}
	if len(v.objects) > 0 {
		local, release, err := t.cache.Get(ctx, v.objects)
		if err != nil {
			return err
		}
		defer release() // each user pins them for itself
		for i, f := range plan.Files {
			if f.Local == "" {
				paths[i], local = local[0], local[1:]
			}
		}
	}
	if any {
		if v.deletes, err = t.db.Deletes.Register(paths, deleted); err != nil {
			return err
		}
	}
	sql, err := viewSQL(v, &plan.Schema, paths)
	if err == nil {
		var conn *duck.Conn
		if conn, err = t.db.Conn(ctx); err == nil {
			err = conn.Exec(ctx, sql)
			conn.Release()
		}
	}
	if err != nil && v.deletes != nil {
		v.deletes.Release()
		v.deletes = nil
	}
	return err
}
