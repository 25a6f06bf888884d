// Package query makes the query server that a configuration names, for both programs.
package query

import (
	"fmt"

	"github.com/streambed/streambed/cmd/internal/config"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/queryd"
	"go.uber.org/zap"
)

// New makes the server; it does not listen yet. The reader stays the caller's. temp is a folder for this server alone,
// memory bounds its engine in bytes.
func New(cfg *config.Config, reader formats.Reader, store storage.Store, temp string, memory int64, log *zap.Logger) (*queryd.Server, error) {
	o := queryd.Options{Listen: cfg.Query.Listen, Reader: reader, Store: store, TempDir: temp, Memory: memory,
		CacheSize: cfg.Query.CacheSize, Users: cfg.Query.Users, Log: log}
	if cfg.Query.TLS.Cert != "" {
		var err error
		if o.TLS, err = queryd.LoadTLS(cfg.Query.TLS.Cert, cfg.Query.TLS.Key, log); err != nil {
			return nil, fmt.Errorf("query.tls: %w", err)
		}
	}
	return queryd.New(o)
}
