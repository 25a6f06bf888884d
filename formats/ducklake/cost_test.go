package ducklake_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/conformance"
	"github.com/streambed/streambed/formats/ducklake"
)

// stretch is what some commits cost together.
type stretch struct {
	statements int64
	took       time.Duration
	catalog    int64 // bytes of the catalog's file afterwards
}

// TestCommitCostIsFlat: with retention on, a commit late in a history sends as many statements as an early one, and the
// catalog stops growing (promise 10). COMMITS sets how many are made; the times are only shown.
func TestCommitCostIsFlat(t *testing.T) {
	commits := int64(400)
	if n, err := strconv.ParseInt(os.Getenv("COMMITS"), 10, 64); err == nil {
		commits = n
	}
	now := start
	m := &maintained{}
	path := ""
	m.env = newEnv(t, func(cfg *ducklake.Config) {
		*cfg = inlining(t)
		cfg.Now = func() time.Time { return now }
		cfg.Retention = ducklake.Retention{All: 30 * time.Second, Minutely: time.Minute, Hourly: time.Minute}
		path = cfg.Catalog[len("sqlite://"):]
	})
	m.ref = m.lake.NewTable(formats.TableName{Schema: "public", Table: "busy"})
	var last formats.DataFile
	commit := func(number int64) {
		now = now.Add(time.Second)
		ch := formats.TableChange{Table: m.ref, Create: number == 0, Publish: number == 0}
		if number == 0 {
			ch.Schema = conformance.NewSchema()
		} else {
			ch.Deletes = map[string]*roaring.Bitmap{last.Path: roaring.BitmapOf(1, 2)} // may be flushed by now
		}
		last = m.file(m.ref, rows(10*number, 5, "v"))
		ch.Add = []formats.DataFile{last}
		m.commit(ch)
		for task, every := range map[formats.Task]int64{formats.Flush: 20, formats.Compact: 200} {
			if number%every != every-1 {
				continue
			}
			prepared, err := m.lake.Prepare(m.ctx, formats.Maintenance{Task: task, All: true})
			if err == nil && prepared != nil {
				_, _, err = prepared.Apply(m.ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	measure := func(from, to int64) (s stretch) {
		before, begun := m.lake.Statements(), time.Now()
		for number := from; number < to; number++ {
			commit(number)
		}
		s.statements, s.took = m.lake.Statements()-before, time.Since(begun)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		s.catalog = info.Size()
		return s
	}
	measure(0, 100)
	early := measure(100, 200)
	measure(200, commits-100)
	late := measure(commits-100, commits)
	t.Logf("commits 100 to 200: %+v; the last 100 of %d: %+v", early, commits, late)
	if late.statements > early.statements*105/100 {
		t.Errorf("100 commits sent %d statements at first and %d later", early.statements, late.statements)
	}
	if late.catalog > early.catalog*3/2 {
		t.Errorf("the catalog grew from %d to %d bytes although retention is on", early.catalog, late.catalog)
	}
}
