package iceberg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
	"go.uber.org/zap"
)

// switchModes brings every table to the mode that the configuration has for it. Each is a checkpoint of its own in which
// no row changes, so that readers see the same rows before and after; pending deletes are carried over as the new mode
// stores them. It runs in Claim, before anybody looks up rows: files that it rewrites are new to the key index.
func (l *Lake) switchModes(ctx context.Context) error {
	for _, id := range sortedKeys(l.tables) {
		inc := l.tables[id]
		name := inc.state.Table.Name
		mode := l.cfg.mode(name)
		if inc.pointer == "" || inc.head.Mode == mode || !inc.published && inc.state.Phase != formats.Copying {
			continue
		}
		c, err := l.loaded(ctx, inc)
		if err != nil {
			return err
		}
		if s := modes[mode]; c.meta.Version() == s.version() && s.settled(c) {
			continue // the next commit notes the mode
		}
		begun, from := time.Now(), inc.head.Mode
		st := &l.state
		cp := &formats.Checkpoint{Number: st.Checkpoint + 1, From: st.Position, To: st.Position, CommitTime: st.CommitTime, Known: st.Known,
			Changes: []formats.TableChange{{Table: inc.state.Table}}}
		if err := l.commit(ctx, cp, true); errors.Is(err, storage.ErrNotFound) {
			// Promise 7: the next change sets the table aside, and the others go on.
			inc.stuck = fmt.Errorf("it cannot be brought to mode %s, since a file of it is gone; resync it: %w", mode, err)
			l.cfg.Log.Error("table cannot be switched to another mode", zap.String("table", formatName(name)), zap.Error(inc.stuck))
			continue
		} else if err != nil {
			return fmt.Errorf("switching table %s to mode %s: %w", formatName(name), mode, err)
		}
		l.cfg.Log.Info("table switched to another mode", zap.String("table", formatName(name)), zap.String("from", string(from)),
			zap.String("to", string(mode)), zap.Int64("checkpoint", cp.Number), zap.Duration("took", time.Since(begun)))
	}
	return nil
}

// convert prepares a row for its new mode: all deleted rows become the change's deletes, and the metadata gets the
// mode's format version.
func (l *Lake) convert(ctx context.Context, r *row) error {
	if err := l.settle(ctx, r); err != nil {
		return err
	}
	version := r.mode.version()
	if r.inc.content.meta.Version() == version {
		return nil
	}
	md, err := r.inc.content.metadata.as(version)
	if err != nil {
		return fmt.Errorf("cannot bring table %s to format %d: %w", formatName(r.state.Table.Name), version, err)
	}
	base := *r.inc.content
	base.metadata = md
	r.base = &base
	if version >= 3 {
		return nil
	}
	return l.writeDefaults(ctx, r)
}

// settle makes the change's deletes hold all deleted rows of the table, by position.
func (l *Lake) settle(ctx context.Context, r *row) error {
	c := r.inc.content
	all, err := l.deletedByKey(ctx, c, 0)
	if err != nil {
		return fmt.Errorf("table %s: %w", formatName(r.state.Table.Name), err)
	}
	deletes := map[string]*roaring.Bitmap{}
	add := func(path string, bits *roaring.Bitmap) {
		if e := c.files[path]; e == nil || e.file.ContentType() != dataContent {
			if r.change.Deletes[path] == nil {
				return // about a file that is gone
			}
		}
		deletes[path] = joined(deletes[path], bits)
	}
	for path, bits := range all {
		add(path, bits)
	}
	for path, old := range c.removed {
		if old.bits != nil {
			add(path, old.bits)
		}
	}
	for path, bits := range r.change.Deletes {
		add(path, bits)
	}
	change := *r.change
	change.Deletes, change.Keys, change.Keyed = deletes, nil, nil
	r.change, r.settles = &change, true
	return nil
}

// writeDefaults rewrites the files that lack a column with a default, which format 2 cannot say.
func (l *Lake) writeDefaults(ctx context.Context, r *row) error {
	schema, err := r.schemaAfter()
	if err != nil {
		return err
	}
	var sources []source
	for _, path := range sortedKeys(r.inc.content.files) {
		file := r.inc.content.files[path].file
		if file.ContentType() != dataContent || !slices.ContainsFunc(schema.Columns, func(c formats.Column) bool {
			_, held := file.ValueCounts()[firstLeaf(&c.Field)]
			return c.Default != nil && !held
		}) {
			continue
		}
		deleted := r.change.Deletes[path]
		if deleted == nil {
			deleted = roaring.New()
		}
		sources = append(sources, source{path: path, rows: file.Count(), size: file.FileSizeBytes(), deleted: deleted})
	}
	return l.replace(ctx, r, sources)
}

// firstLeaf is the field id by which a file's statistics tell that it has a column.
func firstLeaf(f *types.Field) int {
	for len(f.Type.Fields) > 0 {
		f = &f.Type.Fields[0]
	}
	return f.ID
}

// as gives the metadata in another format version, as if every file of it had been written so: the schemas with the
// defaults that the version knows, and without the snapshots that only the version before can express.
func (m *metadata) as(version int) (metadata, error) {
	body, err := m.encode()
	if err != nil {
		return metadata{}, err
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(body, &top); err != nil {
		return metadata{}, err
	}
	top["format-version"] = json.RawMessage(strconv.Itoa(version))
	if err := m.schemasAs(top, version); err != nil {
		return metadata{}, err
	}
	if version >= 3 {
		top["next-row-id"] = json.RawMessage("0")
	} else if err := dropNewer(top); err != nil {
		return metadata{}, err
	}
	if body, err = json.Marshal(top); err != nil {
		return metadata{}, err
	}
	out, err := decodeMetadata(m.location, body)
	out.version = m.version
	return out, err
}

// schemasAs writes the schemas again, from ours.
func (m *metadata) schemasAs(top map[string]json.RawMessage, version int) error {
	var schemas []json.RawMessage
	if err := json.Unmarshal(top["schemas"], &schemas); err != nil {
		return err
	}
	for i, raw := range schemas {
		var head struct {
			ID int `json:"schema-id"`
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return err
		}
		ours, err := decodeSchema(m.meta.Properties()[schemaProperty+strconv.Itoa(head.ID)])
		if err != nil {
			return fmt.Errorf("schema %d: %w", head.ID, err)
		}
		schema, err := icebergSchema(&ours, version)
		if err != nil {
			return err
		}
		schema.ID = head.ID
		if schemas[i], err = json.Marshal(schema); err != nil {
			return err
		}
	}
	var err error
	top["schemas"], err = json.Marshal(schemas)
	return err
}

// dropNewer takes out of a metadata file what came with format 3: row ids, keys, and the snapshots that were written in
// it, whose manifests format 2 cannot read.
func dropNewer(top map[string]json.RawMessage) error {
	for _, key := range []string{"next-row-id", "encryption-keys", "statistics", "partition-statistics"} {
		delete(top, key)
	}
	type snapshot struct {
		ID         int64  `json:"snapshot-id"`
		FirstRowID *int64 `json:"first-row-id"`
	}
	gone := map[int64]bool{}
	err := keepOf(top, "snapshots", func(s snapshot) bool {
		gone[s.ID] = s.FirstRowID != nil
		return s.FirstRowID == nil
	})
	if err != nil {
		return err
	}
	if err := keepOf(top, "snapshot-log", func(e logEntry) bool { return !gone[e.Snapshot] }); err != nil {
		return err
	}
	var refs map[string]json.RawMessage
	if raw, ok := top["refs"]; ok {
		if err := json.Unmarshal(raw, &refs); err != nil {
			return err
		}
	}
	for name, raw := range refs {
		var of snapshot
		if err := json.Unmarshal(raw, &of); err != nil {
			return err
		}
		if gone[of.ID] {
			delete(refs, name)
		}
	}
	if top["refs"], err = json.Marshal(refs); err != nil {
		return err
	}
	var current int64
	if raw, ok := top["current-snapshot-id"]; ok {
		if err := json.Unmarshal(raw, &current); err != nil {
			return err
		}
	}
	if gone[current] {
		delete(top, "current-snapshot-id")
	}
	return nil
}

// keepOf keeps the elements of a list of a metadata file that keep says.
func keepOf[T any](top map[string]json.RawMessage, key string, keep func(T) bool) error {
	raw, ok := top[key]
	if !ok {
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	kept := make([]json.RawMessage, 0, len(list))
	for _, element := range list {
		var v T
		if err := json.Unmarshal(element, &v); err != nil {
			return err
		}
		if keep(v) {
			kept = append(kept, element)
		}
	}
	var err error
	top[key], err = json.Marshal(kept)
	return err
}
