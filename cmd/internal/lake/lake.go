// Package lake opens what a configuration names: the warehouse's store, and the lake or its reading side in the table
// format that it asks for. Both programs open them here.
package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/streambed/streambed/cmd/internal/config"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/ducklake"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/storage"
	"go.uber.org/zap"
)

// ErrNothingYet means that there is no catalog: the pipeline has not written to its lake.
var ErrNothingYet = errors.New("nothing has been written to the lake yet")

// OpenStore opens the warehouse; it may block on the store.
func OpenStore(ctx context.Context, cfg *config.Config) (storage.Store, error) {
	store, err := openWarehouse(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return outermost(cfg, store), nil
}

// OpenCountedStore is OpenStore with the counts of what goes to the warehouse itself.
func OpenCountedStore(ctx context.Context, cfg *config.Config) (storage.Store, *storage.Counting, error) {
	store, err := openWarehouse(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	counting := storage.NewCounting(store)
	return outermost(cfg, counting), counting, nil
}

// outermost gives the store that everything of the lake goes through: a DuckLake's keeps small files back.
func outermost(cfg *config.Config, store storage.Store) storage.Store {
	if cfg.Lake.Format == "ducklake" {
		return ducklake.NewStore(store, ducklake.Inlining{})
	}
	return store
}

func openWarehouse(ctx context.Context, cfg *config.Config) (storage.Store, error) {
	style := map[string]string{"true": "on", "false": "off"}[cfg.S3.PathStyle]
	store, err := storage.Open(ctx, cfg.Lake.Warehouse, storage.Options{S3: storage.S3Options{Endpoint: cfg.S3.Endpoint,
		Region: cfg.S3.Region, AccessKey: cfg.S3.AccessKey, SecretKey: cfg.S3.SecretKey, PathStyle: style}})
	if err != nil {
		return nil, fmt.Errorf("the warehouse %s cannot be opened: %w", cfg.Lake.Warehouse, err)
	}
	return store, nil
}

// age gives a retention's length: zero means "by default" to a format and "none" in a configuration.
func age(d time.Duration) time.Duration { return max(d, time.Nanosecond) }

func icebergConfig(cfg *config.Config, store storage.Store, log *zap.Logger) iceberg.Config {
	modes := map[formats.TableName]iceberg.Mode{}
	for _, t := range cfg.Tables {
		if t.Mode != "" {
			modes[formats.TableName{Schema: t.Schema, Table: t.Name}] = iceberg.Mode(t.Mode)
		}
	}
	return iceberg.Config{Pipeline: cfg.Pipeline, Store: store, Catalog: cfg.Lake.Catalog, Mode: iceberg.Mode(cfg.Lake.Mode), Modes: modes,
		FollowsRewrites: true, Hints: true, Interval: cfg.Flush.Interval, TargetFileSize: cfg.Lake.TargetFileSize,
		Retention: iceberg.Retention{All: age(cfg.Retention.All), Minutely: age(cfg.Retention.Minutely), Hourly: age(cfg.Retention.Hourly),
			Max: cfg.Retention.MaxSnapshots}, Log: log}
}

func duckLakeConfig(cfg *config.Config, store storage.Store, log *zap.Logger) ducklake.Config {
	arrangements := map[formats.TableName]formats.Arrangement{}
	for _, t := range cfg.Tables {
		if len(t.PartitionBy) > 0 || len(t.SortBy) > 0 {
			arrangements[formats.TableName{Schema: t.Schema, Table: t.Name}] = formats.Arrangement{PartitionBy: t.PartitionBy, SortBy: t.SortBy}
		}
	}
	return ducklake.Config{Pipeline: cfg.Pipeline, Store: store, Catalog: cfg.Lake.Catalog, TargetFileSize: cfg.Lake.TargetFileSize, Arrangements: arrangements,
		Retention: ducklake.Retention{All: age(cfg.Retention.All), Minutely: age(cfg.Retention.Minutely), Hourly: age(cfg.Retention.Hourly),
			Max: cfg.Retention.MaxSnapshots}, Log: log}
}

// Open opens the lake for writing, and makes the folder of its catalog. The reader shares its connections: it must not be
// used once the lake is closed. failpoint, for tests, may be nil.
func Open(ctx context.Context, cfg *config.Config, store storage.Store, log *zap.Logger, failpoint func(string)) (formats.Lake, formats.Reader, error) {
	if err := makeCatalogFolder(cfg); err != nil {
		return nil, nil, err
	}
	var fail func(string) error
	if failpoint != nil {
		fail = func(point string) error { failpoint(point); return nil }
	}
	return open(ctx, cfg, store, log, fail, false)
}

// OpenAnew is Open for a pipeline whose every table is to be copied again: a catalog that was lost is begun anew.
func OpenAnew(ctx context.Context, cfg *config.Config, store storage.Store, log *zap.Logger) (formats.Lake, error) {
	if err := makeCatalogFolder(cfg); err != nil {
		return nil, err
	}
	l, _, err := open(ctx, cfg, store, log, nil, true)
	return l, err
}

// Recover makes a lost catalog anew from the warehouse. It is an error for a format whose catalog is the only place in
// which its tables are.
func Recover(ctx context.Context, cfg *config.Config, store storage.Store, log *zap.Logger) (*iceberg.Recovery, error) {
	if cfg.Lake.Format == "ducklake" {
		return nil, errors.New("DuckLake's tables live in its catalog and cannot be made anew from files: put back the catalog's newest copy, or run `streambedd resync --all` to copy every table from the source again")
	}
	if err := makeCatalogFolder(cfg); err != nil {
		return nil, err
	}
	return iceberg.Recover(ctx, icebergConfig(cfg, store, log.Named("lake")))
}

func makeCatalogFolder(cfg *config.Config) error {
	path, local := strings.CutPrefix(cfg.Lake.Catalog, "sqlite://")
	if !local {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("the catalog's folder cannot be made: %w; create it for this user, or set another lake.catalog", err)
	}
	return nil
}

func open(ctx context.Context, cfg *config.Config, store storage.Store, log *zap.Logger, fail func(string) error, anew bool) (formats.Lake, formats.Reader, error) {
	if cfg.Lake.Format == "ducklake" {
		c := duckLakeConfig(cfg, store, log.Named("lake"))
		c.Failpoint, c.Anew = fail, anew
		l, err := ducklake.Open(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		return l, l.Reader(), nil
	}
	c := icebergConfig(cfg, store, log.Named("lake"))
	c.Failpoint, c.Anew = fail, anew
	l, err := iceberg.Open(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	return l, l.Reader(), nil
}

// OpenReader opens the lake for reading; ErrNothingYet when there is none. log may be nil.
func OpenReader(ctx context.Context, cfg *config.Config, store storage.Store, log *zap.Logger) (formats.Reader, error) {
	if path, local := strings.CutPrefix(cfg.Lake.Catalog, "sqlite://"); local {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: there is no catalog at %s", ErrNothingYet, path)
		}
	}
	var reader formats.Reader
	var err error
	if cfg.Lake.Format == "ducklake" {
		reader, err = ducklake.OpenReader(ctx, duckLakeConfig(cfg, store, log))
	} else {
		reader, err = iceberg.OpenReader(ctx, icebergConfig(cfg, store, log))
	}
	if err != nil {
		return nil, fmt.Errorf("the lake's catalog cannot be read: %w", err)
	}
	return reader, nil
}
