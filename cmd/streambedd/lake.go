package main

import (
	"context"
	"errors"

	"github.com/streambed/streambed/cmd/internal/config"
	"github.com/streambed/streambed/cmd/internal/lake"
	"github.com/streambed/streambed/formats"
)

// openReader opens the lake for reading; it is nil when nothing has been written yet.
func openReader(ctx context.Context, cfg *config.Config) (formats.Reader, error) {
	store, err := lake.OpenStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	reader, err := lake.OpenReader(ctx, cfg, store, nil)
	if errors.Is(err, lake.ErrNothingYet) {
		return nil, nil
	}
	return reader, err
}
