package iceberg

import (
	"testing"
	"time"
)

func TestRetentionKeepsByAge(t *testing.T) {
	now := time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	r := Retention{}.withDefaults()
	r.Max = 100_000
	var all []checkpoint
	for age := 10 * 24 * time.Hour; age >= 0; age -= 20 * time.Second {
		all = append(all, checkpoint{number: int64(len(all) + 1), recorded: now.Add(-age)})
	}
	kept, gone := r.thin(all, now)
	if len(kept)+len(gone) != len(all) {
		t.Fatalf("%d kept, %d gone of %d", len(kept), len(gone), len(all))
	}
	minutes, hours, every := 0, 0, 0
	for _, c := range kept {
		switch age := now.Sub(c.recorded); {
		case age < 15*time.Minute:
			every++
		case age < 24*time.Hour:
			minutes++
		case age < 168*time.Hour:
			hours++
		default:
			t.Fatalf("a checkpoint of %s is kept", age)
		}
	}
	if every != 45 || minutes < 1424 || minutes > 1426 || hours < 143 || hours > 145 {
		t.Fatalf("%d of the last quarter, %d minutely, %d hourly", every, minutes, hours)
	}
	if again, gone := r.thin(kept, now); len(again) != len(kept) || len(gone) != 0 {
		t.Fatalf("thinning again drops %d", len(gone))
	}
}

func TestRetentionKeepsTheNewestAndItsBound(t *testing.T) {
	now := time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	r := Retention{Max: 50}.withDefaults()
	var kept []checkpoint
	for i := range int64(5000) {
		now = now.Add(200 * time.Millisecond)
		kept, _ = r.thin(append(kept, checkpoint{number: i + 1, recorded: now}), now)
		if len(kept) > 50 || kept[len(kept)-1].number != i+1 {
			t.Fatalf("after %d: %d kept, the newest is %d", i+1, len(kept), kept[len(kept)-1].number)
		}
	}
	if kept[0].number != 1 {
		t.Fatalf("the oldest kept is %d although its age allows it", kept[0].number)
	}
	recent := 0
	for _, c := range kept {
		if now.Sub(c.recorded) < time.Minute {
			recent++
		}
	}
	if recent < 10 || recent > 40 {
		t.Fatalf("%d of 50 are of the last minute of 17", recent)
	}
	late := now.Add(1000 * time.Hour)
	if kept, _ := r.thin(kept, late); len(kept) != 1 {
		t.Fatalf("%d kept after a long silence", len(kept))
	}
	if kept, gone := r.thin(nil, late); len(kept) != 0 || len(gone) != 0 {
		t.Fatal("something out of nothing")
	}
}

func TestHoldsFindsAKeptCheckpointInAnInterval(t *testing.T) {
	kept := []checkpoint{{number: 3}, {number: 7}}
	for _, test := range []struct {
		since, until int64
		want         bool
	}{{0, 3, false}, {0, 4, true}, {3, 4, true}, {4, 7, false}, {4, 8, true}, {7, 7, false}, {8, 100, false}} {
		if got := holds(kept, test.since, test.until); got != test.want {
			t.Errorf("[%d, %d): %v", test.since, test.until, got)
		}
	}
}
