package iceberg_test

import (
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/streambed/streambed/formats"
)

// TestClockThatJumpsBreaksNoReader: our clock goes back by hours and days between commits. Every state stays
// right, snapshots stay in order as the specification asks, and no state is lost to the
// jumps.
func TestClockThatJumpsBreaksNoReader(t *testing.T) {
	e := newEnv(t)
	ref := e.create("public", "orders")
	want := contents{}
	numbers := map[int64]int{}
	for i, jump := range []time.Duration{0, time.Minute, -2 * time.Hour, -48 * time.Hour, time.Minute, 5 * time.Minute} {
		e.now = e.now.Add(jump)
		from := int64(i) * 10
		e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{e.rows(ref, from, 3, "a")}})
		want.fill(from, 3, "a")
		numbers[e.number] = len(want)
		e.check(ref.Name, want)
	}
	var before table.Snapshot
	for _, s := range e.stock(ref.Name).Metadata().Snapshots() {
		if s.TimestampMs < before.TimestampMs || s.SequenceNumber <= before.SequenceNumber {
			t.Errorf("snapshot %d at %d follows %d at %d", s.SequenceNumber, s.TimestampMs, before.SequenceNumber, before.TimestampMs)
		}
		before = s
	}
	e.open() // a restart keeps it so
	e.check(ref.Name, want)
	reader := e.reader()
	view := must[*formats.View](t)(reader.Current(e.ctx))
	for number, rows := range numbers {
		past, err := reader.At(e.ctx, view, formats.Point{Checkpoint: number})
		if err != nil {
			t.Errorf("checkpoint %d: %v", number, err)
			continue
		}
		if got := len(e.scan(reader, past, ref.Name)); got != rows {
			t.Errorf("checkpoint %d reads %d rows, want %d", number, got, rows)
		}
	}
}
