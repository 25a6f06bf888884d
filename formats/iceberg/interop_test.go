package iceberg_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/types"
)

// python finds an interpreter with PyIceberg: STREAMBED_PYTHON, else python3. Without it the test is skipped.
func python(t *testing.T) string {
	t.Helper()
	name := os.Getenv("STREAMBED_PYTHON")
	if name == "" {
		name = "python3"
	}
	if err := exec.Command(name, "-c", "import pyiceberg.catalog.sql, pyarrow").Run(); err != nil {
		t.Skipf("%s has no PyIceberg with its sql-sqlite and pyarrow extras (STREAMBED_PYTHON names another): %v", name, err)
	}
	return name
}

// pyRead is a line of testdata/read.py.
type pyRead struct {
	Table      []string
	Format     int
	Checkpoint int64
	Rows       []string
}

func (e *env) pyIceberg(python string) []pyRead {
	e.Helper()
	cmd := exec.Command(python, "testdata/read.py", "sqlite:///"+strings.TrimPrefix(e.cfg.Catalog, "sqlite://"), e.store.Warehouse())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		e.Fatalf("PyIceberg: %v\n%s", err, stderr.String())
	}
	var reads []pyRead
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var r pyRead
		if err := d.Decode(&r); err != nil {
			e.Fatal(err)
		}
		reads = append(reads, r)
	}
	return reads
}

// lines gives contents the way read.py prints rows of the simple schema, with more behind each.
func (c contents) lines(more string) []string {
	var out []string
	for id, val := range c {
		out = append(out, fmt.Sprintf("id=%d val=%s%s", id, val, more))
	}
	slices.Sort(out)
	return out
}

func TestPyIcebergReadsEverySnapshot(t *testing.T) {
	python := python(t)
	// In mode mor the rows go by position: PyIceberg reads no equality deletes.
	for _, mode := range everyMode {
		e := newEnv(t, func(cfg *iceberg.Config) { cfg.Mode, cfg.FollowsRewrites = mode, true })
		for _, name := range []formats.TableName{{Schema: "public", Table: "orders"}, {Schema: `Mixed "Case"`, Table: "a b"}} {
			first := e.number + 1
			ref := e.create(name.Schema, name.Table)
			want := map[int64][]string{first: nil}
			model := contents{}
			a, b := e.rows(ref, 0, 10, "a"), e.rows(ref, 10, 10, "b")
			e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{a, b}})
			want[e.number] = model.fill(0, 10, "a").fill(10, 10, "b").lines("")
			cp := e.next(formats.TableChange{Table: ref, Add: []formats.DataFile{e.rows(ref, 20, 2, "c")},
				Deletes: map[string]*roaring.Bitmap{a.Path: positions(0, 9), b.Path: positions(5)}})
			if err := e.send(cp); err != nil {
				t.Fatal(err)
			}
			want[e.number] = model.fill(20, 2, "c").drop(0, 9, 15).lines("")
			s := *simpleSchema()
			s.ID, s.LastFieldID = 1, 5
			more := " big=None day=None price=None"
			defaults := []string{"", "", ""}
			if mode == iceberg.DeletionVectors { // format 2 has no defaults
				more = " big=9007199254740993 day=2024-02-29 price=12.50"
				defaults = []string{"9007199254740993", "2024-02-29", "12.5"}
			}
			s.Columns = append(s.Columns, column(3, "big", kind(types.Long), defaults[0]), column(4, "day", kind(types.Date), defaults[1]),
				column(5, "price", types.Type{Kind: types.Decimal, Precision: 10, Scale: 2}, defaults[2]))
			e.commit(formats.TableChange{Table: ref, Schema: &s})
			want[e.number] = model.lines(more)
			e.commit(formats.TableChange{Table: ref, Truncate: true})
			want[e.number], want[0] = nil, nil
			seen := 0
			for _, r := range e.pyIceberg(python) {
				if !slices.Equal(r.Table, []string{name.Schema, name.Table}) {
					continue
				}
				seen++
				if rows, ok := want[r.Checkpoint]; !ok || !slices.Equal(r.Rows, rows) {
					t.Errorf("%s: PyIceberg reads %v at checkpoint %d as\n%s\nwant\n%s", mode, name, r.Checkpoint,
						strings.Join(r.Rows, "\n"), strings.Join(rows, "\n"))
				}
			}
			if seen != len(want) {
				t.Errorf("%s: PyIceberg saw %d snapshots of %v, want %d", mode, seen, name, len(want))
			}
		}
	}
}
