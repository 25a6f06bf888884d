package verify

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/stages"
	"github.com/streambed/streambed/stages/source"
	"github.com/streambed/streambed/test/postgres"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
)

// fixture is a source with a pipeline and its lake.
type fixture struct {
	*postgres.Database
	t      *testing.T
	store  storage.Store
	lake   *iceberg.Lake
	config iceberg.Config
	stop   func()
}

func newFixture(t *testing.T, ddl string) *fixture {
	t.Helper()
	f := &fixture{Database: postgres.ForTest(t).Database(t), t: t}
	f.Exec(t, ddl)
	dir := t.TempDir()
	var err error
	if f.store, err = storage.NewLocal("file://" + dir + "/warehouse"); err != nil {
		t.Fatal(err)
	}
	log := zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
	f.config = iceberg.Config{Pipeline: "p", Store: f.store, Catalog: "sqlite://" + dir + "/catalog.db", Mode: iceberg.DeletionVectors, Log: log}
	f.open()
	p, err := stages.New(stages.Options{Pipeline: "p", Source: stages.SourceOptions{URL: f.URL(), Slot: f.source().Slot, Publication: "p", Tables: []string{"*.*"}},
		Lake: f.lake, Store: f.store, StateDir: dir + "/state", Memory: 64 << 20, UploadWorkers: 2, CopyWorkers: 2, InFlight: 2, TargetFileSize: 32 << 20,
		Flush: stages.FlushOptions{Interval: 100 * time.Millisecond, Rows: 1000, Bytes: 16 << 20}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	var stopped atomic.Bool
	f.stop = func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the pipeline ended with %v", err)
		}
	}
	t.Cleanup(func() {
		f.stop()
		_ = f.lake.Close()
	})
	postgres.Eventually(t, "the pipeline to have copied its tables", func() bool { return p.Status().Ready })
	return f
}

func (f *fixture) open() {
	f.t.Helper()
	var err error
	if f.lake, err = iceberg.Open(f.t.Context(), f.config); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) source() source.Config {
	return source.Config{URL: f.URL(), Slot: "slot_" + f.Name, Publication: "p", Tables: []string{"*.*"}}
}

func (f *fixture) options(table string) Options {
	return Options{Source: f.source(), Reader: f.lake.Reader(), Store: f.store, Table: formats.TableName{Schema: "public", Table: table},
		Progress: func(text string) { f.t.Logf("%s: %s", table, text) }}
}

func (f *fixture) verify(o Options) *Result {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	r, err := Verify(ctx, o)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// damage changes the lake's table behind everybody's back: remove tells which of its live rows go, by the table's columns
// as text; the record, if any, is added.
func (f *fixture) damage(table string, remove func(values []string) bool, add func(fields *arrow.Schema) arrow.RecordBatch) {
	f.t.Helper()
	ctx := f.t.Context()
	f.stop()
	_ = f.lake.Close()
	f.open()
	state, err := f.lake.Claim(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	var held *formats.TableState
	for i := range state.Tables {
		if state.Tables[i].Table.Name.Table == table {
			held = &state.Tables[i]
		}
	}
	change := formats.TableChange{Table: held.Table, Deletes: map[string]*roaring.Bitmap{}}
	view, err := f.lake.Reader().Current(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	v := &verifier{o: f.options(table)}
	err = v.eachFile(ctx, view, func(file *parquet.File, scan formats.ScanFile) error {
		return eachRow(ctx, file, scan, held.Schema.Fields(), func(position int64, rec arrow.RecordBatch, row int) error {
			if remove == nil || !remove(shown(held.Schema.Fields(), rec, row)) {
				return nil
			}
			if change.Deletes[scan.Path] == nil {
				change.Deletes[scan.Path] = roaring.New()
			}
			change.Deletes[scan.Path].Add(uint32(position))
			return nil
		})
	})
	if err != nil {
		f.t.Fatal(err)
	}
	if add != nil {
		change.Add = append(change.Add, f.write(held, add))
	}
	err = f.lake.Commit(ctx, &formats.Checkpoint{Number: state.Checkpoint + 1, From: state.Position, To: state.Position,
		CommitTime: state.CommitTime, Known: state.Known, Changes: []formats.TableChange{change}})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) write(held *formats.TableState, add func(*arrow.Schema) arrow.RecordBatch) formats.DataFile {
	f.t.Helper()
	var body bytes.Buffer
	w, err := parquet.NewWriter(&body, held.Schema.Fields(), parquet.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	rec := add(schemaOf(held.Schema.Fields()))
	defer rec.Release()
	if err := w.Write(rec); err != nil {
		f.t.Fatal(err)
	}
	file := formats.DataFile{Path: held.Table.Location + "/data/damage.parquet"}
	if file.Rows, file.Size, file.Stats, err = w.Close(); err != nil {
		f.t.Fatal(err)
	}
	if err := f.store.Put(f.t.Context(), file.Path, body.Bytes()); err != nil {
		f.t.Fatal(err)
	}
	return file
}

// told gives the differences as lines.
func told(r *Result) string {
	var lines []string
	for _, d := range r.Differences {
		line := fmt.Sprintf("%s: %s (%d, %d)", d.Kind, d.Key, d.SourceRows, d.LakeRows)
		for _, c := range d.Columns {
			line += fmt.Sprintf(" %s: %s, %s", c.Column, c.Source, c.Lake)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
