package iceberg_test

import (
	"errors"
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/lsn"
)

var recoverSeeds = flag.Int("recover-seeds", 6, "random histories of commits, failures and lost catalogs")

// chaos is a pair of tables whose commits fail at random points and whose catalog is lost at random moments.
type chaos struct {
	*pair
	random *rand.Rand
	faulty *storage.Faulty
	point  string
	next   int64
	// places are the file of every row ever added, in which it is the first.
	places map[int64]string
	// after is what the tables hold once the newest change is committed.
	after map[string]contents
	// unsure is what the tables hold if the last attempt, whose failure we saw, turns out to be stored whole; nil without.
	unsure   map[string]contents
	unsureAt lsn.LSN
}

// TestRecoverFromAnyHistoryGivesOneCheckpointOfAllTables: whatever failed before the catalog is lost, what comes back is
// the state of one attempt for both tables: the last that was answered, or one behind it that is stored whole; and never a
// position that is behind what was answered (promises 1 to 3).
func TestRecoverFromAnyHistoryGivesOneCheckpointOfAllTables(t *testing.T) {
	for seed := range uint64(*recoverSeeds) {
		c := &chaos{random: rand.New(rand.NewPCG(seed, 5)), next: 1000, places: map[int64]string{}}
		c.pair = newPair(newEnv(t, func(cfg *iceberg.Config) {
			c.faulty = storage.NewFaulty(cfg.Store)
			cfg.Store = c.faulty
			cfg.Retention.Max = 5
			cfg.Failpoint = func(at string) error {
				if at == c.point {
					return errors.New("killed")
				}
				return nil
			}
		}))
		for step := range 25 {
			switch c.random.IntN(8) {
			case 0:
				c.lost(seed, step)
			case 1:
				c.fail()
			case 2:
				c.open()
				c.unsure = nil
			default:
				if err := c.send(c.change()); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
				c.rows, c.unsure = c.after, nil
			}
		}
		c.lost(seed, -1)
	}
}

// change makes a checkpoint that changes one of the tables or both, marks one as set aside, or moves the position alone.
func (c *chaos) change() *formats.Checkpoint {
	c.Helper()
	c.after = maps.Clone(c.rows)
	var changes []formats.TableChange
	for _, ref := range []formats.TableRef{c.one, c.two} {
		if c.random.IntN(3) == 0 {
			continue
		}
		ch := formats.TableChange{Table: ref, Add: []formats.DataFile{c.env.rows(ref, c.next, 2, "r")}}
		after := contents{}.with(c.rows[ref.ID]).fill(c.next, 2, "r")
		// Rows of the table's own files that are still there.
		held := slices.DeleteFunc(slices.Sorted(maps.Keys(c.rows[ref.ID])), func(id int64) bool { return c.places[id] == "" })
		if len(held) > 0 && c.random.IntN(2) == 0 {
			id := held[c.random.IntN(len(held))]
			ch.Deletes = map[string]*roaring.Bitmap{c.places[id]: positions(0)}
			after.drop(id)
		}
		c.places[c.next] = ch.Add[0].Path
		c.next += 2
		c.after[ref.ID] = after
		changes = append(changes, ch)
	}
	cp := c.pair.next(changes...)
	if c.random.IntN(6) == 0 {
		cp.States = []formats.TableState{{Table: c.two, Phase: formats.Live, OID: uint32(c.number), Schema: *simpleSchema()}}
	}
	return cp
}

// fail makes a commit fail at a random point, and with luck stores all of it nevertheless.
func (c *chaos) fail() {
	c.Helper()
	cp := c.change()
	if c.random.IntN(2) == 0 {
		c.faulty.Break(&storage.Rule{Operations: []storage.Operation{storage.OpPut}, Contains: "/metadata/", Skip: c.random.IntN(5), Times: 1, Done: c.random.IntN(2) == 0})
	} else {
		c.point = []string{iceberg.FilesPut, iceberg.MetadataPut, iceberg.SwapSent}[c.random.IntN(3)]
	}
	err := c.send(cp)
	c.faulty.Heal()
	c.point = ""
	if err == nil { // nothing was in the way
		c.rows, c.unsure = c.after, nil
		return
	}
	c.unsure, c.unsureAt = c.after, cp.To
}

// lost loses the catalog, recovers it and compares.
func (c *chaos) lost(seed uint64, step int) {
	c.Helper()
	answered, at := c.number, c.at
	c.loseCatalog(nil)
	r := must[*iceberg.Recovery](c)(iceberg.Recover(c.ctx, c.cfg))
	switch {
	case r.State.Checkpoint == answered && r.State.Position == at:
	case c.unsure != nil && r.State.Checkpoint == answered+1 && r.State.Position == c.unsureAt:
		c.rows = c.unsure
	default:
		c.Fatalf("seed %d, step %d: recovered checkpoint %d at %s, want %d at %s", seed, step, r.State.Checkpoint, r.State.Position, answered, at)
	}
	c.unsure = nil
	c.open()
	reader := c.reader()
	view := must[*formats.View](c)(reader.Current(c.ctx))
	for _, ref := range []formats.TableRef{c.one, c.two} {
		if got := c.scan(reader, view, ref.Name); !maps.Equal(got, c.rows[ref.ID]) {
			c.Fatalf("seed %d, step %d: table %s holds %s, want %s", seed, step, ref.Name.Table, got, c.rows[ref.ID])
		}
	}
}
