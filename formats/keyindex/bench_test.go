package keyindex

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// benchKey makes a key as an encoded bigint is: the order of n spread over all 64 bits is random.
func benchKey(n uint64, random bool) []byte {
	if random {
		n *= 0x9e3779b97f4a7c15
	}
	return binary.BigEndian.AppendUint64([]byte{1}, n)
}

// cpu gives the CPU time of the whole process in nanoseconds, the database's own work in the background included: it says
// more than the clock on a machine that does other things as well.
func cpu(b *testing.B) int64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

// report reports what a benchmark of so many keys a round has cost since cpu was from.
func report(b *testing.B, from int64, keys float64) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
	b.ReportMetric(float64(cpu(b)-from)/float64(b.N)/keys, "cpu-ns/key")
}

// order names the two orders of keys.
func order(random bool) string {
	if random {
		return "random"
	}
	return "ascending"
}

// benchTable is a table with n entries, ingested in chunks of a million.
func benchTable(b *testing.B, x *Index, n int, random bool) *Table {
	table := x.Table("bench")
	e := NewEntries()
	for i := range n {
		e.Add(benchKey(uint64(i), random), Position{uint64(i % 64), uint32(i)})
		if e.Len() == 1_000_000 || i == n-1 {
			require.NoError(b, table.Ingest(e))
			e.Reset()
		}
	}
	return table
}

// BenchmarkIngest measures filling, sorting and ingesting, per key.
func BenchmarkIngest(b *testing.B) {
	for _, random := range []bool{false, true} {
		b.Run(order(random), func(b *testing.B) {
			const n = 500_000
			x, err := Open(b.TempDir(), Options{})
			require.NoError(b, err)
			defer x.Close()
			b.ReportAllocs()
			from := cpu(b)
			for b.Loop() {
				benchTable(b, x, n, random)
			}
			report(b, from, n)
		})
	}
}

// BenchmarkCommit measures building, staging and committing changes of 10,000 keys, per key: inserts, and updates, which
// remove and put.
func BenchmarkCommit(b *testing.B) {
	for _, update := range []bool{false, true} {
		for _, random := range []bool{false, true} {
			name := map[bool]string{false: "insert/", true: "update/"}[update] + order(random)
			b.Run(name, func(b *testing.B) {
				const n = 10_000
				x, err := Open(b.TempDir(), Options{})
				require.NoError(b, err)
				defer x.Close()
				table := x.Table("bench")
				b.ReportAllocs()
				from := cpu(b)
				for cut := uint64(1); b.Loop(); cut++ {
					c := table.NewChange()
					for i := range uint64(n) {
						if update {
							key := benchKey(i, random)
							c.Remove(key, Position{cut - 1, uint32(i)})
							c.Put(key, Position{cut, uint32(i)})
						} else {
							c.Put(benchKey(cut*n+i, random), Position{cut, uint32(i)})
						}
					}
					table.Stage(c)
					if err := table.Commit(c, int64(cut)); err != nil {
						b.Fatal(err)
					}
				}
				report(b, from, n)
			})
		}
	}
}

// BenchmarkLookup measures sorted lookups of 1,000 keys out of 2 million, per key: over the durable part alone, and with
// two staged changes of 10,000 keys over it.
func BenchmarkLookup(b *testing.B) {
	const n, batch = 2_000_000, 1_000
	for _, cache := range []int64{256 << 20, 8 << 20} {
		x, err := Open(b.TempDir(), Options{CacheBytes: cache})
		require.NoError(b, err)
		table := benchTable(b, x, n, true)
		var batches [][][]byte
		r := rand.New(rand.NewPCG(1, 1))
		for range 64 {
			var keys [][]byte
			for range batch {
				keys = append(keys, benchKey(r.Uint64N(n), true))
			}
			slices.SortFunc(keys, slices.Compare)
			batches = append(batches, slices.CompactFunc(keys, slices.Equal))
		}
		for _, staged := range []int{0, 2} {
			for range staged {
				c := table.NewChange()
				for range 10_000 {
					i := r.Uint64N(n)
					c.Remove(benchKey(i, true), Position{i % 64, uint32(i)})
					c.Put(benchKey(i, true), Position{99, uint32(i)})
				}
				table.Stage(c)
			}
			b.Run(fmt.Sprintf("cache %d MiB/staged %d", cache>>20, staged), func(b *testing.B) {
				b.ReportAllocs()
				from := cpu(b)
				for i := 0; b.Loop(); i++ {
					found := 0
					keys := batches[i%len(batches)]
					if err := table.Lookup(keys, func(int, Position) { found++ }); err != nil {
						b.Fatal(err)
					}
					if found != len(keys) {
						b.Fatalf("%d of %d keys found", found, len(keys))
					}
				}
				report(b, from, batch)
			})
		}
		table.Abandon()
		require.NoError(b, x.Close())
	}
}

// BenchmarkSpill measures a change of half a million keys that does not fit into its memory, from the first Put to the
// end of Commit, per key.
func BenchmarkSpill(b *testing.B) {
	const n = 500_000
	x, err := Open(b.TempDir(), Options{PendingBytes: 8 << 20})
	require.NoError(b, err)
	defer x.Close()
	table := x.Table("bench")
	b.ReportAllocs()
	from := cpu(b)
	for cut := uint64(1); b.Loop(); cut++ {
		c := table.NewChange()
		for i := range uint64(n) {
			c.Put(benchKey(i, true), Position{cut, uint32(i)})
		}
		table.Stage(c)
		if err := table.Commit(c, int64(cut)); err != nil {
			b.Fatal(err)
		}
	}
	report(b, from, n)
}
