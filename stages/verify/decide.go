package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/streambed/streambed/stages/source"
)

// keysAtOnce is the number of keys that the source is asked for in one statement.
const keysAtOnce = 1000

// decide looks at candidates in rounds, until each is known to be equal or to differ, or the rounds are over.
//
// A round reads the source, waits until the lake holds what the source held then, reads the lake, and reads the source
// again. If the source's row is the same both times, the lake must hold it. One such round may be wrong: the lake may hold
// a commit that the source does not show to new snapshots yet. Two rounds are believed.
func (v *verifier) decide(ctx context.Context, left candidates) error {
	if len(left) == 0 {
		return nil
	}
	if err := v.readCandidates(ctx, left, func(c *candidate) *pile { return &c.before }, nil); err != nil {
		return err
	}
	for round := 1; round <= v.o.Rounds && len(left) > 0; round++ {
		v.result.Rounds = max(v.result.Rounds, round)
		v.o.Progress(fmt.Sprintf("round %d: looking at %d rows again", round, len(left)))
		position, err := source.InsertLSN(ctx, v.conn)
		if err != nil {
			return err
		}
		view, reached, err := v.caughtUp(ctx, position)
		if err != nil {
			return err
		}
		v.view = view
		if err := v.readLakeCandidates(ctx, left); err != nil {
			return err
		}
		if err := v.readCandidates(ctx, left, func(c *candidate) *pile { return &c.after }, v.showSource); err != nil {
			return err
		}
		for identity, c := range left {
			if v.judge(c, reached) {
				delete(left, identity)
			}
		}
		if v.result.More {
			break
		}
	}
	v.result.Undecided += int64(len(left))
	slices.SortFunc(v.result.Differences, func(a, b Difference) int { return cmp.Compare(a.Key, b.Key) })
	return nil
}

// judge decides about a candidate after a round; it is false when another round has to tell.
func (v *verifier) judge(c *candidate, reached bool) bool {
	switch {
	case c.lake == c.after:
		return true
	case !reached:
		v.report(c)
		return true
	case c.before != c.after:
		c.strikes = 0
	default:
		if c.strikes++; c.strikes == 2 {
			v.report(c)
			return true
		}
	}
	c.before = c.after
	return false
}

// showLimit bounds the candidates whose values are kept for people.
func (v *verifier) showLimit() int { return 4 * v.o.Limit }

// showSource keeps a source row's values if the lake holds others, and reports whether it did.
func (v *verifier) showSource(c *candidate, content digest, rec arrow.RecordBatch, row int) bool {
	if c.lake == one(content) {
		return false
	}
	c.sourceShown = shown(v.shape.fields, rec, row)
	return true
}

// one is the pile of a single row.
func one(content digest) pile {
	var p pile
	p.add(content)
	return p
}

// readLakeCandidates reads what the lake holds of the candidates at the present view.
func (v *verifier) readLakeCandidates(ctx context.Context, left candidates) error {
	for _, c := range left {
		c.lake, c.lakeShown, c.sourceShown = pile{}, nil, nil
	}
	h := &hasher{shape: v.shape}
	kept := 0
	wanted := func(identity digest) bool { return left[identity] != nil }
	return v.readLakeRows(ctx, v.view, wanted, func(rec arrow.RecordBatch, row int) error {
		identity, content, err := h.row(rec, row)
		if err != nil {
			return err
		}
		c := left[identity]
		c.lake.add(content)
		if c.before != one(content) && kept < v.showLimit() {
			c.lakeShown = shown(v.shape.fields, rec, row)
			kept++
		}
		return nil
	})
}

// readCandidates reads what the source holds of the candidates now, into the pile that to gives.
func (v *verifier) readCandidates(ctx context.Context, left candidates, to func(*candidate) *pile, show func(*candidate, digest, arrow.RecordBatch, int) bool) error {
	byKey := true
	for _, c := range left {
		*to(c) = pile{}
		byKey = byKey && c.key != nil
	}
	h := &hasher{shape: v.shape}
	kept := 0
	add := func(rec arrow.RecordBatch) error {
		for row := range int(rec.NumRows()) {
			identity, content, err := h.row(rec, row)
			if err != nil {
				return err
			}
			c := left[identity]
			if c == nil {
				continue
			}
			to(c).add(content)
			if show != nil && kept < v.showLimit() && show(c, content, rec, row) {
				kept++
			}
		}
		return nil
	}
	if byKey {
		err := v.readByKey(ctx, left, add)
		var refused *pgconn.PgError
		if err == nil || !errors.As(err, &refused) || !strings.HasPrefix(refused.Code, "42") && !strings.HasPrefix(refused.Code, "22") {
			return err
		}
		// The key's type has no comparison of the server's own, or does not read its own text.
		for _, c := range left {
			*to(c), c.key = pile{}, nil
		}
		kept = 0
	}
	s, err := v.takeSnapshot(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	return v.readSource(ctx, s, add)
}

func (v *verifier) readByKey(ctx context.Context, left candidates, f each) error {
	keys := make([][]string, 0, min(keysAtOnce, len(left)))
	for _, c := range left {
		if keys = append(keys, c.key); len(keys) == keysAtOnce {
			if err := v.readKeys(ctx, keys, f); err != nil {
				return err
			}
			keys = keys[:0]
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return v.readKeys(ctx, keys, f)
}

// report adds a difference, or notes that there are more than are told.
func (v *verifier) report(c *candidate) {
	if len(v.result.Differences) >= v.o.Limit {
		v.result.More = true
		return
	}
	d := Difference{SourceRows: c.after.rows, LakeRows: c.lake.rows}
	values := c.sourceShown
	if values == nil {
		values = c.lakeShown
	}
	if values != nil {
		d.Key = v.describe(values)
	} else {
		d.Key = strings.Join(c.key, ", ")
	}
	switch {
	case c.lake.rows == 0:
		d.Kind = Missing
	case c.after.rows == 0:
		d.Kind = Extra
	case c.lake.rows != c.after.rows:
		d.Kind = Count
	default:
		d.Kind = Changed
		d.Columns = v.columns(c)
	}
	v.result.Differences = append(v.result.Differences, d)
}

// describe names a row by its key, or by all its values.
func (v *verifier) describe(values []string) string {
	var parts []string
	for _, i := range v.shape.identity {
		parts = append(parts, v.shape.fields[i].Name+"="+values[i])
	}
	return strings.Join(parts, ", ")
}

func (v *verifier) columns(c *candidate) []ColumnDifference {
	if c.sourceShown == nil || c.lakeShown == nil {
		return nil
	}
	var columns []ColumnDifference
	for i, f := range v.shape.fields {
		if c.sourceShown[i] != c.lakeShown[i] {
			columns = append(columns, ColumnDifference{Column: f.Name, Source: c.sourceShown[i], Lake: c.lakeShown[i]})
		}
	}
	return columns
}
