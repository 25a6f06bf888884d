package iceberg

import (
	"fmt"
	"strconv"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/streambed/streambed/formats"
)

// Keys of a snapshot's summary that are ours.
const (
	summaryLSN        = "streambed.lsn"
	summaryCommitTime = "streambed.commit-time"
	summaryCheckpoint = "streambed.checkpoint"
	// summaryRows is the number of rows that are not deleted: a key may stand in an equality delete file, of cuts that
	// shared a swap, that reaches none.
	summaryRows = "streambed.rows"
)

// counts are the quantities behind the added-, removed- and total- entries of a summary.
type counts struct {
	dataFiles, records, eqFiles, eqDeletes, posFiles, vectors, posDeletes, size int64
}

func (c *counts) add(f iceberg.DataFile, sign int64) {
	size := f.FileSizeBytes()
	switch f.ContentType() {
	case iceberg.EntryContentData:
		c.dataFiles += sign
		c.records += sign * f.Count()
	case iceberg.EntryContentEqDeletes:
		c.eqFiles += sign
		c.eqDeletes += sign * f.Count()
	default:
		c.posDeletes += sign * f.Count()
		if isVector(f) { // many vectors share a Puffin file: each counts with its own blob
			c.vectors += sign
			size = *f.ContentSizeInBytes()
		} else {
			c.posFiles += sign
		}
	}
	c.size += sign * size
}

// liveRows is the number of rows of a snapshot, estimated by its totals when it is not ours.
func liveRows(total *counts, s *table.Snapshot) int64 {
	if s.Summary != nil {
		if n, err := strconv.ParseInt(s.Summary.Properties[summaryRows], 10, 64); err == nil {
			return n
		}
	}
	return max(0, total.records-total.posDeletes-total.eqDeletes)
}

func (c *counts) deleteFiles() int64 { return c.eqFiles + c.posFiles + c.vectors }

func isVector(f iceberg.DataFile) bool { return f.FileFormat() == iceberg.PuffinFile }

// summarize moves the totals on and gives the summary in the layout of the Java library, with ours added.
func summarize(total *counts, added, gone []*entry, cp *formats.Checkpoint) (*table.Summary, error) {
	var a, r counts
	for _, e := range added {
		a.add(e.file, 1)
		total.add(e.file, 1)
	}
	for _, e := range gone {
		r.add(e.file, 1)
		total.add(e.file, -1)
	}
	if total.size < 0 || total.records < 0 || total.posDeletes < 0 {
		return nil, fmt.Errorf("the totals would become negative: %+v", *total)
	}
	p := iceberg.Properties{
		summaryLSN:        cp.To.String(),
		summaryCommitTime: cp.CommitTime.UTC().Format(time.RFC3339Nano),
		summaryCheckpoint: strconv.FormatInt(cp.Number, 10),
	}
	set := func(key string, v int64) { p[key] = strconv.FormatInt(v, 10) }
	positive := func(key string, v int64) {
		if v > 0 {
			set(key, v)
		}
	}
	for _, side := range []struct {
		counts
		data, deletes string
	}{{a, "added-", "added-"}, {r, "deleted-", "removed-"}} {
		positive(side.data+"data-files", side.dataFiles)
		positive(side.data+"records", side.records)
		positive(side.deletes+"delete-files", side.deleteFiles())
		positive(side.deletes+"equality-delete-files", side.eqFiles)
		positive(side.deletes+"equality-deletes", side.eqDeletes)
		positive(side.deletes+"position-delete-files", side.posFiles)
		positive(side.deletes+"dvs", side.vectors)
		positive(side.deletes+"position-deletes", side.posDeletes)
		positive(side.deletes+"files-size", side.size)
	}
	set("total-data-files", total.dataFiles)
	set("total-records", total.records)
	set("total-delete-files", total.deleteFiles())
	set("total-equality-deletes", total.eqDeletes)
	set("total-position-deletes", total.posDeletes)
	set("total-files-size", total.size)
	return &table.Summary{Operation: operation(&a, &r), Properties: p}, nil
}

func operation(added, removed *counts) table.Operation {
	switch {
	case removed.dataFiles > 0 && added.dataFiles == 0, added.dataFiles == 0 && added.deleteFiles() > 0:
		return table.OpDelete
	case removed.dataFiles > 0, added.deleteFiles() > 0:
		return table.OpOverwrite
	}
	return table.OpAppend
}
