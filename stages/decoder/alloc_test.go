package decoder

import (
	"runtime"
	"testing"
	"time"

	"github.com/streambed/streambed/stages/message"
)

// TestARowCostsNoAllocation decodes enough rows that only what is allocated for each would show.
func TestARowCostsNoAllocation(t *testing.T) {
	const slabs, rows = 50, 1000
	template := []message.RawMessage{rawMessage("begin 0/100 xid=1 time=1"), rawMessage("relation 1 public.a d a:20* b:25")}
	for range rows {
		template = append(template, rawMessage("update 1 K=1234567,null new=1234568,some_words_of_text_that_are_not_very_short_and_make_up_a_row"))
	}
	template = append(template, rawMessage("commit 0/100 0/110 time=1"))
	c, cuts := make(chan message.TableMessage, 1000), make(chan *message.Cut, 1000)
	d := New(Config{Router: fixedRouter{1: {OID: 1, C: c}}, Flush: Flush{Interval: time.Hour, Rows: 10000}})
	in := make(chan *message.Raw, slabs)
	for range slabs {
		in <- &message.Raw{Messages: template, Release: func() {}}
	}
	close(in)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := d.Run(t.Context(), in, cuts); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := d.Statistics().Updates; n != slabs*rows {
		t.Fatalf("%d rows were decoded, wanted %d", n, slabs*rows)
	}
	if each := float64(after.Mallocs-before.Mallocs) / (slabs * rows); each > 0.03 {
		t.Errorf("%.4f allocations a row", each)
	} else {
		t.Logf("%.4f allocations a row", each)
	}
}
