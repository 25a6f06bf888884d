package ducklake_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/conformance"
	"github.com/streambed/streambed/formats/ducklake"
	"github.com/streambed/streambed/formats/storage"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t testing.TB) *conformance.Setup { return setup(t, config(t)) })
}

// config is an empty lake's.
func config(t testing.TB) ducklake.Config {
	t.Helper()
	dir := t.TempDir()
	store, err := storage.NewLocal("file://" + filepath.Join(dir, "warehouse"))
	if err != nil {
		t.Fatal(err)
	}
	return ducklake.Config{Pipeline: "shop", Store: ducklake.NewStore(store, ducklake.Inlining{Rows: -1}), Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"),
		Retention: ducklake.Retention{All: time.Hour}}
}

// inlining is the configuration of a lake that keeps every small file's rows in its catalog.
func inlining(t testing.TB) ducklake.Config {
	t.Helper()
	cfg := config(t)
	cfg.Store = ducklake.NewStore(cfg.Store.(*ducklake.Store).Store, ducklake.Inlining{})
	return cfg
}

func TestConformanceWithInlinedRows(t *testing.T) {
	conformance.Run(t, func(t testing.TB) *conformance.Setup { return setup(t, inlining(t)) })
}

func setup(t testing.TB, cfg ducklake.Config) *conformance.Setup {
	return &conformance.Setup{
		Store: cfg.Store,
		Open: func(t testing.TB) formats.Lake {
			lake, err := ducklake.Open(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { lake.Close() })
			return lake
		},
		OpenReader: func(t testing.TB) formats.Reader {
			r, err := ducklake.OpenReader(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Close() })
			return r
		},
	}
}
