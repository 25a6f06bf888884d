package stages

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages/batcher"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/snapshot"
	"github.com/streambed/streambed/stages/source"
)

// table is one followed table of a run.
type table struct {
	oid uint32
	// seen is what the source's catalog last said of it.
	seen atomic.Pointer[source.Table]
	// head is the batcher that the decoder sends to. tail is the newest of those that it passes on to: they differ after
	// the table has been copied anew. Guarded by the registry.
	head, tail *batcher.Batcher
	route      *message.Route
	// copier is the tail's; nil when that was live at the start.
	copier *snapshot.Copier
	// resyncing tells that a new copy is under way or asked for.
	resyncing bool
}

func newTable(seen source.Table, b *batcher.Batcher, c *snapshot.Copier) *table {
	t := &table{oid: seen.OID, head: b, tail: b, route: b.Route(), copier: c}
	t.seen.Store(&seen)
	return t
}

// name is the table's name at the source, as last seen.
func (t *table) name() formats.TableName { return t.seen.Load().Name }

// registry knows the run's tables; it is the decoder's router. It is safe for concurrent use.
type registry struct {
	mu      sync.RWMutex
	tables  map[uint32]*table
	copying []*table
	// waited counts the calls of relieve that did nothing.
	waited atomic.Int64
}

func newRegistry() *registry { return &registry{tables: map[uint32]*table{}} }

// Route implements message.Router.
func (r *registry) Route(oid uint32) *message.Route {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if t := r.tables[oid]; t != nil {
		return t.route
	}
	return nil
}

// Copying implements message.Router.
func (r *registry) Copying() []*message.Route {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var routes []*message.Route
	for _, t := range r.copying {
		if t.route.EveryCut() {
			routes = append(routes, t.route)
		}
	}
	return routes
}

func (r *registry) add(t *table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tables[t.oid] = t
	if t.copier != nil {
		r.noteCopying(t)
	}
}

// noteCopying adds a table to those that are asked at every cut, and takes out those that are not copied any more.
func (r *registry) noteCopying(t *table) {
	r.copying = slices.DeleteFunc(r.copying, func(held *table) bool { return held == t || !held.route.EveryCut() })
	r.copying = append(r.copying, t)
}

// attach makes b the newest batcher of a table.
func (r *registry) attach(t *table, b *batcher.Batcher, c *snapshot.Copier) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.tail.Attach(b)
	t.tail, t.copier, t.resyncing = b, c, true
	r.noteCopying(t)
}

// named finds a table by its name, whatever its oid.
func (r *registry) named(name formats.TableName) *table {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, t := range r.tables {
		if t.name() == name {
			return t
		}
	}
	return nil
}

// copied notes that a table's newest copy is whole.
func (r *registry) copied(t *table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.resyncing = false
}

// newest gives a table's tail, copier and whether it is being copied anew.
func (r *registry) newest(t *table) (*batcher.Batcher, *snapshot.Copier, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return t.tail, t.copier, t.resyncing
}

func (r *registry) get(oid uint32) *table {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tables[oid]
}

// remove stops routing to a table. Its batcher goes on answering what was sent to it.
func (r *registry) remove(oid uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tables, oid)
}

func (r *registry) all() []*table {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*table, 0, len(r.tables))
	for _, t := range r.tables {
		all = append(all, t)
	}
	return all
}

// patience is how often relieve waits for what is on its way to the store before it sends on more all the same.
const patience = 50

// relieve asks the batchers that hold the most to send it on: an Acquire of the budget, of capacity bytes, is waiting.
// behind is what of it is with the batchers or on its way to the store already: when that is enough, it is waited for,
// lest every table's rows go in files as small as they happen to be.
func (r *registry) relieve(capacity, behind int64) {
	all := r.batchers()
	for _, b := range all {
		behind -= b.OpenCost()
	}
	if behind >= capacity/2 && r.waited.Add(1)%patience != 0 {
		return
	}
	r.waited.Store(0)
	slices.SortFunc(all, func(a, b *batcher.Batcher) int { return cmp.Compare(b.OpenBytes(), a.OpenBytes()) })
	var freed int64
	for _, b := range all {
		held := b.OpenBytes()
		if held == 0 || freed >= capacity/4 {
			return
		}
		b.Seal()
		freed += held
	}
}

func (r *registry) batchers() []*batcher.Batcher {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []*batcher.Batcher
	for _, t := range r.tables {
		all = append(all, t.head)
		if t.tail != t.head {
			all = append(all, t.tail)
		}
	}
	return all
}
