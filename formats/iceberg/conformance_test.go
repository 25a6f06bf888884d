package iceberg_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/conformance"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/storage/storetest"
	"github.com/streambed/streambed/test/postgres"
)

var everyMode = []iceberg.Mode{iceberg.CopyOnWrite, iceberg.MergeOnRead, iceberg.DeletionVectors}

func TestConformance(t *testing.T) {
	for _, mode := range everyMode {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			conformance.Run(t, func(t testing.TB) *conformance.Setup { return setup(t, mode) })
		})
	}
}

// TestConformanceOnPostgresAndS3 has the other catalog and the other store in every mode. Both work for a mode alike, so
// that with TestConformance each meets each.
func TestConformanceOnPostgresAndS3(t *testing.T) {
	options := storetest.Gateway(t)
	server := postgres.ForTest(t)
	var n atomic.Int64
	for _, mode := range everyMode {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			conformance.RunShort(t, func(t testing.TB) *conformance.Setup {
				store, err := storage.Open(context.Background(), fmt.Sprintf("s3://%s/lake%d", storetest.GatewayBucket, n.Add(1)), storage.Options{S3: options})
				if err != nil {
					t.Fatal(err)
				}
				return setup(t, mode, func(cfg *iceberg.Config) { cfg.Store, cfg.Catalog = store, server.Database(t).URL() })
			})
		})
	}
}

// setup is an empty lake for the suite.
func setup(t testing.TB, mode iceberg.Mode, change ...func(*iceberg.Config)) *conformance.Setup {
	t.Helper()
	dir := t.TempDir()
	store, err := storage.NewLocal("file://" + filepath.Join(dir, "warehouse"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := iceberg.Config{Pipeline: "shop", Store: store, Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"),
		Mode: mode, FollowsRewrites: true, Retention: iceberg.Retention{All: time.Hour}}
	for _, f := range change {
		f(&cfg)
	}
	return &conformance.Setup{
		Store:    cfg.Store,
		Maintain: true,
		Open: func(t testing.TB) formats.Lake {
			lake, err := iceberg.Open(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { lake.Close() })
			return lake
		},
		OpenReader: func(t testing.TB) formats.Reader {
			r, err := iceberg.OpenReader(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Close() })
			return r
		},
	}
}
