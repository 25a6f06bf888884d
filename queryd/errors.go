package queryd

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/queryd/names"
	"github.com/streambed/streambed/queryd/rewrite"
	"github.com/streambed/streambed/queryd/sqltext"
	"github.com/streambed/streambed/queryd/wire"
)

// The reasons why a statement or a session is ended from outside.
var (
	errCancelled = &wire.Failure{State: "57014", Message: "canceling statement due to user request", Position: -1}
	errTimeout   = &wire.Failure{State: "57014", Message: "canceling statement due to statement timeout", Position: -1}
	errShutdown  = &wire.Failure{Severity: "FATAL", State: "57P01", Message: "terminating connection due to administrator command", Position: -1}
)

func failf(state, format string, args ...any) *wire.Failure {
	return &wire.Failure{State: state, Message: fmt.Sprintf(format, args...), Position: -1}
}

// failure says any error as a client sees it. statement is the text that positions of DuckDB's parser and of rewrite
// point into; offset is where it stands in the whole text that the client sent.
func failure(err error, whole string, offset int) *wire.Failure {
	f := &wire.Failure{Position: -1}
	var (
		known     *wire.Failure
		text      *sqltext.Error
		rewritten *rewrite.Error
		engine    *duck.Error
	)
	switch {
	case errors.As(err, &known):
		*f = *known
	case errors.As(err, &text):
		f.State, f.Message, f.Position = text.State, text.Message, text.Position
	case errors.As(err, &rewritten):
		f.State, f.Message, f.Hint, f.Position = rewritten.State, rewritten.Message, rewritten.Hint, rewritten.Position
	case errors.As(err, &engine):
		f.State, f.Message = engine.SQLState(), hideInternals(engine.Message)
	case errors.Is(err, formats.ErrNotYetKnown):
		f.State, f.Message = "55000", err.Error()
		f.Hint = "Wait until the lake has it, or set streambed.wait_for_lsn to wait in the statement."
	case errors.Is(err, formats.ErrExpired):
		f.State, f.Message = "72000", err.Error()
		f.Hint = "streambed.snapshots('table') lists what is kept; the retention settings say for how long."
	case errors.Is(err, formats.ErrNoSuchTable):
		f.State, f.Message = "42P01", err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		*f = *errTimeout
	case errors.Is(err, context.Canceled):
		*f = *errCancelled
	default:
		f.State, f.Message = "XX000", err.Error()
	}
	if f.Position >= 0 && f.Statement == "" {
		f.Position += offset
		f.Statement = whole
	}
	return f
}

var internalName = regexp.MustCompile(`(main|` + lakeSchema + `)\.(v\d+)?`)

// hideInternals gives names in a message their true form.
func hideInternals(message string) string {
	return internalName.ReplaceAllString(names.Decode(message), "")
}
