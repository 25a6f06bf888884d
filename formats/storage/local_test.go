package storage_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/storage/storetest"
)

func newLocal(t *testing.T) storage.Store {
	t.Helper()
	s, err := storage.NewLocal("file://" + filepath.Join(t.TempDir(), "made", "here"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLocalStore(t *testing.T) { storetest.Run(t, newLocal) }

func TestWrappersKeepTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storage.Store { return storage.NewFaulty(storage.NewCounting(newLocal(t))) })
}

func TestLocalKeepsNothingOfAFailedPut(t *testing.T) {
	dir := t.TempDir()
	s, err := storage.NewLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	// A folder stands where the object should go: the rename fails after the bytes were written.
	if err := os.MkdirAll(filepath.Join(dir, "taken", "inner"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(context.Background(), s.Warehouse()+"/taken", []byte("x")); err == nil {
		t.Fatal("a folder was replaced")
	}
	if err := s.PutNew(context.Background(), s.Warehouse()+"/taken", []byte("x")); !errors.Is(err, storage.ErrExists) {
		t.Fatalf("got %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "taken" {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func TestLocalListHidesUnfinishedPuts(t *testing.T) {
	dir := t.TempDir()
	s, err := storage.NewLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".streambed-tmp-123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = s.List(context.Background(), s.Warehouse(), func(i storage.Info) error { t.Errorf("listed %s", i.URI); return nil })
	if err != nil {
		t.Fatal(err)
	}
}

func TestLocalGivesPathsInsideOnly(t *testing.T) {
	dir := t.TempDir()
	s, err := storage.NewLocal("file://" + dir + "/")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Local(s.Warehouse() + "/a/b"); got != filepath.Join(dir, "a", "b") {
		t.Errorf("got %q", got)
	}
	for _, uri := range []string{"s3://b/a", s.Warehouse() + "/../x", dir + "/a"} {
		if got := s.Local(uri); got != "" {
			t.Errorf("%s is %q", uri, got)
		}
	}
}

func TestWarehousesThatReadersMisunderstandAreRefused(t *testing.T) {
	for _, uri := range []string{"relative/path", "file://relative", "/tmp/a%20b", "file:///tmp/a?b", "/tmp/a#b", "/tmp/a\nb"} {
		if _, err := storage.NewLocal(uri); err == nil {
			t.Errorf("%q was accepted", uri)
		}
	}
	if _, err := storage.Open(context.Background(), "ftp://x/y", storage.Options{}); err == nil || !strings.Contains(err.Error(), "ftp") {
		t.Errorf("got %v", err)
	}
}

func FuzzEncodedNamesStayDistinct(f *testing.F) {
	for _, s := range [][2]string{{"a", "A"}, {"a.b", "a-2eb"}, {"_a", "a"}, {"é", "e"}, {"-", "--"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := storage.EncodeName(a), storage.EncodeName(b)
		if (a == b) != (strings.EqualFold(x, y)) {
			t.Fatalf("%q -> %q, %q -> %q", a, x, b, y)
		}
		if strings.ContainsFunc(x, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-')
		}) {
			t.Fatalf("%q -> %q", a, x)
		}
	})
}

func TestFaultyFollowsItsRules(t *testing.T) {
	ctx := context.Background()
	f := storage.NewFaulty(newLocal(t))
	uri := f.Warehouse() + "/x"
	lost := &storage.Rule{Operations: []storage.Operation{storage.OpPut}, Contains: "/x", Skip: 1, Times: 1, Done: true}
	f.Break(lost)
	if err := f.Put(ctx, uri, []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := f.Put(ctx, uri, []byte("2")); !errors.Is(err, storage.ErrInjected) {
		t.Fatalf("got %v", err)
	}
	if body, err := f.Get(ctx, uri); err != nil || string(body) != "2" {
		t.Fatalf("the put whose answer was lost: %q %v", body, err)
	}
	if err := f.Put(ctx, uri, []byte("3")); err != nil || f.Hits(lost) != 1 {
		t.Fatalf("%v after %d hits", err, f.Hits(lost))
	}
	f.Heal()
	release := make(chan struct{})
	f.Break(&storage.Rule{Operations: []storage.Operation{storage.OpGet}, Stall: release})
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if _, err := f.Get(short, uri); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	close(release)
	if body, err := f.Get(ctx, uri); err != nil || string(body) != "3" {
		t.Fatalf("%q %v", body, err)
	}
}
