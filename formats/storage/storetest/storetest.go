// Package storetest holds what every Store must pass.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/streambed/streambed/formats/storage"
)

// Run proves the contract of storage.Store. open gives a store with an empty warehouse of its own.
func Run(t *testing.T, open func(t *testing.T) storage.Store) {
	for name, test := range map[string]func(*testing.T, storage.Store){
		"PutReplaces":            putReplaces,
		"PutNewNeverReplaces":    putNewNeverReplaces,
		"PutNewHasOneWinner":     putNewHasOneWinner,
		"PutFileStoresAllBytes":  putFileStoresAllBytes,
		"MissingIsErrNotFound":   missingIsErrNotFound,
		"OpenReadsRanges":        openReadsRanges,
		"DeleteOfNothingIsFine":  deleteOfNothingIsFine,
		"ListFindsByPrefix":      listFindsByPrefix,
		"OutsideIsRefused":       outsideIsRefused,
		"EndedContextStops":      endedContextStops,
		"ManyPutsIntoOneFolder":  manyPutsIntoOneFolder,
		"OddNamesSurvive":        oddNamesSurvive,
		"EscapedNamesSurvive":    escapedNamesSurvive,
		"LargeObjects":           largeObjects,
		"ReadersSeeWholeObjects": readersSeeWholeObjects,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

var ctx = context.Background()

func put(t *testing.T, s storage.Store, name string, body []byte) string {
	t.Helper()
	uri := s.Warehouse() + "/" + name
	if err := s.Put(ctx, uri, body); err != nil {
		t.Fatal(err)
	}
	return uri
}

func expect(t *testing.T, s storage.Store, uri string, want []byte) {
	t.Helper()
	got, err := s.Get(ctx, uri)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s holds %d bytes, want %d", uri, len(got), len(want))
	}
}

func putReplaces(t *testing.T, s storage.Store) {
	uri := put(t, s, "a/b/c", []byte("one"))
	expect(t, s, uri, []byte("one"))
	put(t, s, "a/b/c", []byte("second"))
	expect(t, s, uri, []byte("second"))
	put(t, s, "a/empty", nil)
	expect(t, s, s.Warehouse()+"/a/empty", nil)
}

func putNewNeverReplaces(t *testing.T, s storage.Store) {
	uri := s.Warehouse() + "/new"
	if err := s.PutNew(ctx, uri, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := s.PutNew(ctx, uri, []byte("second")); !errors.Is(err, storage.ErrExists) {
		t.Fatalf("got %v, want ErrExists", err)
	}
	expect(t, s, uri, []byte("first"))
}

func putNewHasOneWinner(t *testing.T, s storage.Store) {
	uri := s.Warehouse() + "/race/new"
	const n = 16
	var wg sync.WaitGroup
	won := make(chan []byte, n)
	for i := range n {
		wg.Go(func() {
			body := []byte(fmt.Sprint("writer ", i))
			err := s.PutNew(ctx, uri, body)
			if err == nil {
				won <- body
			} else if !errors.Is(err, storage.ErrExists) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d writers won", len(won))
	}
	expect(t, s, uri, <-won)
}

func putFileStoresAllBytes(t *testing.T, s storage.Store) {
	body := bytes.Repeat([]byte("0123456789"), 200_000)
	local := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(local, body, 0o600); err != nil {
		t.Fatal(err)
	}
	uri := s.Warehouse() + "/files/x.parquet"
	if err := s.PutFile(ctx, uri, local); err != nil {
		t.Fatal(err)
	}
	expect(t, s, uri, body)
	if err := s.PutFile(ctx, uri, filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Fatal("a file that is not there was stored")
	}
	expect(t, s, uri, body)
}

func missingIsErrNotFound(t *testing.T, s storage.Store) {
	uri := s.Warehouse() + "/no/such/object"
	if _, err := s.Get(ctx, uri); !errors.Is(err, storage.ErrNotFound) {
		t.Fatalf("Get: %v", err)
	}
	if _, err := s.Open(ctx, uri); !errors.Is(err, storage.ErrNotFound) {
		t.Fatalf("Open: %v", err)
	}
	put(t, s, "folder/object", []byte("x"))
	if _, err := s.Open(ctx, s.Warehouse()+"/folder"); !errors.Is(err, storage.ErrNotFound) {
		t.Fatalf("Open of a folder: %v", err)
	}
}

func openReadsRanges(t *testing.T, s storage.Store) {
	uri := put(t, s, "object", []byte("0123456789"))
	o, err := s.Open(ctx, uri)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if o.Size() != 10 {
		t.Fatalf("size %d", o.Size())
	}
	p := make([]byte, 4)
	if n, err := o.ReadAt(p, 3); n != 4 || err != nil || string(p) != "3456" {
		t.Fatalf("%d %v %q", n, err, p)
	}
	if n, err := o.ReadAt(p, 8); n != 2 || err != io.EOF || string(p[:n]) != "89" {
		t.Fatalf("at the end: %d %v %q", n, err, p[:n])
	}
	if n, err := o.ReadAt(p, 10); n != 0 || err != io.EOF {
		t.Fatalf("past the end: %d %v", n, err)
	}
}

func deleteOfNothingIsFine(t *testing.T, s storage.Store) {
	uri := put(t, s, "gone", []byte("x"))
	if err := s.Delete(ctx, uri, s.Warehouse()+"/never/was"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, uri); !errors.Is(err, storage.ErrNotFound) {
		t.Fatalf("after the delete: %v", err)
	}
}

func list(t *testing.T, s storage.Store, prefix string) []string {
	t.Helper()
	var out []string
	err := s.List(ctx, prefix, func(i storage.Info) error {
		if i.Modified.IsZero() {
			t.Errorf("%s has no time", i.URI)
		}
		out = append(out, fmt.Sprintf("%s %d", i.URI[len(s.Warehouse()):], i.Size))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func listFindsByPrefix(t *testing.T, s storage.Store) {
	for _, name := range []string{"a/1", "a/12", "a/2/x", "ab", "b/1"} {
		put(t, s, name, []byte(name))
	}
	for prefix, want := range map[string][]string{
		"":      {"/a/1 3", "/a/12 4", "/a/2/x 5", "/ab 2", "/b/1 3"},
		"/a/":   {"/a/1 3", "/a/12 4", "/a/2/x 5"},
		"/a":    {"/a/1 3", "/a/12 4", "/a/2/x 5", "/ab 2"},
		"/a/1":  {"/a/1 3", "/a/12 4"},
		"/none": nil,
		"/x/y/": nil,
	} {
		if got := list(t, s, s.Warehouse()+prefix); !slices.Equal(got, want) {
			t.Errorf("prefix %q: got %q, want %q", prefix, got, want)
		}
	}
	stop := errors.New("stop")
	n := 0
	err := s.List(ctx, s.Warehouse(), func(storage.Info) error { n++; return stop })
	if !errors.Is(err, stop) || n != 1 {
		t.Fatalf("List went on: %v after %d", err, n)
	}
}

func outsideIsRefused(t *testing.T, s storage.Store) {
	for _, uri := range []string{s.Warehouse() + "x/y", s.Warehouse() + "/../y", s.Warehouse() + "/a/../../y", "other://bucket/y", "", s.Warehouse() + "/"} {
		if err := s.Put(ctx, uri, []byte("x")); err == nil {
			t.Errorf("put to %q was accepted", uri)
		}
		if _, err := s.Get(ctx, uri); err == nil {
			t.Errorf("get of %q was accepted", uri)
		}
		if err := s.Delete(ctx, uri); err == nil {
			t.Errorf("delete of %q was accepted", uri)
		}
	}
}

func endedContextStops(t *testing.T, s storage.Store) {
	uri := put(t, s, "object", []byte("x"))
	ended, cancel := context.WithCancelCause(ctx)
	why := errors.New("enough")
	cancel(why)
	if err := s.Put(ended, uri, []byte("y")); !errors.Is(err, why) {
		t.Errorf("Put: %v", err)
	}
	if _, err := s.Get(ended, uri); !errors.Is(err, why) {
		t.Errorf("Get: %v", err)
	}
	if err := s.List(ended, s.Warehouse(), func(storage.Info) error { return nil }); !errors.Is(err, why) {
		t.Errorf("List: %v", err)
	}
	expect(t, s, uri, []byte("x"))
}

func manyPutsIntoOneFolder(t *testing.T, s storage.Store) {
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if err := s.Put(ctx, fmt.Sprintf("%s/many/%d", s.Warehouse(), i), []byte{byte(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := list(t, s, s.Warehouse()+"/many/"); len(got) != 100 {
		t.Fatalf("%d objects", len(got))
	}
}

func oddNamesSurvive(t *testing.T, s storage.Store) {
	for _, name := range []string{`A."b".c`, "a/b", "a_b", "A_B", "ä€", "%41", "..", ".", "-", " ", "_x", "a?b#c", "\x01"} {
		uri := put(t, s, storage.EncodeName(name)+"/"+storage.EncodeName(name), []byte(name))
		expect(t, s, uri, []byte(name))
	}
	if got := list(t, s, s.Warehouse()+"/"); len(got) != 13 {
		t.Fatalf("%d objects: %q", len(got), got)
	}
}

// escapedNamesSurvive: a percent sign in a name is a percent sign, as in the folders of partitions.
func escapedNamesSurvive(t *testing.T, s storage.Store) {
	for _, name := range []string{"region=r%209/day=1/x.parquet", "region=r 9/day=1/x.parquet", "at=2024-03-05%2010%3A00%3A00%2B00/x.parquet", "a=%2F%25~/x.parquet"} {
		uri := put(t, s, name, []byte(name))
		expect(t, s, uri, []byte(name))
		if got := list(t, s, s.Warehouse()+"/"+name); len(got) != 1 || got[0] != fmt.Sprintf("/%s %d", name, len(name)) {
			t.Errorf("%s is listed as %q", uri, got)
		}
	}
}

func largeObjects(t *testing.T, s storage.Store) {
	body := make([]byte, 20<<20)
	for i := range body {
		body[i] = byte(i * i >> 8)
	}
	uri := put(t, s, "large", body)
	expect(t, s, uri, body)
}

func readersSeeWholeObjects(t *testing.T, s storage.Store) {
	a, b := bytes.Repeat([]byte("a"), 100_000), bytes.Repeat([]byte("b"), 150_000)
	uri := put(t, s, "swap", a)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 30 {
			if err := s.Put(ctx, uri, [][]byte{b, a}[i%2]); err != nil {
				t.Error(err)
			}
		}
	}()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		got, err := s.Get(ctx, uri)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, a) && !bytes.Equal(got, b) {
			t.Fatalf("%d bytes, neither object", len(got))
		}
	}
}
