package batcher

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/keyindex"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/committer"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/uploader"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
)

const text, int8OID = 25, 20

// fixture is a batcher with the stages behind it, on a real lake.
type fixture struct {
	t        *testing.T
	ctx      context.Context
	cancel   context.CancelFunc
	ended    chan error
	store    storage.Store
	lake     *iceberg.Lake
	index    *keyindex.Index
	dir      string
	b        *Batcher
	c        *committer.Committer
	cuts     chan *message.Cut
	relation *message.Relation
	end      lsn.LSN
	schema   formats.Schema
	kind     formats.KeyKind
	mode     iceberg.Mode
	acked    chan lsn.LSN
	// keys is Config.Keys; by default no cut of a test has as many.
	keys int
	// altered is the schema that the source is found to have when a relation differs; nil: it cannot be followed.
	altered *formats.Schema
	// replaced is what is found of a relation that looks as before; nil: its columns are the ones held.
	replaced error
}

// newFixture makes a fixture in a mode of deleting, deletion vectors unless one is given.
func newFixture(t *testing.T, kind formats.KeyKind, phase formats.Phase, mode ...iceberg.Mode) *fixture {
	f := &fixture{t: t, keys: 1000, dir: t.TempDir(), kind: kind, mode: append(mode, iceberg.DeletionVectors)[0]}
	var err error
	if f.store, err = storage.NewLocal("file://" + f.dir + "/warehouse"); err != nil {
		t.Fatal(err)
	}
	f.relation = &message.Relation{OID: 42, Schema: "public", Table: "t", Identity: 'd', Columns: []message.RelationColumn{
		{Name: "id", TypeOID: int8OID, Typmod: -1, Key: true}, {Name: "v", TypeOID: text, Typmod: -1}, {Name: "big", TypeOID: text, Typmod: -1}}}
	if kind == formats.KeyFullRow {
		f.relation.Identity = 'f'
	}
	next := 1
	for i, c := range f.relation.Columns {
		pg := types.Postgres{OID: c.TypeOID, Typmod: -1, Name: "text", Class: 'b'}
		if c.TypeOID == int8OID {
			pg.Name = "int8"
		}
		key := i == 0 && kind == formats.KeyPrimary
		column := formats.Column{Attnum: int16(i + 1), Source: pg}
		column.Name, column.Required = c.Name, key
		column.ID = next
		next++
		column.Type = types.AssignIDs(types.Lake(pg, types.Options{}, key), &next)
		f.schema.Columns = append(f.schema.Columns, column)
	}
	f.schema.KeyKind, f.schema.LastFieldID = kind, next-1
	if kind == formats.KeyPrimary {
		f.schema.Key = []int{0}
	}
	f.open(formats.TableState{Phase: phase, OID: 42, Schema: f.schema}, true)
	t.Cleanup(f.close)
	return f
}

// open starts the stages on what the lake holds, as a daemon does.
func (f *fixture) open(state formats.TableState, fresh bool) {
	f.t.Helper()
	var err error
	log := zaptest.NewLogger(f.t, zaptest.Level(zap.ErrorLevel))
	if f.lake, err = iceberg.Open(context.Background(), iceberg.Config{Pipeline: "p", Store: f.store, Catalog: "sqlite://" + filepath.Join(f.dir, "catalog.db"), Mode: f.mode, FollowsRewrites: true, Log: log}); err != nil {
		f.t.Fatal(err)
	}
	claimed, err := f.lake.Claim(context.Background())
	if err != nil {
		f.t.Fatal(err)
	}
	if fresh {
		state.Table = f.lake.NewTable(formats.TableName{Schema: "public", Table: "t"})
	} else {
		if len(claimed.Tables) != 1 {
			f.t.Fatalf("%d tables in the state", len(claimed.Tables))
		}
		state = claimed.Tables[0]
	}
	if f.index, err = keyindex.Open(filepath.Join(f.dir, "index"), keyindex.Options{CacheBytes: 8 << 20, Log: log}); err != nil {
		f.t.Fatal(err)
	}
	pool := uploader.New(f.store, 2, 2)
	f.ctx, f.cancel = context.WithCancel(context.Background())
	budget := message.NewBudget(1<<30, nil)
	f.b, err = New(f.ctx, Config{State: state, Lake: f.lake, Store: f.store, Index: f.index, Pool: pool, Budget: budget, SegmentBytes: 400, Keys: f.keys, Log: log,
		DeletesByKey: func(s *formats.Schema) bool { return f.lake.DeletesByKey(state.Table.Name, s) },
		SchemaFor: func(context.Context, *message.Relation, uint32, *formats.TableState, bool) (*formats.Schema, error) {
			if f.altered != nil {
				return f.altered, nil
			}
			return nil, TableError(errors.New("its columns changed"))
		},
		SameColumns: func(context.Context, *message.Relation, uint32, *formats.TableState) (bool, error) {
			return f.replaced == nil, f.replaced
		}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.acked = make(chan lsn.LSN, 1000)
	f.end = claimed.Position
	f.c = committer.New(committer.Config{Lake: f.lake, State: claimed, InFlight: 4, Acknowledge: func(l lsn.LSN) { f.acked <- l }, Log: log})
	f.cuts = make(chan *message.Cut)
	f.ended = make(chan error, 3)
	go func() { f.ended <- pool.Run(f.ctx) }()
	go func() { f.ended <- f.b.Run(f.ctx) }()
	go func() { f.ended <- f.c.Run(f.ctx, f.cuts) }()
}

func (f *fixture) close() {
	if f.cancel == nil {
		return
	}
	f.cancel()
	for range 3 {
		if err := <-f.ended; err != nil && !errors.Is(err, context.Canceled) {
			f.t.Errorf("a stage failed: %v", err)
		}
	}
	f.cancel = nil
	if err := f.index.Close(); err != nil {
		f.t.Error(err)
	}
	f.lake.Close()
}

// reopen is a restart: the stages end where they are and start from the lake's state.
func (f *fixture) reopen() {
	f.t.Helper()
	f.close()
	f.open(formats.TableState{}, false)
}

func value(s string) message.Value {
	switch s {
	case "NULL":
		return message.Value{Kind: 'n'}
	case "same":
		return message.Value{Kind: 'u'}
	}
	return message.Value{Kind: 't', Data: []byte(s)}
}

func tuple(values ...string) []byte {
	var all []message.Value
	for _, v := range values {
		all = append(all, value(v))
	}
	return message.AppendTuple(nil, all)
}

// change is one row change; old is nil when the stream would not send it.
type change struct {
	op   message.Operation
	kind byte
	old  []byte
	new  []byte
	xid  uint32
}

func (f *fixture) send(changes ...change) {
	f.t.Helper()
	m := &message.Rows{Relation: f.relation}
	for i, c := range changes {
		var sent message.Change
		sent.Operation, sent.OldKind = c.op, c.kind
		sent.Old.From = uint32(len(m.Bytes))
		m.Bytes = append(m.Bytes, c.old...)
		sent.Old.To, sent.New.From = uint32(len(m.Bytes)), uint32(len(m.Bytes))
		m.Bytes = append(m.Bytes, c.new...)
		sent.New.To = uint32(len(m.Bytes))
		m.Changes = append(m.Changes, sent)
		m.Transactions = append(m.Transactions, message.Transaction{First: i, XID: c.xid, Commit: f.end + 1})
	}
	f.deliver(m)
}

func (f *fixture) deliver(m message.TableMessage) {
	f.t.Helper()
	select {
	case f.b.in <- m:
	case err := <-f.ended:
		f.ended <- nil
		f.t.Fatalf("a stage ended: %v", err)
	}
}

// cut makes a checkpoint and waits until it is acknowledged.
func (f *fixture) cut() {
	f.t.Helper()
	f.end += 8
	c := message.NewCut(1)
	c.End, c.CommitTime, c.Known, c.Rows = f.end, time.Now(), time.Now(), 1
	f.deliver(c)
	f.cuts <- c
	deadline := time.After(30 * time.Second)
	for {
		select {
		case at := <-f.acked:
			if at >= f.end {
				return
			}
		case err := <-f.ended:
			f.ended <- nil
			f.t.Fatalf("a stage ended: %v", err)
		case <-deadline:
			f.t.Fatal("no acknowledgement of the cut within 30 s")
		}
	}
}

// rows reads the incarnation's live rows from the lake's files, each as its values joined, sorted.
func (f *fixture) rows() []string {
	f.t.Helper()
	live, _, err := f.lake.Files(f.ctx, f.b.state.Table, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	var all []string
	for _, file := range live {
		object, err := f.store.Open(f.ctx, file.Path)
		if err != nil {
			f.t.Fatal(err)
		}
		reader, err := parquet.Open(f.ctx, object)
		if err != nil {
			f.t.Fatal(err)
		}
		var row uint32
		for record, err := range reader.Batches(f.ctx, f.schema.Fields()) {
			if err != nil {
				f.t.Fatal(err)
			}
			for i := range int(record.NumRows()) {
				if file.Deleted == nil || !file.Deleted.Contains(row) {
					all = append(all, fmt.Sprint(record.Column(0).(*array.Int64).Value(i))+"|"+cell(record.Column(1).(*array.String), i)+"|"+cell(record.Column(2).(*array.String), i))
				}
				row++
			}
			record.Release()
		}
		object.Close()
	}
	slices.Sort(all)
	return all
}

func cell(a *array.String, i int) string {
	if a.IsNull(i) {
		return "NULL"
	}
	return a.Value(i)
}

func (f *fixture) expect(want []string) {
	f.t.Helper()
	want = slices.Clone(want)
	slices.Sort(want)
	if got := f.rows(); !slices.Equal(got, want) {
		f.t.Fatalf("the lake holds\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if reason := f.b.SetAside(); reason != "" {
		f.t.Fatal("set aside: ", reason)
	}
}
