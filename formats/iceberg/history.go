package iceberg

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/lsn"
)

// metadataFile is what a reader needs of a metadata file.
type metadataFile struct {
	snapshots  []pastState // by sequence
	currentID  int64
	published  int64
	properties map[string]string
}

// pastState is one kept state of a table.
type pastState struct {
	formats.SnapshotInfo
	list     string
	schemaID int
}

func (m *metadataFile) byID(id int64) *pastState {
	for i := range m.snapshots {
		if m.snapshots[i].ID == id {
			return &m.snapshots[i]
		}
	}
	return nil
}

// current is the current snapshot, or the newest where the file names none.
func (m *metadataFile) current() *pastState {
	if s := m.byID(m.currentID); s != nil {
		return s
	}
	return &m.snapshots[len(m.snapshots)-1]
}

// schema gives the formats.Schema of an Iceberg schema id.
func (m *metadataFile) schema(id int) (formats.Schema, error) {
	return decodeSchema(m.properties[schemaProperty+strconv.Itoa(id)])
}

// readMetadata reads a metadata file, which never changes.
func (r *Reader) readMetadata(ctx context.Context, location string) (*metadataFile, error) {
	if md, ok := r.metadata.Get(location); ok {
		return md, nil
	}
	body, err := r.store.Get(ctx, location)
	if err == nil {
		body, err = inflate(body)
	}
	if err != nil {
		return nil, err
	}
	md, err := parseHistory(body)
	if err != nil {
		return nil, fmt.Errorf("metadata %s: %w", location, err)
	}
	r.metadata.Put(location, md, int64(len(body)))
	return md, nil
}

func parseHistory(body []byte) (*metadataFile, error) {
	var file struct {
		Current    *int64            `json:"current-snapshot-id"`
		Properties map[string]string `json:"properties"`
		Snapshots  []struct {
			ID        int64             `json:"snapshot-id"`
			Sequence  int64             `json:"sequence-number"`
			Timestamp int64             `json:"timestamp-ms"`
			List      string            `json:"manifest-list"`
			SchemaID  int               `json:"schema-id"`
			Summary   map[string]string `json:"summary"`
		} `json:"snapshots"`
	}
	if err := json.Unmarshal(body, &file); err != nil {
		return nil, err
	}
	md := &metadataFile{currentID: value(file.Current), properties: file.Properties}
	md.published, _ = strconv.ParseInt(file.Properties[publishedProperty], 10, 64)
	for _, s := range file.Snapshots {
		number := func(key string) int64 {
			n, _ := strconv.ParseInt(s.Summary[key], 10, 64)
			return n
		}
		info := formats.SnapshotInfo{ID: s.ID, Sequence: s.Sequence, Time: time.UnixMilli(s.Timestamp).UTC(),
			Checkpoint: number(summaryCheckpoint), Operation: s.Summary["operation"], Files: number("total-data-files"),
			Deleted: number("total-position-deletes") + number("total-equality-deletes")}
		if _, ours := s.Summary[summaryRows]; ours {
			info.Rows = number(summaryRows)
			info.Deleted = number("total-records") - info.Rows
		} else {
			info.Rows = max(0, number("total-records")-info.Deleted)
		}
		info.Position, _ = lsn.Parse(s.Summary[summaryLSN])
		info.CommitTime, _ = time.Parse(time.RFC3339Nano, s.Summary[summaryCommitTime])
		md.snapshots = append(md.snapshots, pastState{SnapshotInfo: info, list: s.List, schemaID: s.SchemaID})
	}
	slices.SortStableFunc(md.snapshots, func(a, b pastState) int { return int(a.Sequence - b.Sequence) })
	// A snapshot that is not ours belongs to the checkpoint before it: it may only have rearranged what was there.
	for i := 1; i < len(md.snapshots); i++ {
		s, before := &md.snapshots[i], &md.snapshots[i-1]
		if s.Checkpoint < before.Checkpoint {
			s.Checkpoint, s.Position, s.CommitTime = before.Checkpoint, before.Position, before.CommitTime
		}
	}
	return md, nil
}
