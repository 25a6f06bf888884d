package batcher

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/message"
)

// alter makes the source's table one with another column, and later changes come with it.
func (f *fixture) alter() {
	schema := f.schema
	pg := types.Postgres{OID: text, Typmod: -1, Name: "text", Class: 'b'}
	added := formats.Column{Attnum: 9, Source: pg}
	added.Name, added.ID, added.Type = "more", schema.LastFieldID+1, types.Lake(pg, types.Options{}, false)
	schema.Columns = append(slices.Clone(schema.Columns), added)
	schema.LastFieldID++
	schema.ID++
	f.altered = &schema
	relation := *f.relation
	relation.Columns = append(slices.Clone(relation.Columns), message.RelationColumn{Name: "more", TypeOID: text, Typmod: -1})
	f.relation = &relation
}

// A row of a table without a key is found by all its columns: after one was added, the index would find no row any more.
func TestAColumnAddedWithoutAKeyHasTheTableCopiedAnew(t *testing.T) {
	f := newFixture(t, formats.KeyFullRow, formats.Live)
	f.send(change{op: message.Insert, new: tuple("1", "a", "b")}, change{op: message.Insert, new: tuple("2", "a", "b")})
	f.cut()
	f.alter()
	f.send(change{op: message.Delete, kind: 'O', old: tuple("1", "a", "b", "NULL")})
	f.cut()
	if reason := f.b.SetAside(); !strings.Contains(reason, errResync.Error()) || f.b.Counts().Missing.Load() != 0 {
		t.Fatalf("set aside: %q, %d rows missed", reason, f.b.Counts().Missing.Load())
	}
	if got := f.rows(); len(got) != 2 {
		t.Fatalf("the table did not stay as it was: %q", got)
	}
}

// With a key the same change is made in place.
func TestAColumnAddedToATableWithAKeyIsAddedInPlace(t *testing.T) {
	f := newFixture(t, formats.KeyPrimary, formats.Live)
	f.send(change{op: message.Insert, new: tuple("1", "a", "b")}, change{op: message.Insert, new: tuple("2", "a", "b")})
	f.cut()
	f.alter()
	f.send(change{op: message.Delete, kind: 'K', old: tuple("1", "NULL", "NULL", "NULL")})
	f.cut()
	f.expect([]string{"2|a|b"})
	if state, err := f.b.State(f.ctx); err != nil || len(state.Schema.Columns) != 4 {
		t.Fatalf("the schema has %d columns (%v)", len(state.Schema.Columns), err)
	}
}

// An old row that does not carry the key finds nothing: the table is copied anew, rather than rows be missed.
func TestAnIdentityWithoutTheKeyHasTheTableCopiedAnew(t *testing.T) {
	for kind, identity := range map[formats.KeyKind]byte{formats.KeyPrimary: 'i', formats.KeyFullRow: 'd'} {
		t.Run(string(kind), func(t *testing.T) {
			f := newFixture(t, kind, formats.Live)
			f.send(change{op: message.Insert, new: tuple("1", "a", "b")})
			f.cut()
			relation := *f.relation
			relation.Identity, relation.Columns = identity, slices.Clone(relation.Columns)
			relation.Columns[0].Key, relation.Columns[1].Key = false, true
			f.relation, f.altered = &relation, &f.schema // by now it has been changed back
			f.send(change{op: message.Delete, kind: 'K', old: tuple("NULL", "a", "NULL")})
			f.cut()
			if reason := f.b.SetAside(); !strings.Contains(reason, errResync.Error()) {
				t.Fatalf("set aside: %q", reason)
			}
			if got := f.rows(); len(got) != 1 {
				t.Fatalf("the table did not stay as it was: %q", got)
			}
		})
	}
}

// A relation that comes again as it was is a sign that something happened to the table: a column may have been replaced by
// another one that looks the same, whose values are not the old one's.
func TestARelationThatComesAgainIsLookedAtBeforeItsRows(t *testing.T) {
	f := newFixture(t, formats.KeyPrimary, formats.Live)
	f.send(change{op: message.Insert, new: tuple("1", "a", "b")})
	f.cut()
	again := *f.relation
	f.relation = &again
	f.send(change{op: message.Insert, new: tuple("2", "a", "b")})
	f.cut()
	f.expect([]string{"1|a|b", "2|a|b"})
	f.replaced = NeedsResync(errors.New("a column was replaced"))
	once := *f.relation
	f.relation = &once
	f.send(change{op: message.Insert, new: tuple("3", "a", "b")})
	f.cut()
	if reason := f.b.SetAside(); !strings.Contains(reason, "a column was replaced") || !strings.Contains(reason, errResync.Error()) {
		t.Fatalf("set aside: %q", reason)
	}
	if got := f.rows(); len(got) != 2 {
		t.Fatalf("the table did not stay as it was: %q", got)
	}
}
