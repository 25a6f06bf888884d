package keyindex

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func open(t testing.TB, dir string) *Index {
	t.Helper()
	x, err := Open(dir, Options{CacheBytes: leastCache})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	return x
}

// get gives the positions of one key.
func get(t testing.TB, table *Table, key string) []Position {
	t.Helper()
	var found []Position
	require.NoError(t, table.Lookup([][]byte{[]byte(key)}, func(i int, p Position) {
		require.Zero(t, i)
		found = append(found, p)
	}))
	return found
}

func at(file uint64, row uint32) Position { return Position{File: file, Row: row} }

// commit stages a change and commits it.
func commit(t testing.TB, table *Table, sequence int64, fill func(c *Change)) {
	t.Helper()
	c := table.NewChange()
	fill(c)
	table.Stage(c)
	require.NoError(t, table.Commit(c, sequence))
}

func TestStagedChangesShowOverTheDurablePartAndGoWithAbandon(t *testing.T) {
	x := open(t, t.TempDir())
	table := x.Table("a")
	_, known, err := table.Sequence()
	require.NoError(t, err)
	require.False(t, known)

	commit(t, table, 1, func(c *Change) { c.Put([]byte("k"), at(1, 1)) })
	moved := table.NewChange()
	moved.Remove([]byte("k"), at(1, 1))
	moved.Put([]byte("k"), at(2, 0))
	require.Equal(t, []Position{at(1, 1)}, get(t, table, "k"), "a change shows before it is staged")
	table.Stage(moved)
	require.Equal(t, []Position{at(2, 0)}, get(t, table, "k"))
	sequence, known, err := table.Sequence()
	require.NoError(t, err)
	require.True(t, known)
	require.EqualValues(t, 1, sequence)

	table.Abandon()
	require.Equal(t, []Position{at(1, 1)}, get(t, table, "k"))
	require.Zero(t, x.Stats().Pending)
	require.Error(t, table.Commit(moved, 2), "a change that is not staged was committed")
}

func TestEntriesSurviveReopening(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	x, err := Open(dir, Options{})
	require.NoError(t, err)
	for i := range 300 {
		commit(t, x.Table(fmt.Sprint("table ", i)), int64(i), func(c *Change) { c.Put([]byte("same key"), at(uint64(i), 0)) })
	}
	ids := x.Tables()
	require.Len(t, ids, 300)
	require.NoError(t, x.Close())

	x = open(t, dir)
	require.Equal(t, ids, x.Tables())
	require.True(t, slices.IsSorted(ids))
	for i := range 300 {
		table := x.Table(fmt.Sprint("table ", i))
		require.Equal(t, []Position{at(uint64(i), 0)}, get(t, table, "same key"))
		sequence, known, err := table.Sequence()
		require.NoError(t, err)
		require.True(t, known)
		require.EqualValues(t, i, sequence)
	}
}

func TestEntriesAddedAfterSortingAreIngestedInOrder(t *testing.T) {
	table := open(t, t.TempDir()).Table("a")
	e := NewEntries()
	e.Add([]byte("b"), at(1, 1))
	e.Add([]byte("c"), at(1, 2))
	e.Sort()
	e.Add([]byte("a"), at(1, 0))
	e.Add([]byte("b"), at(1, 1)) // twice
	require.NoError(t, table.Ingest(e))
	require.Equal(t, 3, e.Len())
	require.NoError(t, table.Ingest(e), "a set is ingested once more")
	for i, key := range []string{"a", "b", "c"} {
		require.Equal(t, []Position{at(1, uint32(i))}, get(t, table, key))
	}
	e.Reset()
	require.Zero(t, e.Len())
	require.NoError(t, table.Ingest(e))
}

// TestALookupSeesWhatItsCallbackPuts also when that is spilled meanwhile.
func TestALookupSeesWhatItsCallbackPuts(t *testing.T) {
	for _, spilled := range []int64{0, 1} {
		x, err := Open(t.TempDir(), Options{PendingBytes: spilled, leastSpill: 1})
		require.NoError(t, err)
		table := x.Table("a")
		c := table.NewChange()
		c.Put([]byte("0"), at(0, 0))
		keys := [][]byte{[]byte("0"), []byte("1"), []byte("2"), []byte("3")}
		var found []int
		require.NoError(t, table.Scan(c, keys, func(i int, p Position) bool {
			found = append(found, i)
			if i+1 < len(keys) {
				c.Put(keys[i+1], at(0, 0))
			}
			return true
		}))
		require.Equal(t, []int{0, 1, 2, 3}, found)
		require.Equal(t, spilled != 0, c.spill != 0)
		c.Discard()
		require.NoError(t, x.Close())
	}
}

func TestAScanPassesOverTheRestOfAKeyWhenTold(t *testing.T) {
	table := open(t, t.TempDir()).Table("a")
	commit(t, table, 1, func(c *Change) {
		for i := range uint32(5) {
			c.Put([]byte("twins"), at(1, 2*i))
			c.Put([]byte("twins too"), at(1, 2*i))
		}
	})
	staged := table.NewChange()
	for i := range uint32(5) {
		staged.Put([]byte("twins"), at(1, 2*i+1))
	}
	table.Stage(staged)
	for stop := range 11 {
		var found []Position
		calls := map[int]int{}
		require.NoError(t, table.Scan(nil, [][]byte{[]byte("twins"), []byte("twins too")}, func(i int, p Position) bool {
			if calls[i]++; i == 0 {
				found = append(found, p)
			}
			return calls[i] <= stop
		}))
		require.Equal(t, map[int]int{0: min(stop+1, 10), 1: min(stop+1, 5)}, calls)
		for i, p := range found {
			require.Equal(t, at(1, uint32(i)), p)
		}
	}
}

func TestDropLeavesOtherTablesAndBeginsAnew(t *testing.T) {
	dir := t.TempDir()
	x, err := Open(dir, Options{})
	require.NoError(t, err)
	key := []byte("k")
	for _, id := range []string{"a", "b", "c"} {
		commit(t, x.Table(id), 7, func(c *Change) { c.Put(key, at(1, 0)) })
	}
	old := x.Table("b")
	staged := old.NewChange()
	staged.Put(key, at(2, 0))
	old.Stage(staged)
	require.NoError(t, x.Drop("b"))
	require.NoError(t, x.Drop("b"), "dropped twice")
	require.NoError(t, x.Drop("unknown"))
	require.Equal(t, []string{"a", "c"}, x.Tables())
	require.Zero(t, x.Stats().Pending)
	require.ErrorIs(t, old.Reset(1), ErrDropped)
	require.ErrorIs(t, old.Commit(staged, 8), ErrDropped)

	anew := x.Table("b")
	require.NotSame(t, old, anew)
	_, known, err := anew.Sequence()
	require.NoError(t, err)
	require.False(t, known)
	require.Empty(t, get(t, anew, "k"))
	require.NoError(t, anew.SetSequence(1))
	require.Empty(t, get(t, anew, "k"))
	require.NoError(t, x.Drop("c"))
	require.NoError(t, x.Close())

	x = open(t, dir)
	require.Equal(t, []string{"a", "b"}, x.Tables())
	require.Equal(t, []Position{at(1, 0)}, get(t, x.Table("a"), "k"))
	require.Empty(t, get(t, x.Table("b"), "k"))
	commit(t, x.Table("d"), 1, func(c *Change) {})
	require.Empty(t, get(t, x.Table("d"), "k"), "a table has the entries of a dropped one")
}

func TestFileIDsStayTheSame(t *testing.T) {
	// They are in databases on disk: another function would need another layoutVersion.
	require.EqualValues(t, uint64(0xe3b0c44298fc1c14), FileID(""))
	require.EqualValues(t, uint64(0xba7816bf8f01cfea), FileID("abc"))
}

func TestEverythingFailsAfterClose(t *testing.T) {
	x, err := Open(t.TempDir(), Options{PendingBytes: 1, leastSpill: 1})
	require.NoError(t, err)
	table := x.Table("a")
	c := table.NewChange()
	table.Stage(c)
	require.NoError(t, x.Close())
	require.NoError(t, x.Close())
	require.ErrorIs(t, table.Commit(c, 1), ErrClosed)
	require.ErrorIs(t, table.Lookup([][]byte{{}}, nil), ErrClosed)
	require.ErrorIs(t, table.Reset(1), ErrClosed)
	require.ErrorIs(t, x.Drop("a"), ErrClosed)
	_, _, err = table.Sequence()
	require.ErrorIs(t, err, ErrClosed)
	e := NewEntries()
	e.Add(nil, Position{})
	require.ErrorIs(t, table.Ingest(e), ErrClosed)
	large := table.NewChange()
	large.Put([]byte("k"), Position{}) // has to be spilled, and cannot
	require.ErrorIs(t, large.err, ErrClosed)
	table.Abandon()
}

// TestCloseWaitsForLookups closes while lookups run that themselves put into changes.
func TestCloseWaitsForLookups(t *testing.T) {
	for range 20 {
		x, err := Open(t.TempDir(), Options{PendingBytes: 1, leastSpill: 1})
		require.NoError(t, err)
		table := x.Table("a")
		commit(t, table, 1, func(c *Change) {
			for i := range uint32(100) {
				c.Put([]byte("k"), at(1, i))
			}
		})
		started := make(chan struct{})
		ended := make(chan error)
		go func() {
			for n := 0; ; n++ {
				c := table.NewChange()
				err := table.Lookup([][]byte{[]byte("k")}, func(_ int, p Position) { c.Remove([]byte("k"), p) })
				c.Discard()
				if err != nil {
					ended <- err
					return
				}
				if n == 0 {
					close(started)
				}
			}
		}()
		<-started
		require.NoError(t, x.Close())
		require.ErrorIs(t, <-ended, ErrClosed)
	}
}
