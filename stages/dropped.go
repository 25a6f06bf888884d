package stages

import (
	"slices"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages/source"
	"go.uber.org/zap"
)

// noteDropped works out which tables of the lake the source does not have for this pipeline any more, and says so once.
// What the stream still brings of them is taken in; they stay readable as they are until they are cleaned up.
func (r *run) noteDropped(tables []source.Table) {
	there := func(name formats.TableName, oid uint32) bool {
		return slices.ContainsFunc(tables, func(t source.Table) bool { return t.OID == oid || t.Name == name })
	}
	gone := map[formats.TableName]bool{}
	for _, held := range r.state.Tables {
		if held.Phase != formats.Copying && !there(held.Table.Name, held.OID) {
			gone[held.Table.Name] = true
		}
	}
	for _, t := range r.registry.all() {
		if name := t.name(); !there(name, t.seen.Load().OID) {
			gone[name] = true
		}
	}
	var before map[formats.TableName]bool
	if held := r.dropped.Swap(&gone); held != nil {
		before = *held
	}
	for name := range gone {
		if !before[name] {
			r.log.Warn("a table is not at the source any more, or is excluded: it stays in the lake as it was until `streambedd cleanup`",
				zap.String("table", source.Show(name)))
		}
	}
}

// isDropped reports whether a table is one of those.
func (r *run) isDropped(name formats.TableName) bool {
	gone := r.dropped.Load()
	return gone != nil && (*gone)[name]
}

// droppedStatus describes those that this run has no batcher for.
func (r *run) droppedStatus() (list []TableStatus) {
	gone := r.dropped.Load()
	if gone == nil {
		return nil
	}
	for name := range *gone {
		if r.registry.named(name) == nil {
			list = append(list, TableStatus{Name: source.Show(name), Phase: "dropped"})
		}
	}
	return list
}
