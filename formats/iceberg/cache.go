package iceberg

import (
	"container/list"
	"sync"
)

// cache keeps the most recently used values up to a total weight. Values are immutable; it is safe for concurrent use.
type cache[V any] struct {
	limit int64

	mu     sync.Mutex
	weight int64
	order  *list.List // of *cached[V], most recently used first
	byKey  map[string]*list.Element
}

type cached[V any] struct {
	key    string
	value  V
	weight int64
}

func newCache[V any](limit int64) *cache[V] {
	return &cache[V]{limit: limit, order: list.New(), byKey: map[string]*list.Element{}}
}

func (c *cache[V]) get(key string) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return v, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached[V]).value, true
}

func (c *cache[V]) put(key string, v V, weight int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.drop(e)
	}
	c.byKey[key] = c.order.PushFront(&cached[V]{key, v, weight})
	c.weight += weight
	for c.weight > c.limit && c.order.Len() > 1 {
		c.drop(c.order.Back())
	}
}

func (c *cache[V]) drop(e *list.Element) {
	old := c.order.Remove(e).(*cached[V])
	delete(c.byKey, old.key)
	c.weight -= old.weight
}

func (c *cache[V]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.weight, c.byKey = 0, map[string]*list.Element{}
	c.order.Init()
}
