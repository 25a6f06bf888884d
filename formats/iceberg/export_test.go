package iceberg

import (
	"time"

	"github.com/apache/iceberg-go"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
)

// SetResolveTime shortens how long a commit tries to find out what became of it.
func SetResolveTime(d time.Duration) (restore func()) {
	old := resolveTime
	resolveTime = d
	return func() { resolveTime = old }
}

// Totals gives what the lake counts of an incarnation: data files, records, delete files, deleted positions, bytes.
func (l *Lake) Totals(ref formats.TableRef) [5]int64 {
	t := l.tables[ref.ID].content.totals
	return [5]int64{t.dataFiles, t.records, t.deleteFiles(), t.posDeletes, t.size}
}

// Recount counts the same from files.
func Recount(files []iceberg.DataFile) [5]int64 {
	var t counts
	for _, f := range files {
		t.add(f, 1)
	}
	return [5]int64{t.dataFiles, t.records, t.deleteFiles(), t.posDeletes, t.size}
}

// DefaultValue exports defaultValue.
func DefaultValue(t types.Type, text string) (any, bool) { return defaultValue(t, text) }
