package iceberg

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/streambed/streambed/lsn"
)

// checkpoint is one that can be read: for every table the newest snapshot that is not after it is kept, so that all
// tables can be read as of it (promise 3). One that changed no visible table is not listed: it reads like the one before.
type checkpoint struct {
	number     int64
	position   lsn.LSN
	commitTime time.Time
	// recorded is our clock when it was made.
	recorded time.Time
}

func readCheckpoints(ctx context.Context, tx *sql.Tx, pipeline string) ([]checkpoint, error) {
	rows, err := tx.QueryContext(ctx, `SELECT checkpoint, position, commit_time, recorded FROM streambed_checkpoints
		WHERE pipeline = $1 ORDER BY checkpoint`, pipeline)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []checkpoint
	for rows.Next() {
		var c checkpoint
		var position, commitTime, recorded int64
		if err := rows.Scan(&c.number, &position, &commitTime, &recorded); err != nil {
			return nil, err
		}
		c.position, c.commitTime, c.recorded = lsn.LSN(position), fromMicros(commitTime), fromMicros(recorded)
		out = append(out, c)
	}
	return out, rows.Err()
}

// thin splits checkpoints, oldest first, into those that stay and the numbers of those that go. The newest stays.
func (r Retention) thin(all []checkpoint, now time.Time) (kept []checkpoint, gone []int64) {
	for i, c := range all {
		if i == len(all)-1 || r.keeps(c, all[i+1], now.Sub(c.recorded)) {
			kept = append(kept, c)
		} else {
			gone = append(gone, c.number)
		}
	}
	for len(kept) > max(r.Max, 1) {
		i := crowded(kept, now)
		gone = append(gone, kept[i].number)
		kept = slices.Delete(kept, i, i+1)
	}
	return kept, gone
}

// keeps applies the ages: a checkpoint past the time in which all are kept stays when it is the last of its minute or
// hour.
func (r Retention) keeps(c, next checkpoint, age time.Duration) bool {
	last := func(d time.Duration) bool { return !c.recorded.Truncate(d).Equal(next.recorded.Truncate(d)) }
	switch {
	case age < r.All:
		return true
	case age < r.Minutely:
		return last(time.Minute)
	case age < r.Hourly:
		return last(time.Hour)
	}
	return false
}

// crowded finds the checkpoint, neither the oldest nor the newest, whose neighbours are closest for its age; with two
// it is the oldest.
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

// holds reports whether one of the checkpoints lies in [since, until).
func holds(kept []checkpoint, since, until int64) bool {
	i, _ := slices.BinarySearchFunc(kept, since, func(c checkpoint, n int64) int { return int(c.number - n) })
	return i < len(kept) && kept[i].number < until
}
