package iceberg

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
)

// metadata is a table's metadata file. To keep its cost flat, meta holds only the current snapshot and those under a
// tag or branch; all kept snapshots, these included, are in history in the form in which they are written.
type metadata struct {
	meta table.Metadata
	// location is where it is stored, "" before the first put; version counts its files.
	location string
	version  int
	history  []pastSnapshot // oldest first
	log      []logEntry
	// schemas are the Iceberg schemas as written, by id: iceberg-go reads integer defaults as floating-point numbers, so
	// that writing again what it read could change them.
	schemas map[int]json.RawMessage
	// schema is the formats.Schema in force, as JSON.
	schema string
}

// pastSnapshot is a kept snapshot.
type pastSnapshot struct {
	id, sequence int64
	timestamp    int64 // ms
	// checkpoint is the one that made it, or for a snapshot that is not ours, the one before.
	checkpoint int64
	schemaID   int
	raw        json.RawMessage
}

type logEntry struct {
	Timestamp int64 `json:"timestamp-ms"`
	Snapshot  int64 `json:"snapshot-id"`
}

// head is what a reader of the newest state needs.
func (m *metadata) head() head {
	h := head{Schema: m.meta.CurrentSchema().ID, Sequence: m.meta.LastSequenceNumber()}
	if s := m.meta.CurrentSnapshot(); s != nil {
		h.Snapshot, h.List = s.SnapshotID, s.ManifestList
		h.Checkpoint = m.history[len(m.history)-1].checkpoint
	}
	h.Published, _ = strconv.ParseInt(m.meta.Properties()[publishedProperty], 10, 64)
	return h
}

// metadataLogLength bounds the list of earlier metadata files in a metadata file.
const metadataLogLength = 5

// newMetadata makes the metadata of an empty table, with our field ids.
func newMetadata(ref formats.TableRef, s *formats.Schema, version int) (metadata, error) {
	schema, err := icebergSchema(s, version)
	if err != nil {
		return metadata{}, err
	}
	text, err := encodeSchema(s)
	if err != nil {
		return metadata{}, err
	}
	b, err := table.NewMetadataBuilder(version)
	if err != nil {
		return metadata{}, err
	}
	order, spec := table.UnsortedSortOrder, *iceberg.UnpartitionedSpec
	id, err := uuid.Parse(ref.ID)
	if err != nil {
		id = uuid.New()
	}
	schema.ID = 0
	steps := []func() error{
		func() error { return b.SetUUID(id) },
		func() error { return b.AddSchema(schema) },
		func() error { return b.SetCurrentSchemaID(-1) },
		func() error { return b.AddSortOrder(&order) },
		func() error { return b.SetDefaultSortOrderID(-1) },
		func() error { return b.AddPartitionSpec(&spec, true) },
		func() error { return b.SetDefaultSpecID(-1) },
		func() error { return b.SetLoc(ref.Location) },
		func() error {
			return b.SetProperties(iceberg.Properties{
				table.MetadataPreviousVersionsMaxKey: strconv.Itoa(metadataLogLength),
				"write.parquet.compression-codec":    "zstd",
				tableProperty:                        formatName(ref.Name),
				schemaProperty + "0":                 text,
			})
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return metadata{}, fmt.Errorf("cannot make Iceberg metadata: %w", err)
		}
	}
	meta, err := b.Build()
	return metadata{meta: meta, version: -1, schema: text}, err
}

// setSchema makes s the current schema.
func setSchema(b *table.MetadataBuilder, s *formats.Schema, version int) error {
	schema, err := icebergSchema(s, version)
	if err != nil {
		return err
	}
	text, err := encodeSchema(s)
	if err != nil {
		return err
	}
	if err := b.AddSchema(schema); err != nil {
		return err
	}
	if err := b.SetCurrentSchemaID(-1); err != nil {
		return err
	}
	return b.SetProperties(iceberg.Properties{schemaProperty + strconv.Itoa(b.CurrentSchema().ID): text})
}

// dropSchemas removes the schemas that no kept snapshot needs any more, together with our property of them.
func dropSchemas(b *table.MetadataBuilder, meta table.Metadata, kept []pastSnapshot) error {
	needed := map[int]bool{b.CurrentSchema().ID: true}
	for _, s := range kept {
		needed[s.schemaID] = true
	}
	var ids []int
	var properties []string
	for _, s := range meta.Schemas() {
		if !needed[s.ID] {
			ids = append(ids, s.ID)
			properties = append(properties, schemaProperty+strconv.Itoa(s.ID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if err := b.RemoveSchemas(ids); err != nil {
		return err
	}
	return b.RemoveProperties(properties)
}

// setMain moves the main branch and keeps its retention settings, which a plain update would reset.
func setMain(b *table.MetadataBuilder, meta table.Metadata, id int64) error {
	for name, ref := range meta.Refs() {
		if name != table.MainBranch {
			continue
		}
		ref.SnapshotID = id
		update := table.NewSetSnapshotRefUpdate(name, id, table.BranchRef, value(ref.MaxRefAgeMs), value(ref.MaxSnapshotAgeMs),
			value(ref.MinSnapshotsToKeep))
		return update.Apply(b)
	}
	return b.SetSnapshotRef(table.MainBranch, id, table.BranchRef)
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// pinned are the snapshots under a tag or a branch other than main.
func pinned(meta table.Metadata) map[int64]bool {
	ids := map[int64]bool{}
	for name, ref := range meta.Refs() {
		if name != table.MainBranch {
			ids[ref.SnapshotID] = true
		}
	}
	return ids
}

// addSnapshot appends a snapshot to the history, of which it keeps what keep says (the newest and pinned ones always).
// The log loses everything before a snapshot that went, as the specification asks.
func (m *metadata) addSnapshot(snap *table.Snapshot, checkpoint int64, held map[int64]bool, keep func(since, until int64) bool) (history []pastSnapshot, log []logEntry, err error) {
	raw, err := json.Marshal(snap)
	if err != nil {
		return nil, nil, err
	}
	next := pastSnapshot{id: snap.SnapshotID, sequence: snap.SequenceNumber, timestamp: snap.TimestampMs,
		checkpoint: checkpoint, schemaID: *snap.SchemaID, raw: raw}
	history = make([]pastSnapshot, 0, len(m.history)+1)
	gone := map[int64]bool{}
	for i, s := range m.history {
		until := checkpoint
		if i+1 < len(m.history) {
			until = m.history[i+1].checkpoint
		}
		if held[s.id] || keep(s.checkpoint, until) {
			history = append(history, s)
		} else {
			gone[s.id] = true
		}
	}
	history = append(history, next)
	for _, e := range m.log {
		if gone[e.Snapshot] {
			log = log[:0]
			continue
		}
		log = append(log, e)
	}
	return history, append(log, logEntry{Timestamp: snap.TimestampMs, Snapshot: snap.SnapshotID}), nil
}

// encode gives the metadata file: meta with the whole history in it.
func (m *metadata) encode() ([]byte, error) {
	slim, err := json.Marshal(m.meta)
	if err != nil {
		return nil, err
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(slim, &top); err != nil {
		return nil, err
	}
	if top["schemas"], m.schemas, err = keepSchemas(top["schemas"], m.schemas); err != nil {
		return nil, err
	}
	log, err := json.Marshal(m.log)
	if err != nil {
		return nil, err
	}
	size := len(slim)
	for _, s := range m.history {
		size += len(s.raw) + 1
	}
	if len(m.history) > 0 {
		snapshots := bytes.NewBuffer(make([]byte, 0, size))
		snapshots.WriteByte('[')
		for i, s := range m.history {
			if i > 0 {
				snapshots.WriteByte(',')
			}
			snapshots.Write(s.raw)
		}
		snapshots.WriteByte(']')
		top["snapshots"], top["snapshot-log"] = snapshots.Bytes(), log
	}
	out := bytes.NewBuffer(make([]byte, 0, size+1024))
	for i, key := range slices.Sorted(maps.Keys(top)) {
		out.WriteByte("{,"[min(i, 1)])
		out.WriteString(strconv.Quote(key))
		out.WriteByte(':')
		out.Write(top[key])
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// keepSchemas replaces the schemas in a metadata file's list with those that are known already. known is not changed.
func keepSchemas(list json.RawMessage, known map[int]json.RawMessage) (json.RawMessage, map[int]json.RawMessage, error) {
	var schemas []json.RawMessage
	if err := json.Unmarshal(list, &schemas); err != nil {
		return nil, nil, err
	}
	next := make(map[int]json.RawMessage, len(schemas))
	for i, raw := range schemas {
		var id struct {
			ID int `json:"schema-id"`
		}
		if err := json.Unmarshal(raw, &id); err != nil {
			return nil, nil, err
		}
		if old, ok := known[id.ID]; ok {
			schemas[i] = old
		}
		next[id.ID] = schemas[i]
	}
	out := []byte{'['}
	for i, raw := range schemas {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, raw...)
	}
	return append(out, ']'), next, nil
}

// decodeMetadata reads a metadata file.
func decodeMetadata(location string, body []byte) (metadata, error) {
	body, err := inflate(body)
	if err != nil {
		return metadata{}, fmt.Errorf("metadata %s: %w", location, err)
	}
	meta, err := table.ParseMetadataBytes(body)
	if err != nil {
		return metadata{}, fmt.Errorf("metadata %s: %w", location, err)
	}
	md := metadata{meta: meta, location: location, version: versionOf(location)}
	var top struct {
		Schemas json.RawMessage `json:"schemas"`
	}
	if err = json.Unmarshal(body, &top); err == nil {
		_, md.schemas, err = keepSchemas(top.Schemas, nil)
	}
	if err != nil {
		return metadata{}, fmt.Errorf("metadata %s: %w", location, err)
	}
	if current := meta.CurrentSchema(); current != nil {
		md.schema = meta.Properties()[schemaProperty+strconv.Itoa(current.ID)]
	}
	held, before := pinned(meta), int64(0)
	var slim []int64
	snapshots := meta.Snapshots()
	slices.SortStableFunc(snapshots, func(a, b table.Snapshot) int { return int(a.SequenceNumber - b.SequenceNumber) })
	for _, s := range snapshots {
		past, err := past(&s, before)
		if err != nil {
			return metadata{}, fmt.Errorf("metadata %s: %w", location, err)
		}
		before = past.checkpoint
		md.history = append(md.history, past)
		if current := meta.CurrentSnapshot(); !held[s.SnapshotID] && (current == nil || current.SnapshotID != s.SnapshotID) {
			slim = append(slim, s.SnapshotID)
		}
	}
	for e := range meta.SnapshotLogs() {
		md.log = append(md.log, logEntry{Timestamp: e.TimestampMs, Snapshot: e.SnapshotID})
	}
	if len(slim) > 0 {
		md.meta, err = table.UpdateTableMetadata(meta, []table.Update{table.NewRemoveSnapshotsUpdate(slim, false)}, "")
		if err != nil {
			return metadata{}, fmt.Errorf("metadata %s: %w", location, err)
		}
	}
	return md, nil
}

func past(s *table.Snapshot, before int64) (pastSnapshot, error) {
	raw, err := json.Marshal(s)
	p := pastSnapshot{id: s.SnapshotID, sequence: s.SequenceNumber, timestamp: s.TimestampMs, checkpoint: before,
		schemaID: value(s.SchemaID), raw: raw}
	if s.Summary != nil {
		if n, err := strconv.ParseInt(s.Summary.Properties[summaryCheckpoint], 10, 64); err == nil {
			p.checkpoint = max(n, before)
		}
	}
	return p, err
}

// versionOf reads the number at the start of a metadata file's name.
func versionOf(location string) int {
	digits, _, _ := strings.Cut(path.Base(location), "-")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// inflate unpacks a metadata file that another writer has compressed.
func inflate(body []byte) ([]byte, error) {
	if !bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		return body, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
