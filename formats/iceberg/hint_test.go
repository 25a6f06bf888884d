package iceberg_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/storage"
)

// folder is where a reader without a catalog looks for a table of the simple kind.
func (e *env) folder(name formats.TableName) string {
	return e.store.Warehouse() + "/" + name.Schema + "/" + name.Table
}

// damaged is a hint that a test leaves without a copy.
const damaged = 77

// hinted reads a table's hint and the metadata beside it, as a reader that knows the folder alone.
func (e *env) hinted(name formats.TableName) (number int64, rows int64) {
	e.Helper()
	body, err := e.store.Get(e.ctx, e.folder(name)+"/metadata/version-hint.text")
	if errors.Is(err, storage.ErrNotFound) {
		return 0, 0
	}
	if err != nil {
		e.Fatal(err)
	}
	if number, err = strconv.ParseInt(string(body), 10, 64); err != nil || number == damaged {
		return 0, 0
	}
	var metadata struct {
		Current   int64 `json:"current-snapshot-id"`
		Snapshots []struct {
			ID      int64             `json:"snapshot-id"`
			Summary map[string]string `json:"summary"`
		} `json:"snapshots"`
	}
	text := must[[]byte](e)(e.store.Get(e.ctx, fmt.Sprintf("%s/metadata/v%d.metadata.json", e.folder(name), number)))
	if err := json.Unmarshal(text, &metadata); err != nil {
		e.Fatal(err)
	}
	for _, s := range metadata.Snapshots {
		if s.ID == metadata.Current {
			rows = must[int64](e)(strconv.ParseInt(s.Summary["total-records"], 10, 64))
		}
	}
	return number, rows
}

func (e *env) awaitHint(name formats.TableName, number, rows int64) {
	e.Helper()
	var shown, held int64
	eventually(e, fmt.Sprintf("the hint of %v shows checkpoint %d with %d rows", name, number, rows), func() bool {
		shown, held = e.hinted(name)
		return shown == number && held == rows
	})
}

func withHints(cfg *iceberg.Config) { cfg.Hints = true }

func TestVersionHintFollowsTheTableAndIsRepaired(t *testing.T) {
	e := newEnv(t, withHints)
	ref := e.create("public", "orders")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{e.rows(ref, 0, 10, "a")}})
	e.awaitHint(ref.Name, e.number, 10)

	// A resync puts another incarnation in the table's place: the folder and the order of numbers stay.
	fresh := e.lake.NewTable(ref.Name)
	e.commit(formats.TableChange{Table: fresh, Create: true, Schema: simpleSchema()})
	e.commit(formats.TableChange{Table: fresh, Add: []formats.DataFile{e.rows(fresh, 0, 7, "b")}, Publish: true})
	e.awaitHint(ref.Name, e.number, 7)

	// Killed after the swap and before the hint, and the hint damaged: the next start mends both.
	number := e.number
	if err := e.lake.Close(); err != nil {
		t.Fatal(err)
	}
	uri := e.folder(ref.Name) + "/metadata/version-hint.text"
	for _, text := range []string{"", strconv.Itoa(damaged)} {
		if err := e.store.Put(e.ctx, uri, []byte(text)); err != nil {
			t.Fatal(err)
		}
		e.open()
		e.awaitHint(ref.Name, number, 7)
		e.lake.Close()
	}

	e.open()
	e.commit(formats.TableChange{Table: fresh, Unpublish: true})
	eventually(t, "the hint and its copies are gone", func() bool {
		left := 0
		must[int](t)(0, e.store.List(e.ctx, e.folder(ref.Name)+"/metadata/", func(storage.Info) error { left++; return nil }))
		return left == 0
	})
}

func TestVersionHintNeverShowsWhatWasNotCommitted(t *testing.T) {
	var faulty *storage.Faulty
	e := newEnv(t, withHints, func(cfg *iceberg.Config) {
		faulty = storage.NewFaulty(cfg.Store)
		cfg.Store = faulty
	})
	ref := e.create("public", "orders")
	e.awaitHint(ref.Name, e.number, 0)
	shown := e.number
	f := e.rows(ref, 0, 10, "a")
	// The copy's put fails once: the commit does not, and the hint is behind, never ahead, until it has been tried again.
	rule := &storage.Rule{Operations: []storage.Operation{storage.OpPut}, Contains: "/orders/metadata/v", Times: 1}
	faulty.Break(rule)
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{f}})
	eventually(t, "the copy's put has failed", func() bool {
		if number, _ := e.hinted(ref.Name); faulty.Hits(rule) == 0 && number != shown {
			t.Fatalf("the hint shows %d before its copy was put", number)
		}
		return faulty.Hits(rule) > 0
	})
	e.awaitHint(ref.Name, e.number, 10)
}

// TestPyIcebergReadsATableByItsFolder reads with the hint alone, without a catalog.
func TestPyIcebergReadsATableByItsFolder(t *testing.T) {
	python := python(t)
	e := newEnv(t, withHints, func(cfg *iceberg.Config) { cfg.Mode, cfg.FollowsRewrites = iceberg.CopyOnWrite, true })
	ref := e.create("public", "orders")
	f := e.rows(ref, 0, 5, "a")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{f}})
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{e.rows(ref, 5, 2, "b")}})
	e.awaitHint(ref.Name, e.number, 7)
	const script = `import sys
from pyiceberg.table import StaticTable
t = StaticTable.from_metadata(sys.argv[1])
print(*sorted(f"{r['id']}={r['val']}" for r in t.scan().to_arrow().to_pylist()))`
	out, err := exec.Command(python, "-c", script, e.folder(ref.Name)).CombinedOutput()
	want := strings.Fields("0=a 1=a 2=a 3=a 4=a 5=b 6=b")
	if lines := strings.Split(strings.TrimSpace(string(out)), "\n"); err != nil || !slices.Equal(strings.Fields(lines[len(lines)-1]), want) {
		t.Fatalf("PyIceberg: %v\n%s", err, out)
	}
}
