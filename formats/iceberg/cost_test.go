package iceberg_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/storage"
)

func processorTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkCommitCostIsFlat makes 3,000 commits (COMMITS) of one data file and two replaced vectors (VECTORS) each, and
// reports the processor time of a commit around commit 100 and at the end; their ratio is to be at most 1.3. Run it with
// -benchtime 1x.
func BenchmarkCommitCostIsFlat(b *testing.B) {
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	commits, vectors := number("COMMITS", 3000), number("VECTORS", 2)
	for range b.N {
		var counting *storage.Counting
		e := newEnv(b, func(cfg *iceberg.Config) {
			counting = storage.NewCounting(cfg.Store)
			cfg.Store = counting
			if max := number("SNAPSHOTS", 0); max > 0 {
				cfg.Retention.Max = max
			}
		})
		ref := e.create("public", "orders")
		example := e.rows(ref, 0, 1000, "x")
		rnd := rand.New(rand.NewPCG(1, 1))
		var paths []string
		window := func(from, to int) (cpu time.Duration, c storage.Counts) {
			before, counts := processorTime(), counting.Counts()
			for i := from; i < to; i++ {
				f := example
				f.Path = ref.Location + "/data/" + uuid.NewString() + ".parquet"
				ch := formats.TableChange{Table: ref, Add: []formats.DataFile{f}, Deletes: map[string]*roaring.Bitmap{}}
				for range min(vectors, len(paths)) {
					recent := paths[max(0, len(paths)-100):]
					ch.Deletes[recent[rnd.IntN(len(recent))]] = roaring.BitmapOf(uint32(rnd.IntN(1000)), uint32(rnd.IntN(1000)))
				}
				e.commit(ch)
				paths = append(paths, f.Path)
			}
			return (processorTime() - before) / time.Duration(to-from), counting.Counts().Minus(counts)
		}
		window(0, 50)
		early, _ := window(50, 150)
		window(150, commits-100)
		late, counts := window(commits-100, commits)
		b.ReportMetric(float64(early.Microseconds())/1000, "cpu-ms@100")
		b.ReportMetric(float64(late.Microseconds())/1000, "cpu-ms@end")
		b.ReportMetric(float64(late)/float64(early), "ratio")
		b.ReportMetric(float64(counts.Puts)/100, "puts/commit")
		b.ReportMetric(float64(counts.Gets)/100, "gets/commit")
		b.ReportMetric(float64(counts.BytesPut)/100/1024, "KB/commit")
	}
}
