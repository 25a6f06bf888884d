package conformance

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/lsn"
)

// world is a pipeline together with a model of what the lake must hold.
type world struct {
	*pipeline
	rnd    *rand.Rand
	tables map[formats.TableName]*modelTable
	// past is what was visible at each checkpoint.
	past map[int64]map[formats.TableName]snapshotOf
	key  int64
	// prepared is a compaction under way, replaced the number of files that those before it replaced.
	prepared formats.Prepared
	replaced int
}

// modelTable is a visible table; fresh is its next incarnation while that is copied.
type modelTable struct {
	ref    formats.TableRef
	schema *formats.Schema
	rows   Rows
	since  int64 // the checkpoint that published it
	fresh  *modelTable
}

type snapshotOf struct {
	incarnation string
	text        string
}

// randomHistory runs random checkpoints over a few tables and compares every state with the model: at once, after
// restarts, and later by time travel.
func randomHistory(t *testing.T, s *Setup, seed uint64, checkpoints int) {
	w := &world{pipeline: newPipeline(t, s), rnd: rand.New(rand.NewPCG(seed, 1)), tables: map[formats.TableName]*modelTable{},
		past: map[int64]map[formats.TableName]snapshotOf{}}
	r := s.OpenReader(t)
	for range checkpoints {
		if s.Maintain && w.prepared == nil && w.rnd.IntN(3) == 0 {
			w.prepare()
		}
		w.step()
		if w.rnd.IntN(10) == 0 {
			w.prepared = nil
			w.open()
		}
		if w.rnd.IntN(3) == 0 {
			w.compare(r, w.current(r), w.number)
		}
	}
	if s.Maintain && w.replaced < checkpoints/4 {
		t.Errorf("compaction replaced %d files", w.replaced)
	}
	view := w.current(r)
	w.compare(r, view, w.number)
	for number := int64(1); number <= w.number; number++ {
		at := []formats.Point{{Checkpoint: number}, {Position: lsn.LSN(number * 1000)}, {Time: timeOf(number)}}[w.rnd.IntN(3)]
		past, err := r.At(w.ctx, view, at)
		if err != nil {
			t.Fatalf("seed %d, checkpoint %d: %v", seed, number, err)
		}
		w.compare(r, past, number)
	}
}

// compare checks every table that was visible at a checkpoint and still is the same incarnation.
func (w *world) compare(r formats.Reader, view *formats.View, number int64) {
	w.Helper()
	for name, want := range w.past[number] {
		now := w.tables[name]
		if now == nil || now.ref.ID != want.incarnation {
			continue // replaced or dropped since: its history went with it
		}
		got, schema := Read(w, r, w.setup.Store, view, name)
		if text := got.render(schema); text != want.text {
			w.Fatalf("table %v at checkpoint %d reads\n%swant\n%s", name, number, text, want.text)
		}
	}
	for name, now := range w.tables {
		if now.since > number {
			if _, err := r.Plan(w.ctx, view, name); !errors.Is(err, formats.ErrNoSuchTable) {
				w.Fatalf("table %v at checkpoint %d, before it was published at %d: %v", name, number, now.since, err)
			}
		}
	}
}

// step commits one checkpoint with random changes.
func (w *world) step() {
	w.Helper()
	cp := w.next()
	applied := []func(){}
	apply := func(ch formats.TableChange, done func()) {
		cp.Changes = append(cp.Changes, ch)
		applied = append(applied, done)
	}
	for i := range 3 {
		name := formats.TableName{Schema: "public", Table: fmt.Sprint("t", i)}
		m := w.tables[name]
		switch roll := w.rnd.IntN(20); {
		case m == nil && roll < 10:
			w.create(name, apply)
		case m == nil || roll < 4:
		case roll == 4:
			cp.Forget = append(cp.Forget, m.ref.ID)
			if m.fresh != nil {
				cp.Forget = append(cp.Forget, m.fresh.ref.ID)
			}
			apply(formats.TableChange{Table: m.ref, Unpublish: true}, func() { delete(w.tables, name) })
		case roll == 5 && m.fresh == nil:
			w.resync(m, apply)
		case roll == 6 && m.fresh != nil:
			fresh, old := m.fresh, m.ref.ID
			cp.Forget = append(cp.Forget, old)
			apply(formats.TableChange{Table: fresh.ref, Publish: true}, func() {
				fresh.since = cp.Number
				w.tables[name] = fresh
			})
		default:
			w.change(m, apply)
		}
	}
	w.addKeys(cp)
	if w.prepared != nil && w.rnd.IntN(2) == 0 { // the checkpoint names rows by where they were before
		w.maintain()
	}
	if err := w.send(cp); err != nil {
		w.Fatalf("checkpoint %d: %v", cp.Number, err)
	}
	for _, done := range applied {
		done()
	}
	now := map[formats.TableName]snapshotOf{}
	for name, m := range w.tables {
		now[name] = snapshotOf{m.ref.ID, m.rows.render(m.schema)}
	}
	w.past[cp.Number] = now
}

// prepare does a compaction's first half; some checkpoints may pass before the other.
func (w *world) prepare() {
	w.Helper()
	prepared, err := w.lake.(formats.Maintainer).Prepare(w.ctx, formats.Maintenance{Task: formats.Compact, All: true})
	if err != nil {
		w.Fatal(err)
	}
	w.prepared = prepared
}

// maintain does the other half, and checks that the lake calls dead what whoever follows is told to be.
func (w *world) maintain() {
	w.Helper()
	moves, report, err := w.prepared.Apply(w.ctx)
	if err != nil {
		w.Fatal(err)
	}
	w.prepared = nil
	w.replaced += report.Before
	dead := map[string]*roaring.Bitmap{}
	for _, r := range moves {
		if _, ok := dead[r.Table.ID]; !ok {
			files, _, err := w.lake.Files(w.ctx, r.Table, 0)
			if err != nil {
				w.Fatal(err)
			}
			dead[r.Table.ID] = nil
			for _, f := range files {
				dead[f.Path] = f.Deleted
			}
		}
		if is, live := dead[r.New]; r.New != "" && (!live || (is == nil) != (r.Dead == nil) || is != nil && !is.Equals(r.Dead)) {
			w.Fatalf("compaction tells that %v are dead of %s (live: %v), the lake that %v are", r.Dead, r.New, live, is)
		}
	}
}

type applier func(formats.TableChange, func())

func (w *world) create(name formats.TableName, apply applier) {
	m := &modelTable{ref: w.lake.NewTable(name), schema: NewSchema(), rows: Rows{}, since: w.number + 1}
	apply(formats.TableChange{Table: m.ref, Create: true, Publish: true, Schema: m.schema}, func() { w.tables[name] = m })
}

// resync begins a fresh incarnation with other rows.
func (w *world) resync(m *modelTable, apply applier) {
	fresh := &modelTable{ref: w.lake.NewTable(m.ref.Name), schema: NewSchema(), rows: w.newRows(NewSchema(), 5)}
	file := WriteFile(w, w.setup.Store, fresh.ref, fresh.schema, fresh.rows)
	apply(formats.TableChange{Table: fresh.ref, Create: true, Schema: fresh.schema, Add: []formats.DataFile{file}}, func() { m.fresh = fresh })
}

func (w *world) newRows(s *formats.Schema, n int) Rows {
	out := Rows{}
	for range n {
		w.key++
		row := Row{}
		for _, c := range s.Columns[1:] {
			if w.rnd.IntN(5) > 0 {
				row[c.ID] = fmt.Sprint("v", w.rnd.IntN(1000))
			}
		}
		out[w.key] = row
	}
	return out
}

// change makes a random change of a table's rows and schema.
func (w *world) change(m *modelTable, apply applier) {
	w.Helper()
	ch := formats.TableChange{Table: m.ref, Deletes: map[string]*roaring.Bitmap{}}
	next := m.rows.clone()
	schema := m.schema
	if w.rnd.IntN(8) == 0 {
		schema = w.alter(m.schema, next)
		ch.Schema = schema
	}
	places := locate(w, w.lake, w.setup.Store, m.ref, m.schema)
	if len(places) != len(m.rows) {
		w.Fatalf("table %v has %d live rows, want %d", m.ref.Name, len(places), len(m.rows))
	}
	if w.rnd.IntN(12) == 0 {
		ch.Truncate, next, places = true, Rows{}, nil
	}
	for range 1 + w.rnd.IntN(2) {
		fresh := w.newRows(schema, w.rnd.IntN(6))
		for _, key := range slices.Sorted(maps.Keys(places)) {
			if w.rnd.IntN(4) > 0 {
				continue
			}
			remove(ch.Deletes, places[key])
			delete(next, key)
			delete(places, key)
			if w.rnd.IntN(2) == 0 { // an update: the row moves to the new file
				for _, row := range w.newRows(schema, 1) {
					fresh[key] = row
				}
			}
		}
		if len(fresh) == 0 {
			continue
		}
		file := WriteFile(w, w.setup.Store, m.ref, schema, fresh)
		ch.Add = append(ch.Add, file)
		for i, key := range slices.Sorted(maps.Keys(fresh)) {
			if w.rnd.IntN(6) == 0 { // superseded after the file was sealed
				remove(ch.Deletes, place{file.Path, uint32(i)})
				continue
			}
			next[key] = fresh[key]
		}
	}
	if ch.Empty() {
		return
	}
	apply(ch, func() { m.rows, m.schema = next, schema })
}

func remove(deletes map[string]*roaring.Bitmap, at place) {
	if deletes[at.path] == nil {
		deletes[at.path] = roaring.New()
	}
	deletes[at.path].Add(at.position)
}

// alter adds, renames or drops a column, and does the same to the rows.
func (w *world) alter(s *formats.Schema, all Rows) *formats.Schema {
	next := *s
	next.ID++
	next.Columns = slices.Clone(s.Columns)
	switch roll := w.rnd.IntN(3); {
	case roll == 0 || len(s.Columns) == 2:
		next.LastFieldID++
		var byDefault *string
		if w.rnd.IntN(2) == 0 {
			text := fmt.Sprint("default ", next.LastFieldID)
			byDefault = &text
			for _, row := range all {
				row[next.LastFieldID] = text
			}
		}
		next.Columns = append(next.Columns, textColumn(next.LastFieldID, int16(next.LastFieldID), fmt.Sprint("c", next.LastFieldID), byDefault))
	case roll == 1:
		at := 1 + w.rnd.IntN(len(s.Columns)-1)
		next.Columns[at].Name = fmt.Sprint("renamed", next.ID)
	default:
		at := 1 + w.rnd.IntN(len(s.Columns)-1)
		for _, row := range all {
			delete(row, next.Columns[at].ID)
		}
		next.Columns = slices.Delete(next.Columns, at, at+1)
	}
	return &next
}
