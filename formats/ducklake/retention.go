package ducklake

import (
	"slices"
	"time"

	"github.com/streambed/streambed/lsn"
)

// Retention says which checkpoints stay readable. Zero fields mean the defaults.
type Retention struct {
	// All keeps every checkpoint that is younger (15 minutes), Minutely the last one of each minute (24 hours), Hourly
	// the last one of each hour (168 hours).
	All, Minutely, Hourly time.Duration
	// Max bounds the number of checkpoints (500); beyond it those with the closest neighbours, for their age, go first.
	Max int
}

func (r Retention) withDefaults() Retention {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&r.All, 15*time.Minute)
	set(&r.Minutely, 24*time.Hour)
	set(&r.Hourly, 168*time.Hour)
	if r.Max == 0 {
		r.Max = 500
	}
	return r
}

// checkpoint is one that can be read: its snapshot is kept. One that changed nothing visible is not listed, it reads
// like the one before.
type checkpoint struct {
	number     int64
	position   lsn.LSN
	commitTime time.Time
	// recorded is our clock when it was made.
	recorded time.Time
	// snapshot is DuckLake's id.
	snapshot int64
}

// thin splits checkpoints, oldest first, into those that stay and those that go. The newest stays.
func (r Retention) thin(all []checkpoint, now time.Time) (kept, gone []checkpoint) {
	for i, c := range all {
		if i == len(all)-1 || r.keeps(c, all[i+1], now.Sub(c.recorded)) {
			kept = append(kept, c)
		} else {
			gone = append(gone, c)
		}
	}
	for len(kept) > max(r.Max, 1) {
		i := crowded(kept, now)
		gone = append(gone, kept[i])
		kept = slices.Delete(kept, i, i+1)
	}
	return kept, gone
}

func (r Retention) keeps(c, next checkpoint, age time.Duration) bool {
	lastOf := func(d time.Duration) bool { return !c.recorded.Truncate(d).Equal(next.recorded.Truncate(d)) }
	return age < r.All || age < r.Minutely && lastOf(time.Minute) || age < r.Hourly && lastOf(time.Hour)
}

// crowded finds the checkpoint between the oldest and the newest whose neighbours are closest for its age; the oldest
// when there is none between.
func crowded(kept []checkpoint, now time.Time) int {
	best, least := 0, 0.0
	for i := 1; i < len(kept)-1; i++ {
		gap := kept[i+1].recorded.Sub(kept[i-1].recorded).Seconds() / (now.Sub(kept[i].recorded) + time.Minute).Seconds()
		if best == 0 || gap < least {
			best, least = i, gap
		}
	}
	return best
}
