package filecache

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/streambed/streambed/formats/storage"
)

// opens counts how often each object is opened at the real store behind.
type opens struct {
	storage.Store
	mu    sync.Mutex
	count map[string]int
	fail  error
}

func (o *opens) Open(ctx context.Context, uri string) (storage.Object, error) {
	o.mu.Lock()
	o.count[uri]++
	fail := o.fail
	o.mu.Unlock()
	if fail != nil {
		return nil, fail
	}
	return o.Store.Open(ctx, uri)
}

func warehouse(t *testing.T, sizes ...int) (*opens, []Object, [][]byte) {
	local, err := storage.NewLocal("file://" + t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store := &opens{Store: local, count: map[string]int{}}
	var objects []Object
	var bodies [][]byte
	for i, size := range sizes {
		body := bytes.Repeat([]byte{byte(i + 1)}, size)
		uri := fmt.Sprintf("%s/t/%d.parquet", local.Warehouse(), i)
		if err := local.Put(context.Background(), uri, body); err != nil {
			t.Fatal(err)
		}
		objects, bodies = append(objects, Object{URI: uri, Size: int64(size)}), append(bodies, body)
	}
	return store, objects, bodies
}

func mustGet(t *testing.T, c *Cache, want [][]byte, objects ...Object) func() {
	t.Helper()
	paths, release, err := c.Get(context.Background(), objects)
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range paths {
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want[i]) {
			t.Fatalf("object %d reads %d bytes, %v", i, len(got), err)
		}
	}
	return release
}

func TestAnObjectIsFetchedOnceForAllWhoAsk(t *testing.T) {
	store, objects, bodies := warehouse(t, 3*pieceSize+17, 5)
	c, err := New(t.TempDir(), 1<<30, store)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, release, err := c.Get(context.Background(), objects)
			if err != nil {
				t.Error(err)
				return
			}
			release()
		})
	}
	all.Wait()
	mustGet(t, c, bodies, objects...)()
	for uri, n := range store.count {
		if n != 1 {
			t.Errorf("%s was opened %d times", uri, n)
		}
	}
}

func TestFilesInUseStayAndTheLongestUnusedGo(t *testing.T) {
	store, objects, bodies := warehouse(t, 100, 100, 100, 100)
	dir := t.TempDir()
	c, err := New(dir, 250, store)
	if err != nil {
		t.Fatal(err)
	}
	hold := mustGet(t, c, bodies[:1], objects[0])
	mustGet(t, c, bodies[1:2], objects[1])()
	mustGet(t, c, bodies[2:3], objects[2])()
	mustGet(t, c, bodies[3:4], objects[3])()
	if s := c.Stats(); s.Size > 250 {
		t.Fatalf("the cache holds %d bytes of 250", s.Size)
	}
	if _, err := os.Stat(filepath.Join(dir, nameOf(objects[0]))); err != nil {
		t.Fatal("a file in use went away: ", err)
	}
	if _, err := os.Stat(filepath.Join(dir, nameOf(objects[1]))); !os.IsNotExist(err) {
		t.Fatal("the longest unused file is still there")
	}
	hold()
	everything := mustGet(t, c, bodies, objects...) // more than the limit, all in use
	everything()
	if s := c.Stats(); s.Size > 250 {
		t.Fatalf("the cache holds %d bytes of 250 after use", s.Size)
	}
}

func TestARestartFindsWhatWasFetched(t *testing.T) {
	store, objects, bodies := warehouse(t, 1000)
	dir := t.TempDir()
	c, err := New(dir, 1<<20, store)
	if err != nil {
		t.Fatal(err)
	}
	mustGet(t, c, bodies, objects...)()
	if err := os.WriteFile(filepath.Join(dir, "fetch-123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := New(dir, 1<<20, store)
	if err != nil {
		t.Fatal(err)
	}
	mustGet(t, again, bodies, objects...)()
	if store.count[objects[0].URI] != 1 {
		t.Fatalf("opened %d times", store.count[objects[0].URI])
	}
	if _, err := os.Stat(filepath.Join(dir, "fetch-123")); !os.IsNotExist(err) {
		t.Fatal("an unfinished file was kept")
	}
}

func TestAFailureIsToldAndTheNextOneTriesAgain(t *testing.T) {
	store, objects, bodies := warehouse(t, 10)
	c, err := New(t.TempDir(), 1<<20, store)
	if err != nil {
		t.Fatal(err)
	}
	store.fail = fmt.Errorf("the store is away")
	if _, _, err := c.Get(context.Background(), objects); err == nil {
		t.Fatal("no error")
	}
	if s := c.Stats(); s.Size != 0 || s.Files != 0 {
		t.Fatalf("a failure left %+v", s)
	}
	store.fail = nil
	mustGet(t, c, bodies, objects...)()
	wrong := objects[0]
	wrong.Size = 11
	if _, _, err := c.Get(context.Background(), []Object{wrong}); err == nil {
		t.Fatal("an object of another size than the catalog's was taken")
	}
}
