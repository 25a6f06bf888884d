package iceberg_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/test/postgres"
)

// loseCatalog removes the catalog as a lost disk would, or puts a copy of it back.
func (e *env) loseCatalog(copied map[string][]byte) {
	e.Helper()
	if err := e.lake.Close(); err != nil {
		e.Fatal(err)
	}
	path := strings.TrimPrefix(e.cfg.Catalog, "sqlite://")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(path + suffix)
		if body := copied[suffix]; body != nil {
			if err := os.WriteFile(path+suffix, body, 0o600); err != nil {
				e.Fatal(err)
			}
		}
	}
}

// copyCatalog copies the catalog's files, as a backup would.
func (e *env) copyCatalog() map[string][]byte {
	e.Helper()
	if err := e.lake.Close(); err != nil {
		e.Fatal(err)
	}
	out := map[string][]byte{}
	for _, suffix := range []string{"", "-wal"} {
		if body, err := os.ReadFile(strings.TrimPrefix(e.cfg.Catalog, "sqlite://") + suffix); err == nil {
			out[suffix] = body
		}
	}
	e.open()
	return out
}

// refused proves that a lake whose catalog is lost does not begin anew, and that the refusal changes nothing.
func (e *env) refused() {
	e.Helper()
	for range 2 {
		lake := must[*iceberg.Lake](e)(iceberg.Open(e.ctx, e.cfg))
		if _, err := lake.Claim(e.ctx); !errors.Is(err, formats.ErrCatalogLost) || !strings.Contains(err.Error(), "streambedd recover") {
			e.Fatalf("claiming with a lost catalog: %v, want ErrCatalogLost with its remedy", err)
		}
		lake.Close()
	}
}

// recover makes the catalog anew and opens the lake on it.
func (e *env) recover() *iceberg.Recovery {
	e.Helper()
	r := must[*iceberg.Recovery](e)(iceberg.Recover(e.ctx, e.cfg))
	if _, err := iceberg.Recover(e.ctx, e.cfg); !errors.Is(err, iceberg.ErrNothingLost) {
		e.Fatalf("recovering again: %v, want ErrNothingLost", err)
	}
	e.open()
	return r
}

func TestLostCatalogIsRecoveredWithItsHistory(t *testing.T) {
	p := newPair(newEnv(t))
	past := []map[string]contents{p.rows}
	for from := int64(10); from < 14; from++ {
		cp, after := p.step(from)
		if err := p.send(cp); err != nil {
			t.Fatal(err)
		}
		p.rows = after
		past = append(past, after)
	}
	want := must[*formats.View](t)(p.reader().Current(p.ctx))
	p.loseCatalog(nil)
	p.refused()
	r := p.recover()
	if r.State.Position != want.Position || r.State.Checkpoint != want.Checkpoint || !r.State.CommitTime.Equal(want.CommitTime) || r.Dropped || len(r.Tables) != 2 {
		t.Fatalf("recovered %+v, want position %s and checkpoint %d", r, want.Position, want.Checkpoint)
	}
	p.verify(want.Checkpoint)
	reader := p.reader()
	for i, rows := range past {
		at := formats.Point{Checkpoint: want.Checkpoint - int64(len(past)-1-i)}
		view := must[*formats.View](t)(reader.At(p.ctx, must[*formats.View](t)(reader.Current(p.ctx)), at))
		equal(t, p.scan(reader, view, p.one.Name), rows[p.one.ID])
		equal(t, p.scan(reader, view, p.two.Name), rows[p.two.ID])
	}
	cp, after := p.step(20)
	if err := p.send(cp); err != nil {
		t.Fatal(err)
	}
	p.rows = after
	p.verify(want.Checkpoint + 1)
}

func TestRecoverTakesBackACheckpointThatOnlySomeTablesHold(t *testing.T) {
	for _, kind := range []string{"half", "whole"} {
		t.Run(kind, func(t *testing.T) {
			var faulty *storage.Faulty
			point := ""
			p := newPair(newEnv(t, func(cfg *iceberg.Config) {
				faulty = storage.NewFaulty(cfg.Store)
				cfg.Store = faulty
				cfg.Failpoint = func(at string) error {
					if at == point {
						return errors.New("killed")
					}
					return nil
				}
			}))
			cp, after := p.step(10)
			want := cp.Number - 1
			if kind == "half" {
				faulty.Break(&storage.Rule{Operations: []storage.Operation{storage.OpPut}, Contains: ".metadata.json", Skip: 1, Times: 1})
			} else {
				point = iceberg.MetadataPut // all is stored, the swap is not made
				p.rows, want = after, cp.Number
			}
			if err := p.send(cp); err == nil {
				t.Fatal("the commit did not fail")
			}
			faulty.Heal()
			point = ""
			p.loseCatalog(nil)
			p.refused()
			if r := p.recover(); r.State.Checkpoint != want || r.Dropped != (kind == "half") {
				t.Fatalf("recovered checkpoint %d (dropped %t), want %d", r.State.Checkpoint, r.Dropped, want)
			}
			p.verify(want)
			cp, after = p.step(11)
			if err := p.send(cp); err != nil {
				t.Fatal(err)
			}
			p.rows = after
			p.verify(want + 1)
		})
	}
}

// TestAbandonedAttemptIsNotTakenForACommittedOne: an attempt's files are all stored, it fails for sure, and another one
// with other content takes its number before the catalog is lost.
func TestAbandonedAttemptIsNotTakenForACommittedOne(t *testing.T) {
	for _, restart := range []bool{false, true} {
		point := ""
		p := newPair(newEnv(t, func(cfg *iceberg.Config) {
			cfg.Failpoint = func(at string) error {
				if at == point {
					return errors.New("the catalog is away")
				}
				return nil
			}
		}))
		cp, _ := p.step(10)
		point = iceberg.SwapSent
		if err := p.send(cp); err == nil {
			t.Fatal("the commit did not fail")
		}
		point = ""
		if restart {
			p.open()
		}
		// Only one of the tables changes now: the other must stay as it was before the failed attempt.
		f := p.env.rows(p.one, 30, 1, "c")
		p.commit(formats.TableChange{Table: p.one, Add: []formats.DataFile{f}})
		p.rows[p.one.ID].fill(30, 1, "c")
		number := p.number
		p.loseCatalog(nil)
		if r := p.recover(); r.State.Checkpoint != number {
			t.Fatalf("recovered checkpoint %d, want %d", r.State.Checkpoint, number)
		}
		p.verify(number)
	}
}

func TestRecoverKnowsMarksAndPositionsThatNoMetadataTells(t *testing.T) {
	p := newPair(newEnv(t))
	identity := formats.Identity{SystemIdentifier: "77", Timeline: 3, DatabaseOID: 5}
	if err := p.lake.SetIdentity(p.ctx, identity); err != nil {
		t.Fatal(err)
	}
	aside := formats.TableState{Table: p.two, Phase: formats.Live, OID: 4711, Schema: *simpleSchema(), Publication: "shop", SetAside: "its values do not fit"}
	cp := p.next()
	cp.States = []formats.TableState{aside}
	if err := p.send(cp); err != nil {
		t.Fatal(err)
	}
	f := p.env.rows(p.one, 30, 1, "c")
	p.commit(formats.TableChange{Table: p.one, Add: []formats.DataFile{f}})
	p.rows[p.one.ID].fill(30, 1, "c")
	copying := p.lake.NewTable(formats.TableName{Schema: "public", Table: "fresh"})
	p.commit(formats.TableChange{Table: copying, Create: true, Schema: simpleSchema()})
	p.commit() // moves the position alone
	number, at := p.number, p.at
	p.loseCatalog(nil)
	r := p.recover()
	if r.State.Position != at || r.State.Checkpoint != number || r.State.Identity != identity {
		t.Fatalf("recovered %s, checkpoint %d, %+v; want %s and %d", r.State.Position, r.State.Checkpoint, r.State.Identity, at, number)
	}
	if len(r.State.Tables) != 2 {
		t.Errorf("%d tables came back, want 2: the copy under way begins anew", len(r.State.Tables))
	}
	i := slices.IndexFunc(r.State.Tables, func(s formats.TableState) bool { return s.Table.ID == p.two.ID })
	if got := r.State.Tables[i]; got.SetAside != aside.SetAside || got.OID != aside.OID || got.Publication != aside.Publication {
		t.Errorf("the state of a table set aside came back as %+v", got)
	}
	p.verify(number)
}

func TestOldCopyOfTheCatalogIsRefusedAndRecovered(t *testing.T) {
	p := newPair(newEnv(t))
	old := p.copyCatalog()
	cp, after := p.step(10)
	if err := p.send(cp); err != nil {
		t.Fatal(err)
	}
	p.rows = after
	p.commit(formats.TableChange{Table: p.two, Unpublish: true})
	p.loseCatalog(old)
	p.refused()
	p.recover()
	if got := len(must[*formats.View](t)(p.reader().Current(p.ctx)).Tables); got != 1 {
		t.Errorf("%d tables are visible, want 1", got)
	}
	p.check(p.one.Name, p.rows[p.one.ID])
}

func TestMissingDataFileSetsItsTableAside(t *testing.T) {
	p := newPair(newEnv(t))
	p.loseCatalog(nil)
	if err := p.store.Delete(p.ctx, p.files[p.two.ID].Path); err != nil {
		t.Fatal(err)
	}
	r := p.recover()
	for _, table := range r.Tables {
		if damaged := table.Name == p.two.Name; damaged != (table.Damage != "") {
			t.Errorf("table %v: damage %q", table.Name, table.Damage)
		}
	}
	p.check(p.one.Name, p.rows[p.one.ID])
}

// TestRecoverAfterEachCommitOfALongHistory: whatever the last commit was, what comes back is what was there.
func TestRecoverAfterEachCommitOfALongHistory(t *testing.T) {
	p := newPair(newEnv(t, func(cfg *iceberg.Config) { cfg.Retention.Max = 3 }))
	for from := int64(10); from < 19; from++ {
		cp, after := p.step(from)
		if from%3 == 0 {
			cp.Changes = cp.Changes[:1]
			after[p.two.ID] = p.rows[p.two.ID]
		}
		if err := p.send(cp); err != nil {
			t.Fatal(err)
		}
		p.rows = after
		if from%2 == 0 {
			continue
		}
		before := must[*formats.View](t)(p.reader().Current(p.ctx))
		p.loseCatalog(nil)
		if r := p.recover(); r.State.Checkpoint != before.Checkpoint || r.State.Position != before.Position {
			t.Fatalf("recovered checkpoint %d at %s, want %d at %s", r.State.Checkpoint, r.State.Position, before.Checkpoint, before.Position)
		}
		p.verify(before.Checkpoint)
	}
}

func TestLostPostgresCatalogIsRecovered(t *testing.T) {
	database := postgres.ForTest(t).Database(t)
	p := newPair(newEnv(t, func(cfg *iceberg.Config) { cfg.Catalog = database.URL() }))
	number := p.number
	p.lake.Close()
	database.Exec(t, "drop table iceberg_tables, iceberg_namespace_properties, streambed_state, streambed_tables, streambed_checkpoints")
	p.refused()
	if r := p.recover(); r.State.Checkpoint != number {
		t.Fatalf("recovered checkpoint %d, want %d", r.State.Checkpoint, number)
	}
	reader := p.reader()
	view := must[*formats.View](t)(reader.Current(p.ctx))
	for _, ref := range []formats.TableRef{p.one, p.two} {
		equal(t, p.scan(reader, view, ref.Name), p.rows[ref.ID])
	}
}
