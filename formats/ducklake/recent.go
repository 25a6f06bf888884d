package ducklake

import (
	"container/list"
	"sync"
)

// recent keeps the most recently used values up to a total weight. Values are immutable; it is safe for concurrent use.
type recent[V any] struct {
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

func newRecent[V any](limit int64) *recent[V] {
	return &recent[V]{limit: limit, order: list.New(), byKey: map[string]*list.Element{}}
}

func (r *recent[V]) get(key string) (v V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.byKey[key]
	if !ok {
		return v, false
	}
	r.order.MoveToFront(e)
	return e.Value.(*weighed[V]).value, true
}

func (r *recent[V]) put(key string, v V, weight int64) {
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

// clear forgets all values.
func (r *recent[V]) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order.Init()
	clear(r.byKey)
	r.weight = 0
}

func (r *recent[V]) drop(e *list.Element) {
	old := r.order.Remove(e).(*weighed[V])
	delete(r.byKey, old.key)
	r.weight -= old.weight
}
