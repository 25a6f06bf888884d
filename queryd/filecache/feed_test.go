package filecache

import (
	"context"
	"os"
	"testing"

	"github.com/streambed/streambed/formats/storage"
)

// bucket hides that its objects are files of this machine.
type bucket struct{ storage.Store }

func (bucket) Local(string) string { return "" }

func TestWhatIsPutThroughTheCacheIsNotFetched(t *testing.T) {
	store, objects, bodies := warehouse(t, 1000, 10)
	dir := t.TempDir()
	c, err := New(dir, 1<<20, store)
	if err != nil {
		t.Fatal(err)
	}
	fed := c.Feed(bucket{store})
	for i, o := range objects {
		if err := fed.Put(context.Background(), o.URI, bodies[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := fed.Put(context.Background(), store.Warehouse()+"/t/metadata.json", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	mustGet(t, c, bodies, objects...)()
	if len(store.count) != 0 {
		t.Errorf("fetched: %v", store.count)
	}
	if s := c.Stats(); s.Files != 2 || s.Size != 1010 {
		t.Errorf("%+v: not the two data files", s)
	}
}

func TestACopyThatCannotBeKeptFailsNoPut(t *testing.T) {
	store, objects, bodies := warehouse(t, 1000, 2000)
	dir := t.TempDir()
	c, err := New(dir, 1500, store)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	fed := c.Feed(bucket{store})
	for i, o := range objects {
		if err := fed.Put(context.Background(), o.URI, bodies[i]); err != nil {
			t.Fatal(err)
		}
	}
	if s := c.Stats(); s.Files != 0 || s.Size != 0 {
		t.Errorf("%+v: copies that are not there", s)
	}
}

func TestAFolderIsNotCopied(t *testing.T) {
	store, _, _ := warehouse(t)
	c, err := New(t.TempDir(), 1<<20, store)
	if err != nil {
		t.Fatal(err)
	}
	if c.Feed(store) != storage.Store(store) {
		t.Error("a store of local files is wrapped")
	}
}
