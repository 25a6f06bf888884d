package committer

import (
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages/message"
)

// merge joins the parts of neighbouring cuts into one change a table. One snapshot then holds what several would have.
// That is right for deletes by position, which name their rows, and with them for those by key: no key is that of a row
// of an older snapshot which the last of the cuts still holds, and rows that the cuts themselves added and deleted are
// among the positions.
type merge struct {
	changes map[string]*formats.TableChange
	states  map[string]*formats.TableState
	forget  []string
	// unpublish are the forgotten ones that readers may still see, by incarnation.
	unpublish map[string]formats.TableRef
}

func newMerge() *merge {
	return &merge{changes: map[string]*formats.TableChange{}, states: map[string]*formats.TableState{}, unpublish: map[string]formats.TableRef{}}
}

// add joins a part; the order of the parts of one table matters. The part's maps and slices pass to the merge.
func (m *merge) add(p *message.Part) {
	if p.State != nil {
		m.state(p.State)
	}
	m.forget = append(m.forget, p.Forget...)
	for _, table := range p.Unpublish {
		m.unpublish[table.ID] = table
	}
	later := p.Change
	if later.Empty() {
		return
	}
	id := later.Table.ID
	c := m.changes[id]
	if c == nil {
		m.changes[id] = &later
		return
	}
	if later.Truncate {
		c.Truncate, c.Add, c.Deletes, c.Keys, c.Keyed = true, nil, nil, nil, nil
	}
	if later.Schema != nil {
		c.Schema = later.Schema
	}
	c.Create = c.Create || later.Create
	c.Publish = c.Publish || later.Publish
	c.Unpublish = c.Unpublish || later.Unpublish
	c.Add = append(c.Add, later.Add...)
	c.Keys = append(c.Keys, later.Keys...)
	c.Deletes, c.Keyed = join(c.Deletes, later.Deletes), join(c.Keyed, later.Keyed)
}

// join adds positions to others of the same files. Bitmaps may be shared between Deletes and Keyed: those that grow are
// copied.
func join(held, more map[string]*roaring.Bitmap) map[string]*roaring.Bitmap {
	if held == nil {
		return more
	}
	for path, positions := range more {
		if old := held[path]; old != nil {
			positions = roaring.Or(old, positions)
		}
		held[path] = positions
	}
	return held
}

func (m *merge) state(s *formats.TableState) { m.states[s.Table.ID] = s }

// abandon drops what has been gathered of a table.
func (m *merge) abandon(id string) {
	delete(m.changes, id)
	delete(m.states, id)
}

// result gives the joined changes and states in a fixed order; nothing of incarnations that go.
func (m *merge) result() (changes []formats.TableChange, states []formats.TableState, forget []string) {
	for _, id := range m.forget {
		m.abandon(id)
	}
	for id, table := range m.unpublish {
		m.changes[id] = &formats.TableChange{Table: table, Unpublish: true}
	}
	for _, id := range slices.Sorted(maps.Keys(m.changes)) {
		changes = append(changes, *m.changes[id])
	}
	for _, id := range slices.Sorted(maps.Keys(m.states)) {
		states = append(states, *m.states[id])
	}
	return changes, states, m.forget
}
