package verify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages/source"
)

// buckets is the number of buckets that a side's rows are summed up in, by their identity.
const buckets = 1 << 16

// tally is one side's rows by bucket.
type tally struct {
	piles []pile
	rows  int64
}

func newTally() *tally { return &tally{piles: make([]pile, buckets)} }

func bucketOf(identity digest) int { return int(binary.LittleEndian.Uint16(identity[:])) }

func (t *tally) add(identity, content digest) {
	t.piles[bucketOf(identity)].add(content)
	t.rows++
}

// candidate is a row that may differ.
type candidate struct {
	// key are its key's values in text form; nil when rows cannot be asked for by key.
	key                 []string
	before, lake, after pile
	// strikes counts the rounds in a row in which it differed though the source left it alone.
	strikes int
	// sourceShown and lakeShown are its values for people, kept for the first of them.
	sourceShown, lakeShown []string
}

type candidates map[digest]*candidate

// candidateBytes is about what one candidate holds in memory.
const candidateBytes = 320

// compare reads both sides and, where they differ, finds out in which rows.
func (v *verifier) compare(ctx context.Context) error {
	s, err := v.takeSnapshot(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if s != nil {
			s.close()
		}
	}()
	if v.result.SourcePosition, err = source.InsertLSN(ctx, v.conn); err != nil {
		return err
	}
	v.o.Progress("reading the source")
	atSource := newTally()
	if err := v.readSource(ctx, s, v.hashed(atSource.add)); err != nil {
		return err
	}
	if v.view, err = v.firstView(ctx); err != nil {
		return err
	}
	v.o.Progress("reading the lake")
	inLake := newTally()
	if err := v.hashLake(ctx, inLake.add); err != nil {
		return err
	}
	v.result.SourceRows, v.result.LakeRows = atSource.rows, inLake.rows
	v.result.LakePosition, v.result.Checkpoint = v.view.Position, v.view.Checkpoint
	for _, group := range groups(atSource, inLake, v.o.Memory/candidateBytes) {
		if s == nil { // an earlier group took its time
			if s, err = v.takeSnapshot(ctx); err != nil {
				return err
			}
		}
		v.o.Progress(fmt.Sprintf("looking for what differs in %d of %d parts", len(group), buckets))
		found, err := v.collect(ctx, s, group)
		s.close()
		s = nil
		if err != nil {
			return err
		}
		if err := v.decide(ctx, found); err != nil || v.result.More {
			return err
		}
	}
	return nil
}

// firstView gives the view of the lake that is nearest to the source's snapshot.
func (v *verifier) firstView(ctx context.Context) (*formats.View, error) {
	now, reached, err := v.caughtUp(ctx, v.result.SourcePosition)
	if err != nil || !reached {
		return now, err
	}
	// What was committed while the source was read would only look like differences.
	then, err := v.o.Reader.At(ctx, now, formats.Point{Position: v.result.SourcePosition})
	switch {
	case errors.Is(err, formats.ErrExpired), errors.Is(err, formats.ErrNoSuchTable):
		return now, nil
	case err != nil:
		return nil, err
	case find(then, v.o.Table) == nil:
		return now, nil
	}
	return then, nil
}

// hashed makes of a function of digests one of records.
func (v *verifier) hashed(add func(identity, content digest)) each {
	h := &hasher{shape: v.shape}
	return func(rec arrow.RecordBatch) error {
		for row := range int(rec.NumRows()) {
			identity, content, err := h.row(rec, row)
			if err != nil {
				return err
			}
			add(identity, content)
		}
		return nil
	}
}

func (v *verifier) hashLake(ctx context.Context, add func(identity, content digest)) error {
	h := &hasher{shape: v.shape}
	return v.readLake(ctx, v.view, func(rec arrow.RecordBatch, row int) error {
		identity, content, err := h.row(rec, row)
		if err == nil {
			add(identity, content)
		}
		return err
	})
}

// groups lists the buckets that differ, in groups of about at most so many rows on both sides.
func groups(a, b *tally, rows int64) []map[int]bool {
	var all []map[int]bool
	var group map[int]bool
	held := int64(0)
	for i := range buckets {
		if a.piles[i] == b.piles[i] {
			continue
		}
		n := a.piles[i].rows + b.piles[i].rows
		if group == nil || held+n > rows {
			group, held = map[int]bool{}, 0
			all = append(all, group)
		}
		group[i] = true
		held += n
	}
	return all
}

// collect reads both sides again and keeps the rows of a group's buckets that differ.
func (v *verifier) collect(ctx context.Context, s *snapshot, group map[int]bool) (candidates, error) {
	found := candidates{}
	h := &hasher{shape: v.shape}
	add := func(rec arrow.RecordBatch, row int, put func(*candidate, digest)) error {
		identity, content, err := h.row(rec, row)
		if err != nil || !group[bucketOf(identity)] {
			return err
		}
		c := found[identity]
		if c == nil {
			c = &candidate{}
			c.key, _ = v.shape.keyText(rec, row)
			found[identity] = c
		}
		put(c, content)
		return nil
	}
	err := v.readSource(ctx, s, func(rec arrow.RecordBatch) error {
		for row := range int(rec.NumRows()) {
			if err := add(rec, row, func(c *candidate, content digest) { c.before.add(content) }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = v.readLake(ctx, v.view, func(rec arrow.RecordBatch, row int) error {
		return add(rec, row, func(c *candidate, content digest) { c.lake.add(content) })
	})
	if err != nil {
		return nil, err
	}
	for identity, c := range found {
		if c.before == c.lake {
			delete(found, identity)
		}
	}
	return found, nil
}
