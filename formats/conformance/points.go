package conformance

import (
	"errors"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
)

func schemaChangeWithoutData(t *testing.T, s *Setup) {
	p := newPipeline(t, s)
	r := s.OpenReader(t)
	ref, _ := p.table(orders, rows(0, 2, "a"))
	before := p.current(r)
	two := NewSchema()
	text := "twelve"
	two.ID, two.LastFieldID = 1, 3
	two.Columns = append(two.Columns, textColumn(3, 3, "note", &text))
	two.Columns[1].Name = "value"
	p.commit(formats.TableChange{Table: ref, Schema: two})
	view := p.current(r)
	got, schema := Read(t, r, s.Store, view, orders)
	if want := "0: value=a note=twelve\n1: value=a note=twelve\n"; got.render(schema) != want {
		t.Fatalf("reads\n%swant\n%s", got.render(schema), want)
	}
	if view.Tables[0].Version == before.Tables[0].Version {
		t.Fatal("another schema under the same version")
	}
	past, err := r.At(p.ctx, view, formats.Point{Checkpoint: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got, schema := Read(t, r, s.Store, past, orders); got.render(schema) != "0: val=a\n1: val=a\n" {
		t.Fatalf("the past reads\n%s", got.render(schema))
	}
	p.open()
	if len(p.state.Tables) != 1 || len(p.state.Tables[0].Schema.Columns) != 3 {
		t.Fatalf("%+v", p.state.Tables)
	}
}

func pointsOutsideHistory(t *testing.T, s *Setup) {
	p := newPipeline(t, s)
	r := s.OpenReader(t)
	p.commit() // nothing yet
	ref, _ := p.table(orders, rows(0, 1, "a"))
	p.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{p.file(ref, rows(1, 1, "a"))}})
	items, _ := p.table(formats.TableName{Schema: "public", Table: "items"}, rows(0, 1, "i"))
	cp := p.next()
	cp.Known = cp.CommitTime.Add(time.Hour)
	if err := p.send(cp); err != nil {
		t.Fatal(err)
	}
	view := p.current(r)
	for name, at := range map[string]formats.Point{"checkpoint": {Checkpoint: 6}, "LSN": {Position: 5001}, "time": {Time: cp.Known.Add(time.Microsecond)}} {
		if _, err := r.At(p.ctx, view, at); !errors.Is(err, formats.ErrNotYetKnown) {
			t.Errorf("%s in the future: %v", name, err)
		}
	}
	for name, at := range map[string]formats.Point{"checkpoint": {Checkpoint: 3}, "LSN": {Position: 3999}, "time": {Time: timeOf(4).Add(-time.Microsecond)}} {
		past, err := r.At(p.ctx, view, at)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if past.Checkpoint != 3 || past.Position != 3000 {
			t.Fatalf("%s: checkpoint %d at %s", name, past.Checkpoint, past.Position)
		}
		p.expect(r, past, orders, rows(0, 2, "a"))
		if _, err := r.Plan(p.ctx, past, items.Name); !errors.Is(err, formats.ErrNoSuchTable) {
			t.Fatalf("%s: a table that came later: %v", name, err)
		}
	}
	for name, at := range map[string]formats.Point{"LSN": {Position: 5000}, "time": {Time: cp.Known}} {
		now, err := r.At(p.ctx, view, at)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p.expect(r, now, items.Name, rows(0, 1, "i"))
	}
	past, err := r.At(p.ctx, view, formats.Point{Checkpoint: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Plan(p.ctx, past, orders); !errors.Is(err, formats.ErrNoSuchTable) {
		t.Fatalf("before the first table: %v", err)
	}
}

func versionsNameContent(t *testing.T, s *Setup) {
	p := newPipeline(t, s)
	r := s.OpenReader(t)
	ref, _ := p.table(orders, rows(0, 1, "a"))
	items, _ := p.table(formats.TableName{Schema: "public", Table: "items"}, rows(0, 1, "i"))
	versions := func(v *formats.View) map[formats.TableName]string {
		out := map[formats.TableName]string{}
		for _, vt := range v.Tables {
			out[vt.Name] = vt.Version
		}
		return out
	}
	before := versions(p.current(r))
	p.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{p.file(ref, rows(1, 1, "a"))}})
	after := versions(p.current(r))
	if before[ref.Name] == after[ref.Name] || before[items.Name] != after[items.Name] {
		t.Fatalf("before %v, after %v", before, after)
	}
	past, err := r.At(p.ctx, p.current(r), formats.Point{Checkpoint: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got := versions(past); got[ref.Name] != before[ref.Name] || got[items.Name] != before[items.Name] {
		t.Fatalf("the past has %v, had %v", got, before)
	}
	if got := versions(p.current(s.OpenReader(t))); got[ref.Name] != after[ref.Name] {
		t.Fatalf("another reader has %v", got)
	}
}

// deletesFollowReplacedFiles names rows by files that were live when they were looked up, as cuts in flight do, and
// checks what the lake says of the files that it replaced meanwhile.
func deletesFollowReplacedFiles(t *testing.T, s *Setup) {
	p := newPipeline(t, s)
	ref, a := p.table(orders, rows(0, 10, "a"))
	b := p.file(ref, rows(10, 10, "b"))
	p.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{b}})
	want := rows(0, 10, "a")
	for key, row := range rows(10, 10, "b") {
		want[key] = row
	}
	places := map[int64]place{}
	for key := range want {
		places[key] = place{a.Path, uint32(key)}
		if key >= 10 {
			places[key] = place{b.Path, uint32(key - 10)}
		}
	}
	r := s.OpenReader(t)
	for _, keys := range [][]int64{{3, 12}, {4, 0, 19}, {9}, {13, 14, 15, 16, 17, 18, 10, 11}, {1, 2}} {
		deletes := map[string]*roaring.Bitmap{}
		for _, key := range keys {
			old := place{a.Path, uint32(key)}
			if key >= 10 {
				old = place{b.Path, uint32(key - 10)}
			}
			remove(deletes, old)
			delete(want, key)
			delete(places, key)
		}
		cp := p.next(formats.TableChange{Table: ref, Deletes: deletes})
		p.addKeys(cp)
		if err := p.send(cp); err != nil {
			t.Fatal(err)
		}
		p.expect(r, p.current(r), orders, want)
		for _, w := range cp.Rewrites {
			if w.Table != ref {
				t.Fatalf("a file of %v was replaced", w.Table)
			}
			for key, at := range places {
				if at.path == w.Old {
					row, _ := w.Row(at.position)
					places[key] = place{w.New, row}
				}
			}
		}
		for key, at := range locate(t, p.lake, s.Store, ref, NewSchema()) {
			if places[key] != at {
				t.Fatalf("key %d is at %v, by what the lake told it should be at %v", key, at, places[key])
			}
		}
	}
}
