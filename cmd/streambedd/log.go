package main

import (
	"fmt"
	"io"
	"time"

	"github.com/streambed/streambed/cmd/internal/config"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLog makes the log that the configuration asks for. Lines of one second that are alike in level and message are
// thinned after the first hundred.
func newLog(cfg config.Log, to io.Writer) (*zap.Logger, error) {
	var level zapcore.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		return nil, fmt.Errorf("log.level %q is unknown: %w", cfg.Level, err)
	}
	var encoder zapcore.Encoder
	if cfg.Format == "json" {
		e := zap.NewProductionEncoderConfig()
		e.TimeKey, e.EncodeTime = "time", zapcore.RFC3339NanoTimeEncoder
		e.EncodeDuration = zapcore.StringDurationEncoder
		encoder = zapcore.NewJSONEncoder(e)
	} else {
		e := zap.NewDevelopmentEncoderConfig()
		e.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02 15:04:05.000")
		e.EncodeDuration = zapcore.StringDurationEncoder
		e.CallerKey = ""
		encoder = zapcore.NewConsoleEncoder(e)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(to)), level)
	return zap.New(zapcore.NewSamplerWithOptions(core, time.Second, 100, 100)), nil
}
