package keyindex

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// entry is one entry of the model.
type entry struct {
	key string
	Position
}

// modelChange is a change as the model has it: what it says of each entry, beneath it everything or nothing.
type modelChange struct {
	cleared bool
	facts   map[entry]bool
	change  *Change
}

func (m *modelChange) put(e entry) {
	m.facts[e] = true
	m.change.Put([]byte(e.key), e.Position)
}

func (m *modelChange) remove(e entry) {
	m.facts[e] = false
	m.change.Remove([]byte(e.key), e.Position)
}

func (m *modelChange) clear() {
	m.cleared, m.facts = true, map[entry]bool{}
	m.change.Clear()
}

func (m *modelChange) over(below map[entry]bool) map[entry]bool {
	if m.cleared {
		below = map[entry]bool{}
	}
	below = maps.Clone(below)
	for e, present := range m.facts {
		if present {
			below[e] = true
		} else {
			delete(below, e)
		}
	}
	return below
}

// model is a table of the index, in maps.
type model struct {
	t        *testing.T
	table    *Table
	durable  map[entry]bool
	staged   []*modelChange
	building *modelChange
	sequence int64
	known    bool
	// burst is how many entries are put, or removed, at a time.
	burst int
}

func newModel(t *testing.T, table *Table) *model {
	m := &model{t: t, table: table, durable: map[entry]bool{}, burst: 1}
	if table.index.options.PendingBytes == 1 {
		m.burst = 40 // enough for changes to be spilled, and more than once
	}
	m.begin()
	return m
}

func (m *model) begin() {
	m.building = &modelChange{facts: map[entry]bool{}, change: m.table.NewChange()}
}

func (m *model) visible() map[entry]bool {
	all := m.durable
	for _, c := range m.staged {
		all = c.over(all)
	}
	return all
}

// found sorts a set of entries by key.
func found(all map[entry]bool) map[string][]Position {
	byKey := map[string][]Position{}
	for e := range all {
		byKey[e.key] = append(byKey[e.key], e.Position)
	}
	for _, p := range byKey {
		slices.SortFunc(p, Position.compare)
	}
	return byKey
}

// check compares the lookups of all keys, or of a sample, with the model.
func (m *model) check(keys [][]byte) {
	m.t.Helper()
	lookups := []struct {
		name string
		want map[entry]bool
		do   func(f func(i int, p Position)) error
	}{
		{"lookup", m.visible(), func(f func(int, Position)) error { return m.table.Lookup(keys, f) }},
		{"committed", m.durable, func(f func(int, Position)) error { return m.table.Committed(keys, f) }},
		{"scan", m.building.over(m.visible()), func(f func(int, Position)) error {
			return m.table.Scan(m.building.change, keys, func(i int, p Position) bool { f(i, p); return true })
		}},
	}
	for _, l := range lookups {
		sameLookup(m.t, l.name, keys, found(l.want), l.do)
	}
	sequence, known, err := m.table.Sequence()
	require.NoError(m.t, err)
	require.Equal(m.t, m.known, known)
	if known {
		require.Equal(m.t, m.sequence, sequence)
	}
}

func sameLookup(t *testing.T, name string, keys [][]byte, want map[string][]Position, do func(f func(i int, p Position)) error) {
	t.Helper()
	got := map[string][]Position{}
	last := 0
	require.NoError(t, do(func(i int, p Position) {
		if i < last {
			t.Fatal("keys out of order")
		}
		last = i
		got[string(keys[i])] = append(got[string(keys[i])], p)
	}))
	for _, key := range keys {
		if w, g := want[string(key)], got[string(key)]; !slices.Equal(w, g) {
			t.Fatalf("%s of key %.40q gives %v, want %v", name, key, g, w)
		}
	}
}

// randomKeys makes distinct keys, sorted: of many lengths, some the beginning of others, some long.
func randomKeys(r *rand.Rand, n int) [][]byte {
	set := map[string]bool{}
	for len(set) < n {
		b := make([]byte, r.IntN(6))
		for i := range b {
			b[i] = byte(r.IntN(3)) * 127
		}
		key := append(b, fmt.Sprint(r.IntN(n))...)
		switch r.IntN(20) {
		case 0:
			key = bytes.Repeat(key, LongKey/len(key)+r.IntN(3)) // around the length that is kept whole
		case 1: // what an entry of a shorter key looks like
			key = appendPosition(key, Position{File: uint64(r.IntN(3)), Row: uint32(r.IntN(3))})
		case 2:
			key = key[:r.IntN(len(key))]
		}
		set[string(key)] = true
	}
	keys := make([][]byte, 0, n)
	for _, k := range slices.Sorted(maps.Keys(set)) {
		keys = append(keys, []byte(k))
	}
	return keys
}

func randomPosition(r *rand.Rand) Position {
	files := []uint64{0, 1, 2, 1<<64 - 1, FileID("a"), FileID("b")}
	rows := []uint32{0, 1, 1<<32 - 1, uint32(r.IntN(4))}
	return Position{File: files[r.IntN(len(files))], Row: rows[r.IntN(len(rows))]}
}

// step does one random thing to the table and the model.
func (m *model) step(r *rand.Rand, keys [][]byte) {
	random := func() entry { return entry{string(keys[r.IntN(len(keys))]), randomPosition(r)} }
	switch n := r.IntN(1000); {
	case n < 500:
		for range m.burst {
			m.building.put(random())
		}
	case n < 800:
		for range m.burst {
			m.building.remove(random())
		}
	case n < 805:
		m.building.clear()
	case n < 870:
		m.table.Stage(m.building.change)
		m.staged = append(m.staged, m.building)
		m.begin()
	case n < 935:
		if len(m.staged) == 0 {
			return
		}
		m.sequence, m.known = m.sequence+1+int64(r.IntN(3)), true
		require.NoError(m.t, m.table.Commit(m.staged[0].change, m.sequence))
		m.durable = m.staged[0].over(m.durable)
		m.staged = m.staged[1:]
	case n < 950:
		e := NewEntries()
		m.durable = maps.Clone(m.durable)
		for range r.IntN(300) {
			a := random()
			e.Add([]byte(a.key), a.Position)
			m.durable[a] = true
		}
		require.NoError(m.t, m.table.Ingest(e))
	case n < 953:
		m.table.Abandon()
		m.staged = nil
	case n < 955:
		m.sequence, m.known = int64(r.IntN(10)), true
		require.NoError(m.t, m.table.Reset(m.sequence))
		m.durable, m.staged = map[entry]bool{}, nil
	case n < 956:
		require.NoError(m.t, m.table.Forget())
		m.durable, m.staged, m.known = map[entry]bool{}, nil, false
	case n < 957:
		m.sequence, m.known = 5, true
		require.NoError(m.t, m.table.SetSequence(5))
	case n < 965:
		m.compact(r)
	case n < 970:
		m.building.change.Discard()
		m.begin()
	default:
		m.check(keys)
	}
}

// compact moves the rows of one file to another, under the staged changes.
func (m *model) compact(r *rand.Rand) {
	old, to := randomPosition(r).File, r.Uint64()
	moved := func(p Position) (Position, bool) { return Position{to, p.Row}, p.File == old }
	durable := maps.Clone(m.durable)
	c := m.table.NewChange()
	for e := range m.durable {
		if p, ok := moved(e.Position); ok {
			c.Remove([]byte(e.key), e.Position)
			c.Put([]byte(e.key), p)
			delete(durable, e)
			durable[entry{e.key, p}] = true
		}
	}
	m.sequence, m.known = m.sequence+1, true
	require.NoError(m.t, m.table.CommitBeneath(c, m.sequence, moved))
	require.NoError(m.t, m.building.change.Remap(moved))
	m.durable = durable
	for _, staged := range append(slices.Clone(m.staged), m.building) {
		for e, present := range maps.Clone(staged.facts) {
			if p, ok := moved(e.Position); ok && !present {
				staged.facts[entry{e.key, p}] = false
			}
		}
	}
}

// TestIndexIsTheMultimapOfItsModel does random operations on several tables and compares every lookup with maps, with
// changes kept in memory, spilled in batches, and spilled as files.
func TestIndexIsTheMultimapOfItsModel(t *testing.T) {
	kinds := map[string]Options{
		"in memory":          {fs: vfs.Default},
		"spilled in batches": {PendingBytes: 1, leastSpill: 8 << 10, fs: vfs.NewMem()},
		"spilled as files":   {PendingBytes: 1, leastSpill: 8 << 10, leastFile: 1, fs: vfs.NewMem()},
	}
	steps := 3_000
	if testing.Short() {
		steps = 1_000
	}
	for name, options := range kinds {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				testModel(t, options, rand.New(rand.NewPCG(seed, 2)), steps)
			}
		})
	}
}

func testModel(t *testing.T, options Options, r *rand.Rand, steps int) {
	dir := filepath.Join(t.TempDir(), fmt.Sprint(r.Uint64()))
	options.CacheBytes = leastCache
	x, err := Open(dir, options)
	require.NoError(t, err)
	keys := randomKeys(r, 60)
	ids := []string{"a", "b", "a long id / with \"signs\" and ünïcode", ""}
	models := map[string]*model{}
	for _, id := range ids {
		models[id] = newModel(t, x.Table(id))
	}
	for range steps {
		id := ids[r.IntN(len(ids))]
		models[id].step(r, keys)
		switch r.IntN(1000) {
		case 0:
			require.NoError(t, x.Drop(id))
			require.NotContains(t, x.Tables(), id)
			models[id].building.change.Discard()
			models[id] = newModel(t, x.Table(id))
		case 1: // all that was committed is there after a restart, and nothing that was not
			require.NoError(t, x.Close())
			x, err = Open(dir, options)
			require.NoError(t, err)
			for id, m := range models {
				m.table, m.staged = x.Table(id), nil
				m.begin()
				m.check(keys)
			}
		}
	}
	if options.PendingBytes == 1 {
		require.NotZero(t, x.spills.Load(), "nothing was spilled")
	}
	for _, m := range models {
		m.check(keys)
		m.table.Abandon()
		m.building.change.Discard()
	}
	require.Zero(t, x.Stats().Pending, "bytes still counted after all changes are gone")
	require.NoError(t, x.Close())
}

// TestLookupsDoNotSeeCommitsHappen commits, and ingests, in other goroutines while lookups go on: a change is seen in
// full from Stage on, also while it moves from memory to the database, and what it removed stays away.
func TestLookupsDoNotSeeCommitsHappen(t *testing.T) {
	for name, options := range map[string]Options{
		"in memory": {fs: vfs.NewMem()},
		"spilled":   {PendingBytes: 1, leastSpill: 4 << 10, leastFile: 30 << 10, fs: vfs.NewMem()},
	} {
		cuts := 60
		if testing.Short() {
			cuts = 25
		}
		t.Run(name, func(t *testing.T) { testConcurrent(t, options, cuts) })
	}
}

func testConcurrent(t *testing.T, options Options, cuts int) {
	options.CacheBytes = leastCache
	x, err := Open(t.TempDir(), options)
	require.NoError(t, err)
	var all sync.WaitGroup
	for n := range 2 {
		r := rand.New(rand.NewPCG(uint64(n), 3))
		keys := randomKeys(r, 200)
		table := x.Table(fmt.Sprint(n))
		staged := make(chan *Change, 4)
		all.Go(func() {
			sequence := int64(0)
			for c := range staged {
				sequence++
				if err := table.Commit(c, sequence); err != nil {
					t.Error(err)
				}
			}
		})
		ingest := make(chan struct{}, 1)
		all.Go(func() { // entries of keys that are not looked up
			e := NewEntries()
			for range ingest {
				e.Reset()
				for i := range 500 {
					e.Add(fmt.Appendf(nil, "ingested %d", i), Position{File: 9, Row: uint32(i)})
				}
				if err := table.Ingest(e); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			defer close(ingest)
			defer close(staged)
			batcher(t, table, r, keys, cuts, func(c *Change) {
				staged <- c
				select {
				case ingest <- struct{}{}:
				default:
				}
			})
		})
	}
	all.Wait()
	require.Zero(t, x.Stats().Pending)
	require.NoError(t, x.Close())
}

// batcher moves keys around as a batcher does, and looks all of them up again and again.
func batcher(t *testing.T, table *Table, r *rand.Rand, keys [][]byte, cuts int, commit func(*Change)) {
	m := newModel(t, table)
	for range cuts {
		if r.IntN(20) == 0 {
			m.building.clear()
		}
		visible := found(m.building.over(m.visible()))
		for range r.IntN(300) {
			key := string(keys[r.IntN(len(keys))])
			for _, p := range visible[key] {
				m.building.remove(entry{key, p})
			}
			p := randomPosition(r)
			m.building.put(entry{key, p})
			visible[key] = []Position{p}
		}
		table.Stage(m.building.change)
		commit(m.building.change)
		m.staged = append(m.staged, m.building)
		m.begin()
		// Which changes are in the database by now is not known here, and must not show.
		for range 3 {
			sameLookup(t, "lookup", keys, found(m.visible()), func(f func(int, Position)) error { return table.Lookup(keys, f) })
		}
		if len(m.staged) > 8 {
			m.durable, m.staged = m.staged[0].over(m.durable), m.staged[1:]
		}
	}
}
