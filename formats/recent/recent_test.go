package recent

import "testing"

func TestValuesUsedLongestAgoGoFirstAndTheNewestStays(t *testing.T) {
	c := New[int](10)
	c.Put("a", 1, 4)
	c.Put("b", 2, 4)
	if _, ok := c.Get("a"); !ok {
		t.Fatal("a is gone though there was room")
	}
	c.Put("c", 3, 4) // b was used longest ago
	for key, want := range map[string]bool{"a": true, "b": false, "c": true} {
		if _, ok := c.Get(key); ok != want {
			t.Errorf("%s is there: %v", key, ok)
		}
	}
	c.Put("large", 4, 100)
	if v, ok := c.Get("large"); !ok || v != 4 {
		t.Error("the newest value does not stay")
	}
	c.Put("large", 5, 1)
	c.Put("d", 6, 9)
	if v, ok := c.Get("large"); !ok || v != 5 {
		t.Error("a value put again has kept its old weight")
	}
	if c.Clear(); c.weight != 0 || c.order.Len() != 0 || len(c.byKey) != 0 {
		t.Error("something is left after Clear")
	}
}
