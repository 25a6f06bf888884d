package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/streambed/streambed/cmd/internal/config"
	"github.com/streambed/streambed/cmd/internal/query"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/queryd"
	"go.uber.org/zap"
)

// openQueries opens the query server and its port; nil when none is configured. The reader stays the caller's.
func openQueries(cfg *config.Config, reader formats.Reader, store storage.Store, log *zap.Logger) (*queryd.Server, error) {
	if cfg.Query.Listen == "" {
		return nil, nil
	}
	temp := filepath.Join(cfg.State, "queries")
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return nil, fmt.Errorf("the folder for the queries' temporary files cannot be made: %w", err)
	}
	_, memory := cfg.MemoryShares()
	server, err := query.New(cfg, reader, store, temp, memory, log.Named("query"))
	if err != nil {
		return nil, err
	}
	if _, err := server.Listen(); err != nil {
		_ = server.Close()
		return nil, err
	}
	return server, nil
}
