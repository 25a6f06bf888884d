package ducklake

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/streambed/streambed/formats/storage"
)

// Store is a store that keeps small new data files back until the commit that names them: it then either stores them or
// takes their rows into the catalog. It also opens what is in the catalog alone, as a Parquet file under a path at which
// nothing is stored. Everything that reads or writes data files of a lake with inlined rows goes through one Store, which
// the lake and its readers share. It is safe for concurrent use.
type Store struct {
	storage.Store
	inlining Inlining

	mu      sync.Mutex
	pending map[string][]byte
	// order holds the pending paths, oldest first; size is in bytes.
	order []string
	size  int64
	// sources know files whose rows are in a catalog.
	sources []func(ctx context.Context, uri string) ([]byte, error)
}

// Inlining says which rows go into the catalog. Zero fields mean the defaults.
type Inlining struct {
	// Rows and Bytes are the most that a data file may have to be inlined (200 rows, 64 KiB of Parquet); no file is with
	// Rows below zero.
	Rows, Bytes int64
	// FlushRows is the number of a table's inlined rows from which on they go to a file (2,000), and FlushAge how old they
	// may become there (5 minutes).
	FlushRows int64
	FlushAge  time.Duration
}

func (i Inlining) withDefaults() Inlining {
	set := func(n *int64, value int64) {
		if *n == 0 {
			*n = value
		}
	}
	set(&i.Rows, 200)
	set(&i.Bytes, 64<<10)
	set(&i.FlushRows, 2000)
	if i.FlushAge == 0 {
		i.FlushAge = 5 * time.Minute
	}
	return i
}

// pendingLimit bounds the bytes of files that wait for their commit; beyond it the oldest are stored.
const pendingLimit = 16 << 20

// NewStore makes a store for lakes and readers that inline rows. base stays the caller's to close.
func NewStore(base storage.Store, inlining Inlining) *Store {
	return &Store{Store: base, inlining: inlining.withDefaults(), pending: map[string][]byte{}}
}

// Put stores an object, or keeps back a small data file.
func (s *Store) Put(ctx context.Context, uri string, body []byte) error {
	if int64(len(body)) > s.inlining.Bytes || s.inlining.Rows < 0 || !holdsData(uri) {
		return s.Store.Put(ctx, uri, body)
	}
	s.mu.Lock()
	if _, again := s.pending[uri]; !again {
		s.order = append(s.order, uri)
	}
	s.size += int64(len(body)) - int64(len(s.pending[uri]))
	s.pending[uri] = bytes.Clone(body)
	s.mu.Unlock()
	return s.relieve(ctx)
}

// relieve stores the oldest pending files until the rest is within bounds. A file leaves memory once it is stored.
func (s *Store) relieve(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.size <= pendingLimit || len(s.order) == 0 {
			s.mu.Unlock()
			return nil
		}
		uri := s.order[0]
		s.order = s.order[1:]
		body, ok := s.pending[uri]
		s.mu.Unlock()
		if !ok {
			continue // settled meanwhile
		}
		if err := s.Store.Put(ctx, uri, body); err != nil {
			return err
		}
		s.settle(uri)
	}
}

// kept gives a file that is kept back; nil for one that has been stored.
func (s *Store) kept(uri string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending[uri]
}

// settle forgets a file that was kept back.
func (s *Store) settle(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if body, ok := s.pending[uri]; ok {
		s.size -= int64(len(body))
		delete(s.pending, uri)
	}
	if len(s.order) > 2*len(s.pending)+64 {
		order := make([]string, 0, len(s.pending))
		for _, held := range s.order {
			if _, ok := s.pending[held]; ok {
				order = append(order, held)
			}
		}
		s.order = order
	}
}

// serve makes the store ask a source for files that it does not have. It gives nil for those that it does not know.
func (s *Store) serve(source func(ctx context.Context, uri string) ([]byte, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources = append(s.sources, source)
}

// body gives a file that is in memory or in a catalog; nil for any other.
func (s *Store) body(ctx context.Context, uri string) ([]byte, error) {
	if body := s.kept(uri); body != nil {
		return body, nil
	}
	if !strings.HasSuffix(uri, ".parquet") {
		return nil, nil
	}
	s.mu.Lock()
	sources := s.sources
	s.mu.Unlock()
	for _, source := range sources {
		if body, err := source(ctx, uri); body != nil || err != nil {
			return body, err
		}
	}
	return nil, nil
}

// Get reads a whole object.
func (s *Store) Get(ctx context.Context, uri string) ([]byte, error) {
	body, err := s.body(ctx, uri)
	if body == nil && err == nil {
		return s.Store.Get(ctx, uri)
	}
	return bytes.Clone(body), err
}

// Open gives random access to an object.
func (s *Store) Open(ctx context.Context, uri string) (storage.Object, error) {
	body, err := s.body(ctx, uri)
	if err != nil {
		return nil, err
	}
	if body == nil {
		return s.Store.Open(ctx, uri)
	}
	return memoryObject{bytes.NewReader(body)}, nil
}

// memoryObject is an object in memory.
type memoryObject struct{ *bytes.Reader }

// Close does nothing.
func (memoryObject) Close() error { return nil }

var _ io.ReaderAt = memoryObject{}

// hidden reports whether a store that keeps files back is beneath another one, where the lake would not find it.
func hidden(store storage.Store) bool {
	for {
		switch outer := store.(type) {
		case *storage.Counting:
			store = outer.Store
		case *storage.Faulty:
			store = outer.Store
		default:
			return false
		}
		if s, ok := store.(*Store); ok {
			return s.inlining.Rows >= 0
		}
	}
}
