package keyindex

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// crashCut is one cut of the history that the crash tests commit, the same in every process: it deletes some rows, moves
// some, adds some, now and then truncates, and is now and then larger than a batch.
type crashCut struct {
	// modelChange has no change of an index.
	modelChange
	operations []crashOperation
	// state is the table's content after the cut.
	state map[entry]bool
}

// crashOperation puts or removes an entry; they come after the truncate, in order.
type crashOperation struct {
	entry
	put bool
}

func (c *crashCut) operate(e entry, put bool) {
	c.facts[e] = put
	c.operations = append(c.operations, crashOperation{e, put})
}

func (c *crashCut) apply(change *Change) {
	if c.cleared {
		change.Clear()
	}
	for _, o := range c.operations {
		if o.put {
			change.Put([]byte(o.key), o.Position)
		} else {
			change.Remove([]byte(o.key), o.Position)
		}
	}
}

var crashHistory = struct {
	sync.Mutex
	cuts []*crashCut
}{cuts: []*crashCut{{state: map[entry]bool{}}}}

// crashCuts gives the history up to a cut, its number being the index; number 0 is the empty table.
func crashCuts(to int64) []*crashCut {
	crashHistory.Lock()
	defer crashHistory.Unlock()
	for n := int64(len(crashHistory.cuts)); n <= to; n++ {
		crashHistory.cuts = append(crashHistory.cuts, nextCrashCut(n, crashHistory.cuts[n-1].state))
	}
	return crashHistory.cuts[:to+1]
}

func nextCrashCut(n int64, state map[entry]bool) *crashCut {
	c := &crashCut{modelChange: modelChange{facts: map[entry]bool{}}}
	r := rand.New(rand.NewPCG(uint64(n), 4))
	var live []entry
	if c.cleared = n%97 == 0; !c.cleared {
		live = slices.SortedFunc(maps.Keys(state), func(a, b entry) int {
			return cmp.Or(strings.Compare(a.key, b.key), a.compare(b.Position))
		})
	}
	size := 1 + r.IntN(40)
	if n%20 == 0 {
		size = 500
	}
	for i := range size {
		if len(live) > 0 && r.IntN(3) == 0 {
			e := live[r.IntN(len(live))]
			c.operate(e, false)
			if r.IntN(2) == 0 {
				c.operate(entry{e.key, Position{uint64(n), uint32(i)}}, true)
			}
			continue
		}
		c.operate(entry{fmt.Sprintf("%030d", r.IntN(100_000)), Position{uint64(n), uint32(i)}}, true)
	}
	c.state = c.over(state)
	return c
}

// all gives every entry of a table.
func all(t testing.TB, table *Table) map[entry]bool {
	t.Helper()
	entries := map[entry]bool{}
	s, err := table.index.scan(spaceEntries, table.number)
	require.NoError(t, err)
	if s.it == nil {
		return entries
	}
	for ok := s.it.First(); ok; ok = s.it.Next() {
		k := s.it.Key()
		end := len(k) - positionLength
		entries[entry{string(k[prefixLength:end]), readPosition(k[end:])}] = true
	}
	require.NoError(t, errors.Join(s.error(), s.close()))
	return entries
}

// checkCrashed says what is promised after a crash, when cuts up to started may have been committed: every entry that
// was there at the reported sequence is there, unless a later cut removed it, and nothing is there that no cut up to
// started put.
func checkCrashed(t *testing.T, table *Table, started int64) int64 {
	t.Helper()
	sequence, _, err := table.Sequence()
	require.NoError(t, err)
	require.LessOrEqual(t, sequence, started)
	cuts := crashCuts(started)
	got := all(t, table)
	must, may := maps.Clone(cuts[sequence].state), maps.Clone(cuts[sequence].state)
	for _, c := range cuts[sequence+1:] {
		if c.cleared {
			clear(must)
		}
		for e, present := range c.facts {
			if present {
				may[e] = true
			} else {
				delete(must, e)
			}
		}
	}
	for e := range must {
		if !got[e] {
			t.Fatalf("after a crash at cut %d the index says sequence %d, but %v is missing", started, sequence, e)
		}
	}
	for e := range got {
		if !may[e] {
			t.Fatalf("after a crash at cut %d the index says sequence %d, but has %v", started, sequence, e)
		}
	}
	// Committing again from there on mends it.
	for n := sequence + 1; n <= started; n++ {
		commit(t, table, n, cuts[n].apply)
	}
	if !maps.Equal(cuts[started].state, all(t, table)) {
		t.Fatalf("after a crash at cut %d, committing again from %d on leaves other entries", started, sequence)
	}
	return sequence
}

const crashFolder = "STREAMBED_KEYINDEX_CRASH_FOLDER"

// TestMain also is the process that TestKillLosesNoneOfTheReportedSequence kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv(crashFolder); dir != "" {
		fmt.Println(commitUntilKilled(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// commitUntilKilled says the number of each cut before it commits it.
func commitUntilKilled(dir string) error {
	options := Options{batchBytes: 8 << 10}
	if strings.HasSuffix(dir, "spilled") {
		options.PendingBytes, options.leastSpill, options.leastFile = 1, 16<<10, 30<<10
	}
	x, err := Open(dir, options)
	if err != nil {
		return err
	}
	table := x.Table("a")
	for n := int64(1); ; n++ {
		change := table.NewChange()
		crashCuts(n)[n].apply(change)
		fmt.Println(n)
		table.Stage(change)
		if err := table.Commit(change, n); err != nil {
			return err
		}
	}
}

func TestKillLosesNoneOfTheReportedSequence(t *testing.T) {
	for _, kind := range []string{"batches", "spilled"} {
		for i := range 4 {
			t.Run(fmt.Sprint(kind, " ", i), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), kind)
				started := killAfter(t, dir, 20+int64(rand.IntN(130)))
				x := open(t, dir)
				sequence := checkCrashed(t, x.Table("a"), started)
				t.Logf("killed at cut %d, reopened at %d", started, sequence)
			})
		}
	}
}

// killAfter runs a process that commits cuts, kills it soon after it began the given one, and gives the last it began.
func killAfter(t *testing.T, dir string, cut int64) int64 {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashFolder+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	killed := false
	var last int64
	for lines := bufio.NewScanner(out); lines.Scan(); {
		n, err := strconv.ParseInt(lines.Text(), 10, 64)
		require.NoError(t, err, "the process failed: %s", lines.Text())
		last = n
		if n >= cut && !killed {
			killed = true
			require.NoError(t, cmd.Process.Kill())
		}
	}
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.True(t, killed)
	return last
}

// TestPowerFailureLosesNoneOfTheReportedSequence also loses any part of what was not synced to disk.
func TestPowerFailureLosesNoneOfTheReportedSequence(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		disk := vfs.NewCrashableMem()
		options := Options{fs: disk, batchBytes: 8 << 10}
		if seed%2 == 1 {
			options.PendingBytes, options.leastSpill, options.leastFile = 1, 16<<10, 30<<10
		}
		x, err := Open("/index", options)
		require.NoError(t, err)
		table := x.Table("a")
		started := int64(1 + r.IntN(110))
		at := 1 + r.Int64N(started)
		for n, c := range crashCuts(started) {
			if n == 0 {
				continue
			}
			commit(t, table, int64(n), c.apply)
			if int64(n) == at {
				require.NoError(t, x.db.Flush()) // so that something is on disk
			}
		}
		copied := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(101), RNG: r})
		require.NoError(t, x.Close())

		options.fs = copied
		x, err = Open("/index", options)
		require.NoError(t, err)
		sequence := checkCrashed(t, x.Table("a"), started)
		require.GreaterOrEqual(t, sequence, at, "what was flushed is lost")
		require.NoError(t, x.Close())
	}
}

// TestADamagedDatabaseIsNeverBelieved changes bytes all over a database's files. Open must work each time; whatever the
// index then answers without an error is right, and after an error the next Open begins anew.
func TestADamagedDatabaseIsNeverBelieved(t *testing.T) {
	disk := vfs.NewMem()
	x, err := Open("/index", Options{CacheBytes: leastCache, fs: disk})
	require.NoError(t, err)
	const cuts = 96
	for n := int64(1); n <= cuts; n++ {
		commit(t, x.Table("a"), n, crashCuts(n)[n].apply)
		if n == cuts-10 {
			require.NoError(t, x.db.Flush())
		}
	}
	require.NoError(t, x.Close())
	files, err := disk.List("/index/db")
	require.NoError(t, err)
	slices.Sort(files)
	fresh, damaged := 0, 0
	for i := range uint64(60) {
		r := rand.New(rand.NewPCG(i, 6))
		copied := vfs.NewMem()
		ok, err := vfs.Clone(disk, copied, "/index", "/index")
		require.NoError(t, err)
		require.True(t, ok)
		what := hurt(t, r, copied, copied.PathJoin("/index/db", files[r.IntN(len(files))]))
		a := answers(t, what, copied, crashCuts(cuts))
		switch a {
		case "fresh":
			fresh++
		case "damaged":
			damaged++
			require.Equal(t, "fresh", answers(t, what+", opened again", copied, crashCuts(cuts)))
		}
	}
	t.Logf("60 injuries: %d times set aside at once, %d times noticed by a read", fresh, damaged)
	require.NotZero(t, fresh)
	require.NotZero(t, damaged)
}

// answers opens a database, asks for everything and tells whether it is fresh, damaged, or right.
func answers(t *testing.T, what string, fs vfs.FS, cuts []*crashCut) string {
	x, err := Open("/index", Options{CacheBytes: leastCache, fs: fs})
	require.NoError(t, err, what)
	defer func() { _ = x.Close() }()
	table := x.Table("a")
	sequence, known, err := table.Sequence()
	if errors.Is(err, ErrDamaged) {
		return "damaged"
	}
	require.NoError(t, err, what)
	if !known {
		require.Empty(t, x.Tables(), what)
		require.Empty(t, all(t, table), what)
		return "fresh"
	}
	keys := map[string]bool{}
	for e := range cuts[len(cuts)-1].state {
		keys[e.key] = true
	}
	var sorted [][]byte
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		sorted = append(sorted, []byte(k))
	}
	got := map[string][]Position{}
	err = table.Lookup(sorted, func(i int, p Position) {
		got[string(sorted[i])] = append(got[string(sorted[i])], p)
	})
	if errors.Is(err, ErrDamaged) {
		return "damaged"
	}
	require.NoError(t, err, what)
	want := found(cuts[sequence].state)
	for k := range keys {
		if !slices.Equal(want[k], got[k]) {
			t.Fatalf("%s: at sequence %d key %s gives %v, want %v", what, sequence, k, got[k], want[k])
		}
	}
	return "right"
}

// hurt damages a file.
func hurt(t *testing.T, r *rand.Rand, fs vfs.FS, path string) string {
	f, err := fs.Open(path)
	require.NoError(t, err)
	data, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	if fs.PathBase(path) == lockFile {
		return "nothing"
	}
	kind := ""
	switch n := r.IntN(4); {
	case n == 0 && len(data) > 0:
		kind = "shortened"
		data = data[:r.IntN(len(data))]
	case n == 1:
		kind = "removed"
		require.NoError(t, fs.Remove(path))
		return path + " " + kind
	case len(data) > 8:
		kind = "overwritten"
		at := r.IntN(len(data) - 8)
		binary.LittleEndian.PutUint64(data[at:], r.Uint64())
	}
	f, err = fs.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(data)
	require.NoError(t, errors.Join(err, f.Close()))
	return path + " " + kind
}
