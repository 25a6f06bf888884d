package ducklake_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/conformance"
	"github.com/streambed/streambed/formats/ducklake"
	"github.com/streambed/streambed/formats/storage"
)

// pair is two tables that every checkpoint changes together.
type pair struct {
	*env
	refs  [2]formats.TableRef
	files [2]formats.DataFile
	rows  conformance.Rows // of each
}

func (e *env) file(ref formats.TableRef, rows conformance.Rows) formats.DataFile {
	return conformance.WriteFile(e, e.cfg.Store, ref, conformance.NewSchema(), rows)
}

// rows makes rows with keys [from, from+n) and one value.
func rows(from, n int64, value string) conformance.Rows {
	out := conformance.Rows{}
	for key := from; key < from+n; key++ {
		out[key] = conformance.Row{2: value}
	}
	return out
}

func newPair(e *env) *pair {
	p := &pair{env: e, rows: rows(0, 10, "a")}
	var changes []formats.TableChange
	for i, name := range []string{"one", "two"} {
		p.refs[i] = e.lake.NewTable(formats.TableName{Schema: "public", Table: name})
		p.files[i] = e.file(p.refs[i], p.rows)
		changes = append(changes, formats.TableChange{Table: p.refs[i], Create: true, Publish: true, Schema: conformance.NewSchema(),
			Add: []formats.DataFile{p.files[i]}})
	}
	e.commit(changes...)
	return p
}

// step makes a checkpoint that adds a row to each table and deletes one, and what they hold after it.
func (p *pair) step(key int64) (*formats.Checkpoint, conformance.Rows) {
	after := conformance.Rows{}
	for k, row := range p.rows {
		after[k] = row
	}
	after[key] = conformance.Row{2: "b"}
	delete(after, key%10)
	var changes []formats.TableChange
	for i, ref := range p.refs {
		changes = append(changes, formats.TableChange{Table: ref, Add: []formats.DataFile{p.file(ref, rows(key, 1, "b"))},
			Deletes: map[string]*roaring.Bitmap{p.files[i].Path: roaring.BitmapOf(uint32(key % 10))}})
	}
	return p.next(changes...), after
}

// verify reads both tables and the state, which must be that of checkpoint n.
func (p *pair) verify(n int64) {
	p.Helper()
	r, err := ducklake.OpenReader(p.ctx, p.cfg)
	if err != nil {
		p.Fatal(err)
	}
	defer r.Close()
	view, err := r.Current(p.ctx)
	if err != nil {
		p.Fatal(err)
	}
	if view.Checkpoint != n {
		p.Fatalf("the lake is at checkpoint %d, want %d", view.Checkpoint, n)
	}
	for _, ref := range p.refs {
		got, schema := conformance.Read(p, r, p.cfg.Store, view, ref.Name)
		if g, w := render(got, schema), render(p.rows, schema); g != w {
			p.Fatalf("%v at checkpoint %d reads\n%swant\n%s", ref.Name, n, g, w)
		}
	}
}

func TestFailureOfAnySinglePutMovesNothing(t *testing.T) {
	var faulty *storage.Faulty
	p := newPair(newEnv(t, func(cfg *ducklake.Config) {
		faulty = storage.NewFaulty(cfg.Store)
		cfg.Store = faulty
	}))
	for i, lost := range []bool{false, true} {
		cp, after := p.step(int64(10 + i))
		rule := &storage.Rule{Operations: []storage.Operation{storage.OpPut}, Contains: "/deletes/", Skip: 1, Times: 1, Done: lost}
		faulty.Break(rule)
		if err := p.send(cp); !errors.Is(err, storage.ErrInjected) || faulty.Hits(rule) != 1 {
			t.Fatalf("lost %v: %v after %d hits", lost, err, faulty.Hits(rule))
		}
		faulty.Heal()
		p.verify(cp.Number - 1)
		if err := p.send(cp); err != nil { // the very same checkpoint
			t.Fatal(err)
		}
		p.rows = after
		p.verify(cp.Number)
	}
}

func TestFailureAtEachPointIsAllOrNothing(t *testing.T) {
	var fail string
	injected := errors.New("injected")
	p := newPair(newEnv(t, func(cfg *ducklake.Config) {
		cfg.Failpoint = func(point string) error {
			if point == fail {
				fail = ""
				return injected
			}
			return nil
		}
	}))
	key := int64(10)
	for _, point := range []string{ducklake.FilesPut, ducklake.SwapSent} {
		cp, after := p.step(key)
		fail = point
		if err := p.send(cp); !errors.Is(err, injected) {
			t.Fatalf("%s: %v", point, err)
		}
		p.verify(cp.Number - 1)
		if err := p.send(cp); err != nil {
			t.Fatalf("%s, again: %v", point, err)
		}
		p.rows = after
		p.verify(cp.Number)
		key++
	}
	// The COMMIT was made and its answer lost: found out by the attempt's uuid, and not made twice.
	cp, after := p.step(key)
	fail = ducklake.SwapDone
	if err := p.send(cp); err != nil {
		t.Fatal(err)
	}
	p.rows = after
	p.verify(cp.Number)
	cp, p.rows = p.step(key + 1)
	if err := p.send(cp); err != nil {
		t.Fatal(err)
	}
	p.verify(cp.Number)
}

// TestUnresolvedCommitIsNeverGuessed loses the answer of a COMMIT and then the way to ask for it.
func TestUnresolvedCommitIsNeverGuessed(t *testing.T) {
	for _, claimed := range []bool{false, true} {
		fail := false
		var blocker *sql.Conn
		p := newPair(newEnv(t, func(cfg *ducklake.Config) {
			cfg.Failpoint = func(point string) error {
				if point != ducklake.SwapDone || !fail {
					return nil
				}
				fail = false
				// From now on the catalog is locked by somebody else.
				db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(cfg.Catalog, "sqlite://"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { db.Close() })
				if blocker, err = db.Conn(context.Background()); err == nil {
					_, err = blocker.ExecContext(context.Background(), "BEGIN IMMEDIATE")
				}
				if err != nil {
					t.Fatal(err)
				}
				return errors.New("connection lost")
			}
		}))
		cp, after := p.step(10)
		fail = true
		patient := ducklake.SetResolveTime(50 * time.Millisecond)
		err := p.send(cp)
		patient()
		if err == nil || !strings.Contains(err.Error(), "find out") {
			t.Fatalf("got %v", err)
		}
		if claimed { // another writer has taken over and moved on meanwhile
			if _, err := blocker.ExecContext(p.ctx, `UPDATE streambed_state SET epoch = epoch + 1, attempt = 'theirs'`); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := blocker.ExecContext(p.ctx, "COMMIT"); err != nil {
			t.Fatal(err)
		}
		err = p.send(cp) // the same checkpoint again
		if claimed {
			if !errors.Is(err, formats.ErrFenced) {
				t.Fatalf("got %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		p.rows = after
		p.verify(cp.Number)
		cp, p.rows = p.step(11)
		if err := p.send(cp); err != nil {
			t.Fatal(err)
		}
		p.verify(cp.Number)
	}
}

// TestOneLiveDeleteFilePerDataFile holds after any number of checkpoints: two would double rows in DuckDB.
func TestOneLiveDeleteFilePerDataFile(t *testing.T) {
	p := newPair(newEnv(t))
	for key := int64(10); key < 16; key++ {
		cp, after := p.step(key)
		if err := p.send(cp); err != nil {
			t.Fatal(err)
		}
		p.rows = after
		if key == 12 {
			p.open() // from the catalog and the store again
		}
	}
	db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(p.cfg.Catalog, "sqlite://"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var files, live, positions int
	err = db.QueryRow(`SELECT count(*), count(DISTINCT data_file_id), sum(delete_count) FROM ducklake_delete_file WHERE end_snapshot IS NULL`).
		Scan(&live, &files, &positions)
	if err != nil || live != 2 || files != 2 || positions != 12 {
		t.Fatalf("%d live delete files with %d positions of %d data files: %v", live, positions, files, err)
	}
	var info string
	if err := db.QueryRow(`SELECT commit_extra_info FROM ducklake_snapshot_changes ORDER BY snapshot_id DESC LIMIT 1`).Scan(&info); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{fmt.Sprintf(`"streambed.lsn":"%s"`, p.at), `"streambed.checkpoint":"7"`, `"streambed.commit-time":"2026-03-01T12:00:07Z"`} {
		if !strings.Contains(info, want) {
			t.Errorf("commit_extra_info %s lacks %s", info, want)
		}
	}
	p.verify(7)
}
