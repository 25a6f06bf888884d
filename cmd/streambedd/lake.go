package main

import (
	"context"
	"errors"

	"github.com/streambed/streambed/cmd/internal/config"
	"github.com/streambed/streambed/cmd/internal/lake"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
)

// openReader opens the lake for reading; it is nil when nothing has been written yet.
func openReader(ctx context.Context, cfg *config.Config) (formats.Reader, error) {
	store, err := lake.OpenStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return openReaderOn(ctx, cfg, store)
}

// openReaderOn is openReader on a store that the caller reads the lake's files from: a DuckLake's inlined rows are found
// through the store that its reader was opened with.
func openReaderOn(ctx context.Context, cfg *config.Config, store storage.Store) (formats.Reader, error) {
	reader, err := lake.OpenReader(ctx, cfg, store, nil)
	if errors.Is(err, lake.ErrNothingYet) {
		return nil, nil
	}
	return reader, err
}
