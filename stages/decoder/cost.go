package decoder

import (
	"math/bits"

	"github.com/streambed/streambed/stages/message"
)

// costs divides what a slab has been admitted for among its messages, by their bytes. Invariant: the shares given out so
// far add up to given, and after the last message to total, to the byte.
type costs struct {
	total, bytes int64
	seen, given  int64
	// loose is the part that goes back to the budget when the slab is done: that of messages that became no rows.
	loose int64
}

func (c *costs) start(raw *message.Raw) {
	*c = costs{total: raw.Cost}
	for i := range raw.Messages {
		c.bytes += int64(len(raw.Messages[i].Data))
	}
}

// take gives the share of the next message, of n bytes.
func (c *costs) take(n int) int64 {
	if c.bytes == 0 {
		return 0
	}
	c.seen += int64(n)
	high, low := bits.Mul64(uint64(c.total), uint64(c.seen))
	upTo, _ := bits.Div64(high, low, uint64(c.bytes)) // seen <= bytes, so the quotient fits
	share := int64(upTo) - c.given
	c.given += share
	return share
}

// giveBack returns what no rows hold to the budget, also of messages that were not reached.
func (d *Decoder) giveBack() {
	// Only now: a replay inside the slab must not wait for what the slab's other messages hold.
	d.config.Budget.Received(d.cost.total)
	if n := d.cost.loose + d.cost.total - d.cost.given; n > 0 {
		d.config.Budget.Release(n)
	}
	d.cost = costs{}
}
