package oracle

import (
	"context"
	"math/rand/v2"
	"path/filepath"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/ducklake"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/test/postgres"
	"go.uber.org/zap"
)

// duckLake is the mode of a lake in the other format, which has no modes.
const duckLake = "ducklake"

// onDuckLake decides whether a history's lake is a DuckLake. The random source is its own, so that the rest of a history
// does not depend on it.
func onDuckLake(mode string, seed uint64) bool {
	return mode == duckLake || mode == "any" && rand.New(rand.NewPCG(seed, 3)).IntN(4) == 0
}

// place sets where the lake's catalog is and, for a DuckLake, how much goes into it: so little at a time that rows are
// inlined under several versions of a table's schema, and flushed on the way.
func (h *history) place(seed uint64) {
	h.settings.Catalog = "sqlite://" + h.settings.Folder + "/catalog.db"
	if !h.duckLake {
		return
	}
	random := rand.New(rand.NewPCG(seed, 4))
	if random.IntN(3) == 0 { // a server of its own: the source's crashes
		h.settings.Catalog = postgres.ForTest(h.t).Database(h.t).URL()
	}
	pick := func(values ...int64) int64 { return values[random.IntN(len(values))] }
	h.settings.Inlining = ducklake.Inlining{Rows: pick(-1, 3, 20, 200), Bytes: pick(4<<10, 64<<10), FlushRows: pick(10, 100, 2000)}
	h.tell("DuckLake with its catalog at %s, inlining %+v", h.settings.Catalog, h.settings.Inlining)
}

func (s *settings) store() (storage.Store, error) {
	store, err := storage.NewLocal("file://" + filepath.ToSlash(s.Folder) + "/warehouse")
	if err != nil || s.Mode != duckLake {
		return store, err
	}
	return ducklake.NewStore(store, s.Inlining), nil
}

func (s *settings) duckLake(store storage.Store) ducklake.Config {
	return ducklake.Config{Pipeline: "oracle", Store: store, Catalog: s.Catalog, TargetFileSize: s.TargetFileSize}
}

func (s *settings) iceberg(store storage.Store) iceberg.Config {
	return iceberg.Config{Pipeline: "oracle", Store: store, Catalog: s.Catalog, Mode: iceberg.Mode(s.Mode), FollowsRewrites: true}
}

// open opens the lake for writing, and makes its catalog.
func (s *settings) open(ctx context.Context, fail func(string) error, log *zap.Logger) (formats.Lake, storage.Store, error) {
	store, err := s.store()
	if err != nil {
		return nil, nil, err
	}
	if s.Mode == duckLake {
		config := s.duckLake(store)
		config.Failpoint, config.Log = fail, log
		lake, err := ducklake.Open(ctx, config)
		return lake, store, err
	}
	config := s.iceberg(store)
	config.Failpoint, config.Log = fail, log
	lake, err := iceberg.Open(ctx, config)
	return lake, store, err
}

// openReader makes the catalog, which a reader does not, and opens the lake for reading.
func (s *settings) openReader(ctx context.Context) (*lake, error) {
	made, _, err := s.open(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	if err := made.Close(); err != nil {
		return nil, err
	}
	store, err := s.store() // the former one still asks the lake that has been closed
	if err != nil {
		return nil, err
	}
	var reader formats.Reader
	if s.Mode == duckLake {
		reader, err = ducklake.OpenReader(ctx, s.duckLake(store))
	} else {
		reader, err = iceberg.OpenReader(ctx, s.iceberg(store))
	}
	return &lake{reader, store, s.Mode == duckLake}, err
}
