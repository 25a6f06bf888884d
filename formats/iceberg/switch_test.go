package iceberg_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/io"
	"github.com/streambed/streambed/formats"
	lake "github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/storage"
)

type (
	fsys          = io.IO
	manifestFiles = []iceberg.ManifestFile
)

// switching is a lake whose mode changes from start to start.
type switching struct {
	*env
	ref  formats.TableRef
	rows contents
	// at is where each row is.
	at map[int64]placed
	id int64
}

type placed struct {
	path string
	row  uint32
}

// locate finds every row by what the lake says of its files, as a key index that is rebuilt does.
func (s *switching) locate() {
	s.Helper()
	files, _, err := s.lake.Files(s.ctx, s.ref, 0)
	if err != nil {
		s.Fatal(err)
	}
	s.at = map[int64]placed{}
	for _, f := range files {
		for row, id := range s.ids(f.Path) {
			if f.Deleted != nil && f.Deleted.Contains(uint32(row)) {
				continue
			}
			if _, twice := s.at[id]; twice {
				s.Fatalf("id %d is live twice", id)
			}
			s.at[id] = placed{f.Path, uint32(row)}
		}
	}
	if len(s.at) != len(s.rows) {
		s.Fatalf("%d rows are live, want %d", len(s.at), len(s.rows))
	}
}

// work makes a few checkpoints: new rows, updates, deletes, an update superseded in its own snapshot.
func (s *switching) work() {
	s.Helper()
	mode := s.cfg.Mode
	for range 3 {
		s.locate()
		ch := formats.TableChange{Table: s.ref, Deletes: map[string]*roaring.Bitmap{}, Keyed: map[string]*roaring.Bitmap{}}
		s.id += 10
		val := fmt.Sprint("v", s.id)
		fresh := s.env.rows(s.ref, s.id, 6, val)
		ch.Add = []formats.DataFile{fresh}
		s.rows.fill(s.id, 6, val).drop(s.id + 2)
		ch.Deletes[fresh.Path] = positions(2)
		var keys []int64
		for i, id := range []int64{s.id - 10, s.id - 9, s.id - 16, s.id - 25} {
			p, ok := s.at[id]
			if !ok {
				continue
			}
			if ch.Deletes[p.path] == nil {
				ch.Deletes[p.path], ch.Keyed[p.path] = roaring.New(), roaring.New()
			}
			ch.Deletes[p.path].Add(p.row)
			if i != 3 { // one by position alone
				ch.Keyed[p.path].Add(p.row)
				keys = append(keys, id)
			}
			s.rows.drop(id)
		}
		if mode == lake.MergeOnRead && len(keys) > 0 {
			ch.Keys = []formats.KeyFile{s.keys(s.ref, keys...)}
		} else {
			ch.Keyed = nil
		}
		s.commit(ch)
	}
}

var directions = [][2]lake.Mode{{"cow", "mor"}, {"cow", "dv"}, {"mor", "cow"}, {"mor", "dv"}, {"dv", "cow"}, {"dv", "mor"}}

func newSwitching(t *testing.T, mode lake.Mode, change ...func(*lake.Config)) *switching {
	e := newEnv(t, append(change, func(cfg *lake.Config) { cfg.Mode, cfg.FollowsRewrites = mode, true })...)
	s := &switching{env: e, ref: e.create("public", "orders"), rows: contents{}}
	s.work()
	return s
}

// TestSwitchingModesKeepsEveryRow goes through all six directions and back, with deletes of every kind pending.
func TestSwitchingModesKeepsEveryRow(t *testing.T) {
	for _, d := range directions {
		t.Run(fmt.Sprintf("%s to %s", d[0], d[1]), func(t *testing.T) {
			t.Parallel()
			s := newSwitching(t, d[0])
			before := s.number
			r := s.reader()
			old := must[*formats.View](t)(r.Current(s.ctx))
			for round, mode := range []lake.Mode{d[1], d[0], d[1]} {
				s.cfg.Mode = mode
				s.open()
				s.check(s.ref.Name, s.rows)
				s.checkTotals(s.ref)
				s.locate()
				kinds := s.content(s.ref)
				version := s.stock(s.ref.Name).Metadata().Version()
				if mode == lake.CopyOnWrite && (kinds[1]+kinds[2]+kinds[3] > 0 || version != 2) ||
					mode == lake.MergeOnRead && (kinds[3] > 0 || version != 2) || mode == lake.DeletionVectors && (kinds[1]+kinds[2] > 0 || version != 3) {
					t.Errorf("round %d, mode %s: format %d with files %v", round, mode, version, kinds)
				}
				s.work()
				s.check(s.ref.Name, s.rows)
				s.checkTotals(s.ref)
				at := s.number
				s.open() // nothing is left to switch
				if s.number != at {
					t.Errorf("round %d: a second start in mode %s made checkpoint %d", round, mode, s.number)
				}
			}
			// A reader that looked before the switch still reads what it saw.
			if got := s.scan(r, old, s.ref.Name); len(got) == 0 || old.Checkpoint != before {
				t.Errorf("the view of checkpoint %d reads %v", old.Checkpoint, got)
			}
			now := must[*formats.View](t)(r.Current(s.ctx))
			past, err := r.At(s.ctx, now, formats.Point{Checkpoint: before})
			if err == nil {
				_, err = r.Plan(s.ctx, past, s.ref.Name)
			}
			if downgraded := d[0] == "dv" || d[1] == "dv"; err != nil && !(downgraded && errors.Is(err, formats.ErrExpired)) {
				t.Errorf("time travel to before the switch: %v", err)
			}
		})
	}
}

// TestSwitchingModesFailsWhole breaks each kind of access while a table is switched: the lake stays as it was, and the next
// start does it.
func TestSwitchingModesFailsWhole(t *testing.T) {
	for _, d := range directions[2:] {
		t.Run(fmt.Sprintf("%s to %s", d[0], d[1]), func(t *testing.T) {
			t.Parallel()
			var faulty *storage.Faulty
			s := newSwitching(t, d[0], func(cfg *lake.Config) {
				faulty = storage.NewFaulty(cfg.Store)
				cfg.Store = faulty
			})
			broken := 0
			for _, operation := range []storage.Operation{storage.OpOpen, storage.OpRead, storage.OpPut} {
				skips := 1
				if operation == storage.OpPut {
					skips = 4
				}
				for skip := range skips {
					l := must[*lake.Lake](t)(lake.Open(s.ctx, func() lake.Config { c := s.cfg; c.Mode = d[1]; return c }()))
					faulty.Break(&storage.Rule{Operations: []storage.Operation{operation}, Skip: skip, Times: 1})
					_, err := l.Claim(s.ctx)
					faulty.Heal()
					l.Close()
					if err == nil {
						t.Fatalf("%v: the fault was not met", operation)
					}
					if errors.Is(err, storage.ErrInjected) {
						broken++
					}
					s.check(s.ref.Name, s.rows)
				}
			}
			if broken == 0 {
				t.Error("no fault was met")
			}
			s.cfg.Mode = d[1]
			s.open()
			s.check(s.ref.Name, s.rows)
			s.work()
			s.check(s.ref.Name, s.rows)
		})
	}
}

// TestSwitchingToFormat2WritesDefaults: what format 3 says by a default stands in the files afterwards.
func TestSwitchingToFormat2WritesDefaults(t *testing.T) {
	for _, to := range []lake.Mode{lake.MergeOnRead, lake.CopyOnWrite} {
		s := newSwitching(t, lake.DeletionVectors)
		schema := *simpleSchema()
		text := "twelve"
		schema.ID, schema.LastFieldID = 1, 3
		note := schema.Columns[1]
		note.ID, note.Name, note.Attnum, note.Default = 3, "note", 3, &text
		schema.Columns = append(schema.Columns, note)
		s.commit(formats.TableChange{Table: s.ref, Schema: &schema})
		before := stockText(t, s.stock(s.ref.Name))
		s.cfg.Mode = to
		s.open()
		if got := stockText(t, s.stock(s.ref.Name)); got != before {
			t.Errorf("%s: reads\n%s\nbefore\n%s", to, got, before)
		}
		s.check(s.ref.Name, s.rows)
	}
}

// TestTableThatCannotSwitchDoesNotStopTheRest loses a file of one of two tables.
func TestTableThatCannotSwitchDoesNotStopTheRest(t *testing.T) {
	s := newSwitching(t, lake.DeletionVectors)
	lost := s.create("public", "lost")
	f := s.env.rows(lost, 0, 5, "o")
	s.commit(formats.TableChange{Table: lost, Add: []formats.DataFile{f}})
	s.commit(formats.TableChange{Table: lost, Deletes: map[string]*roaring.Bitmap{f.Path: positions(2)}})
	if err := s.store.Delete(s.ctx, f.Path); err != nil {
		t.Fatal(err)
	}
	s.cfg.Mode = lake.CopyOnWrite
	s.open()
	s.check(s.ref.Name, s.rows)
	s.work()
	s.check(s.ref.Name, s.rows)
	var own *formats.TableError
	err := s.send(s.next(formats.TableChange{Table: lost, Add: []formats.DataFile{s.env.rows(lost, 9, 1, "o")}}))
	if !errors.As(err, &own) || own.Table.ID != lost.ID || !strings.Contains(err.Error(), "resync it") {
		t.Fatalf("got %v", err)
	}
	s.commit(formats.TableChange{Table: lost, Unpublish: true})
}

// TestTablesHaveModesOfTheirOwn switches one table of a lake.
func TestTablesHaveModesOfTheirOwn(t *testing.T) {
	s := newSwitching(t, lake.DeletionVectors)
	other := s.create("public", "other")
	f := s.env.rows(other, 0, 5, "o")
	s.commit(formats.TableChange{Table: other, Add: []formats.DataFile{f}})
	s.commit(formats.TableChange{Table: other, Deletes: map[string]*roaring.Bitmap{f.Path: positions(2)}})
	s.cfg.Modes = map[formats.TableName]lake.Mode{other.Name: lake.CopyOnWrite}
	s.open()
	if v, w := s.stock(s.ref.Name).Metadata().Version(), s.stock(other.Name).Metadata().Version(); v != 3 || w != 2 {
		t.Errorf("formats %d and %d", v, w)
	}
	s.check(s.ref.Name, s.rows)
	s.check(other.Name, contents{}.fill(0, 5, "o").drop(2))
	if s.lake.DeletesByKey(s.ref.Name, simpleSchema()) {
		t.Error("keys are asked for in mode dv")
	}
}

// ids reads the ids of a stored file in order.
func (s *switching) ids(path string) (out []int64) {
	s.Helper()
	body := must[[]byte](s)(s.store.Get(s.ctx, path))
	tb := must[arrow.Table](s)(pqarrow.ReadTable(s.ctx, bytes.NewReader(body), nil, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator))
	defer tb.Release()
	for _, chunk := range tb.Column(0).Data().Chunks() {
		out = append(out, chunk.(*array.Int64).Int64Values()...)
	}
	return out
}
