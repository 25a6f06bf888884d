package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/streambed/streambed/cmd/internal/config"
	"github.com/streambed/streambed/cmd/internal/lake"
	"github.com/streambed/streambed/cmd/internal/query"
	"github.com/streambed/streambed/queryd"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// open opens the lake for reading and the query server over it; free gives everything back.
func open(ctx context.Context, cfg *config.Config, log *zap.Logger) (server *queryd.Server, free func(), err error) {
	var closers []func()
	free = func() {
		for i := len(closers) - 1; i >= 0; i-- {
			closers[i]()
		}
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	store, err := lake.OpenStore(ctx, cfg)
	if err != nil {
		return nil, free, err
	}
	reader, err := lake.OpenReader(ctx, cfg, store, log.Named("lake"))
	if errors.Is(err, lake.ErrNothingYet) {
		return nil, free, fmt.Errorf("there is no lake at %s: start streambedd first, or name the catalog with --catalog", cfg.Lake.Catalog)
	}
	if err != nil {
		return nil, free, err
	}
	closers = append(closers, func() { _ = reader.Close() })
	temp, remove, err := temporary(cfg.State)
	if err != nil {
		return nil, free, err
	}
	closers = append(closers, remove)
	// No pipeline shares the budget here.
	server, err = query.New(cfg, reader, store, temp, cfg.Memory*2/3, log)
	if err != nil {
		return nil, free, err
	}
	closers = append(closers, func() { _ = server.Close() })
	return server, free, nil
}

// temporary gives the folder for spill and cache: one under the state folder, which outlives the process, where it may
// be written and no other process has it; else one of this process alone.
func temporary(state string) (dir string, remove func(), err error) {
	dir = filepath.Join(state, "queryd")
	if os.MkdirAll(dir, 0o700) == nil {
		if lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err == nil {
			if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
				return dir, func() { _ = lock.Close() }, nil
			}
			_ = lock.Close()
		}
	}
	dir, err = os.MkdirTemp("", "queryd-")
	if err != nil {
		return "", nil, fmt.Errorf("a folder for temporary files cannot be made: %w; set --state to one that may be written", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

// newLog makes the log that the configuration asks for.
func newLog(cfg config.Log, to io.Writer) (*zap.Logger, error) {
	var level zapcore.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		return nil, fmt.Errorf("log.level %q is unknown: %w", cfg.Level, err)
	}
	var encoder zapcore.Encoder
	if cfg.Format == "json" {
		e := zap.NewProductionEncoderConfig()
		e.TimeKey, e.EncodeTime = "time", zapcore.RFC3339NanoTimeEncoder
		encoder = zapcore.NewJSONEncoder(e)
	} else {
		e := zap.NewDevelopmentEncoderConfig()
		e.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02 15:04:05.000")
		e.CallerKey = ""
		encoder = zapcore.NewConsoleEncoder(e)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(to)), level)
	return zap.New(zapcore.NewSamplerWithOptions(core, time.Second, 100, 100)), nil
}
