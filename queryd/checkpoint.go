package queryd

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/queryd/rewrite"
)

func (n *session) freshView(ctx context.Context) (*formats.View, error) {
	v, err := n.waitForLSN(ctx)
	if err != nil {
		return nil, err
	}
	asOf := n.settings.get("streambed.as_of")
	if asOf == "" {
		return v, nil
	}
	point, err := parsePoint(asOf, n.settings.zone)
	if err != nil {
		return nil, err
	}
	return n.engine.options.Reader.At(ctx, v, point)
}

// waitEvery is how often the lake is asked whether it holds a position that a statement waits for.
const waitEvery = 20 * time.Millisecond

// waitForLSN gives the newest view, once it holds what streambed.wait_for_lsn names: read your writes.
func (n *session) waitForLSN(ctx context.Context) (*formats.View, error) {
	reader := n.engine.options.Reader
	v, err := reader.Current(ctx)
	want := n.settings.get("streambed.wait_for_lsn")
	if err != nil || want == "" {
		return v, err
	}
	position, err := lsn.Parse(want)
	if err != nil {
		return nil, err
	}
	limit := n.settings.waitTimeout()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	again := time.NewTicker(waitEvery)
	defer again.Stop()
	for v.Position < position {
		select {
		case <-again.C:
		case <-deadline.C:
			return nil, failf("55000", "the lake is at %s and did not reach %s within %s: raise streambed.wait_timeout, or see whether the pipeline runs", v.Position, position, limit)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if v, err = reader.Current(ctx); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// at gives the view that an AT clause asks for. A statement that is only described reads today's tables: the parameters
// of the clause have no values yet.
func (e *environment) at(view *formats.View, at *rewrite.At) (*formats.View, error) {
	if e.describe && rewrite.HasParameters(at.Expression) {
		return view, nil
	}
	point, err := e.point(at)
	if err != nil {
		if f, ok := err.(*rewrite.Error); ok && f.Position < 0 {
			f.Position = at.Position
		}
		return nil, err
	}
	if v := e.views[point]; v != nil {
		return v, nil
	}
	v, err := e.session.engine.options.Reader.At(e.ctx, view, point)
	if err == nil {
		e.views[point] = v
		e.plan.read.At(v.Checkpoint)
	}
	return v, err
}

// point lets DuckDB compute an AT clause's expression.
func (e *environment) point(at *rewrite.At) (formats.Point, error) {
	expression := at.Expression
	timestamp := strings.EqualFold(at.Unit, "timestamp")
	if timestamp {
		expression = rewrite.Call("epoch_us", rewrite.Cast(expression, rewrite.SimpleType("TIMESTAMP WITH TIME ZONE")))
	}
	sql, err := e.deparse(rewrite.SelectExpression(rewrite.Cast(expression, rewrite.SimpleType("VARCHAR"))))
	if err != nil {
		return formats.Point{}, err
	}
	if err := e.session.setZone(e.ctx, e.plan.conn); err != nil {
		return formats.Point{}, err
	}
	text, null, err := e.plan.conn.Text(e.ctx, sql)
	if err != nil {
		if d, ok := err.(*duck.Error); ok {
			return formats.Point{}, &rewrite.Error{State: d.SQLState(), Message: hideInternals(d.Message), Position: -1}
		}
		return formats.Point{}, err
	}
	if null {
		return formats.Point{}, &rewrite.Error{State: "22004", Message: "AT needs a point in the lake's history, not NULL", Position: -1}
	}
	if timestamp {
		micros, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return formats.Point{}, &rewrite.Error{State: "22008", Message: "AT (TIMESTAMP) needs a finite time", Position: -1}
		}
		return formats.Point{Time: time.UnixMicro(micros).UTC()}, nil
	}
	return versionPoint(text)
}

// versionPoint reads a checkpoint's number or an LSN.
func versionPoint(text string) (formats.Point, error) {
	if strings.Contains(text, "/") {
		position, err := lsn.Parse(text)
		if err != nil || position == 0 {
			return formats.Point{}, &rewrite.Error{State: "22023", Message: text + " is not an LSN: write two hexadecimal numbers with a slash between, such as 16/B374D848", Position: -1}
		}
		return formats.Point{Position: position}, nil
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number <= 0 {
		return formats.Point{}, &rewrite.Error{State: "22023", Message: "AT (VERSION) takes a checkpoint's number from 1 or an LSN, not " + text, Position: -1}
	}
	return formats.Point{Checkpoint: number}, nil
}

// checkAsOf takes a time, a checkpoint's number or an LSN.
func checkAsOf(v string) (string, error) {
	if v == "" {
		return "", nil
	}
	_, err := parsePoint(v, time.UTC)
	return v, err
}

// parsePoint reads a setting's point in time: a time without an offset is of the session's zone.
func parsePoint(v string, zone *time.Location) (formats.Point, error) {
	if _, err := strconv.ParseInt(v, 10, 64); err == nil || strings.Contains(v, "/") {
		return versionPoint(v)
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, v); err == nil {
			return formats.Point{Time: t}, nil
		}
	}
	for _, layout := range localLayouts {
		if t, err := time.ParseInLocation(layout, v, zone); err == nil {
			return formats.Point{Time: t}, nil
		}
	}
	return formats.Point{}, failf("22023", "%q is no point in the lake's history: write a time such as 2026-01-31 12:00:00+00, a checkpoint's number or an LSN", v)
}

// checkStale refuses to join a table that has stopped following the source with ones that go on: their rows would be of
// different times (promise 3).
func (e *environment) checkStale() error {
	if e.session.settings.on("streambed.allow_stale") {
		return nil
	}
	var stale *formats.ViewTable
	others := false
	for _, t := range e.read {
		if t.SetAside != "" {
			stale = t
		}
	}
	if stale == nil {
		return nil
	}
	for _, t := range e.read {
		others = others || t.Name != stale.Name
	}
	if !others {
		return nil
	}
	f := failf("55000", "table %s does not follow the source at present (%s), so it does not fit together with the others", quoteName(stale.Name), stale.SetAside)
	f.Hint = "Read it alone, or accept its older state with SET streambed.allow_stale = on."
	return f
}
