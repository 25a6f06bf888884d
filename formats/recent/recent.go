// Package recent keeps values that were used of late.
package recent

import (
	"container/list"
	"sync"
)

// Cache keeps the most recently used values up to a total weight. Values are immutable; it is safe for concurrent use.
type Cache[V any] struct {
	limit int64

	mu     sync.Mutex
	weight int64
	order  *list.List // of *weighed[V], most recently used first
	byKey  map[string]*list.Element
}

type weighed[V any] struct {
	key    string
	value  V
	weight int64
}

// New makes a cache of values whose weights add up to limit at most; the newest one stays whatever its weight.
func New[V any](limit int64) *Cache[V] {
	return &Cache[V]{limit: limit, order: list.New(), byKey: map[string]*list.Element{}}
}

// Get gives the value of a key; ok is false when it is not there, or not any more.
func (r *Cache[V]) Get(key string) (v V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.byKey[key]
	if !ok {
		return v, false
	}
	r.order.MoveToFront(e)
	return e.Value.(*weighed[V]).value, true
}

// Put keeps a value in the place of an earlier one of its key, and drops those used longest ago. weight is in the unit of
// the limit.
func (r *Cache[V]) Put(key string, v V, weight int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.byKey[key]; ok {
		r.drop(e)
	}
	r.byKey[key] = r.order.PushFront(&weighed[V]{key, v, weight})
	r.weight += weight
	for r.weight > r.limit && r.order.Len() > 1 {
		r.drop(r.order.Back())
	}
}

// Clear forgets all values.
func (r *Cache[V]) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order.Init()
	clear(r.byKey)
	r.weight = 0
}

func (r *Cache[V]) drop(e *list.Element) {
	old := r.order.Remove(e).(*weighed[V])
	delete(r.byKey, old.key)
	r.weight -= old.weight
}
