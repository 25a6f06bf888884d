package iceberg

import "github.com/streambed/streambed/formats/lease"

var _ lease.Source = (*Reader)(nil)

// Leases gives the table in which readers tell what they read.
func (r *Reader) Leases() *lease.Table { return r.catalog.leases(r.pipeline) }

// Leases gives the table in which readers tell what they read: a file that left the last retained snapshot before
// Oldest.Since may be deleted.
func (l *Lake) Leases() *lease.Table { return l.catalog.leases(l.cfg.Pipeline) }

func (c *catalog) leases(pipeline string) *lease.Table {
	clock := lease.PostgresClock
	if _, local := c.dialect.(sqlite); local {
		clock = lease.SQLiteClock
	}
	return &lease.Table{Write: c.write, Read: c.read, Pipeline: pipeline, Clock: clock, Missing: c.missing}
}
