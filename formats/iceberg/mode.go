package iceberg

import (
	"context"
	"fmt"

	"github.com/streambed/streambed/formats"
)

// Mode says how deletes are stored.
type Mode string

// The modes: CopyOnWrite rewrites files, MergeOnRead writes equality deletes (format 2), DeletionVectors keeps one
// vector a data file (format 3).
const (
	CopyOnWrite     Mode = "cow"
	MergeOnRead     Mode = "mor"
	DeletionVectors Mode = "dv"
)

// strategy is what the modes differ in.
type strategy interface {
	// version is the format's of the mode's tables.
	version() int
	// settled reports whether the mode can leave the delete files of a table, of its version, as they are.
	settled(c *content) bool
	// before may read and store data files, and put another change in the place of the row's.
	before(ctx context.Context, l *Lake, r *row) error
	// deletes stages the change's files, the removal of those that before replaced, and what removes deleted rows. It
	// does no I/O.
	deletes(s *stager, r *row) error
}

var modes = map[Mode]strategy{CopyOnWrite: copyMode{}, MergeOnRead: mergeMode{}, DeletionVectors: vectorMode{}}

// mode is a table's.
func (c *Config) mode(name formats.TableName) Mode {
	if m, ok := c.Modes[name]; ok {
		return m
	}
	return c.Mode
}

func (c *Config) strategy(name formats.TableName) strategy { return modes[c.mode(name)] }

// checkModes looks at what only a writer needs.
func (c *Config) checkModes() error {
	all := []Mode{c.Mode}
	for _, m := range c.Modes {
		all = append(all, m)
	}
	for _, m := range all {
		if modes[m] == nil {
			return fmt.Errorf("%q is not an Iceberg mode: use %q, %q or %q", m, CopyOnWrite, MergeOnRead, DeletionVectors)
		}
		if m == CopyOnWrite && !c.FollowsRewrites {
			return fmt.Errorf("Iceberg mode %q is not for a pipeline that does not follow rewritten files: use %q", m, DeletionVectors)
		}
	}
	return nil
}

// DeletesByKey reports whether changes of a table should carry the keys of what they delete: in mode mor, where the key
// can be compared in Iceberg. Nested columns cannot, and floating-point ones must not (table spec, "Equality Delete
// Files"); rows of such tables are deleted by position.
func (l *Lake) DeletesByKey(name formats.TableName, schema *formats.Schema) bool {
	return l.cfg.mode(name) == MergeOnRead && len(identifiers(schema)) > 0
}

var _ formats.KeyDeleter = (*Lake)(nil)
