package iceberg_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	icelib "github.com/apache/iceberg-go"
	sqlcatalog "github.com/apache/iceberg-go/catalog/sql"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/lsn"
)

// env is a lake in a temporary folder, with a pipeline that feeds it.
type env struct {
	testing.TB
	ctx    context.Context
	cfg    iceberg.Config
	lake   *iceberg.Lake
	store  storage.Store
	number int64
	at     lsn.LSN
	now    time.Time
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newEnv(t testing.TB, change ...func(*iceberg.Config)) *env {
	t.Helper()
	dir := t.TempDir()
	e := &env{TB: t, ctx: context.Background(), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	e.store = must[storage.Store](t)(storage.NewLocal("file://" + filepath.Join(dir, "warehouse")))
	e.cfg = iceberg.Config{Pipeline: "shop", Store: e.store, Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"),
		Mode: iceberg.DeletionVectors, Now: func() time.Time { return e.now }}
	for _, f := range change {
		f(&e.cfg)
	}
	e.open()
	return e
}

// open opens the lake anew and claims it, as a restarted process would.
func (e *env) open() *formats.State {
	e.Helper()
	lake := must[*iceberg.Lake](e)(iceberg.Open(e.ctx, e.cfg))
	e.Cleanup(func() { lake.Close() })
	e.lake = lake
	st := must[*formats.State](e)(lake.Claim(e.ctx))
	e.number, e.at = st.Checkpoint, st.Position
	return st
}

func (e *env) reader() *iceberg.Reader {
	e.Helper()
	r := must[*iceberg.Reader](e)(iceberg.OpenReader(e.ctx, e.cfg))
	e.Cleanup(func() { r.Close() })
	return r
}

// next makes the following checkpoint with the given changes.
func (e *env) next(changes ...formats.TableChange) *formats.Checkpoint {
	e.now = e.now.Add(time.Second)
	return &formats.Checkpoint{Number: e.number + 1, From: e.at, To: e.at + 100, CommitTime: e.now, Known: e.now, Changes: changes}
}

func (e *env) send(cp *formats.Checkpoint) error {
	err := e.lake.Commit(e.ctx, cp)
	if err == nil {
		e.number, e.at = cp.Number, cp.To
	}
	return err
}

func (e *env) commit(changes ...formats.TableChange) {
	e.Helper()
	if err := e.send(e.next(changes...)); err != nil {
		e.Fatal(err)
	}
}

func simpleSchema() *formats.Schema {
	return &formats.Schema{KeyKind: formats.KeyPrimary, Key: []int{0}, LastFieldID: 2, Columns: []formats.Column{
		{Field: types.Field{ID: 1, Name: "id", Type: types.Type{Kind: types.Long}, Required: true}, Attnum: 1, Source: types.Postgres{OID: 20, Typmod: -1, Name: "int8"}},
		{Field: types.Field{ID: 2, Name: "val", Type: types.Type{Kind: types.String}}, Attnum: 2, Source: types.Postgres{OID: 25, Typmod: -1, Name: "text"}},
	}}
}

// create makes and publishes a table of the simple schema.
func (e *env) create(schema, name string) formats.TableRef {
	e.Helper()
	ref := e.lake.NewTable(formats.TableName{Schema: schema, Table: name})
	e.commit(formats.TableChange{Table: ref, Create: true, Publish: true, Schema: simpleSchema()})
	return ref
}

func fieldID(id int) arrow.Metadata {
	return arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{strconv.Itoa(id)})
}

// rows stores a data file of ids [from, from+n) with the value val.
func (e *env) rows(ref formats.TableRef, from, n int64, val string) formats.DataFile {
	e.Helper()
	sc := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Metadata: fieldID(1)},
		{Name: "val", Type: arrow.BinaryTypes.String, Nullable: true, Metadata: fieldID(2)}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	for i := from; i < from+n; i++ {
		b.Field(0).(*array.Int64Builder).Append(i)
		b.Field(1).(*array.StringBuilder).Append(val)
	}
	lower, _ := icelib.Int64Literal(from).MarshalBinary()
	upper, _ := icelib.Int64Literal(from + n - 1).MarshalBinary()
	return e.file(ref, b, formats.FileStats{
		ColumnSizes: map[int]int64{1: 8 * n, 2: 4 * n}, ValueCounts: map[int]int64{1: n, 2: n}, NullCounts: map[int]int64{1: 0, 2: 0},
		Lower: map[int][]byte{1: lower, 2: []byte(val)}, Upper: map[int][]byte{1: upper, 2: []byte(val)}, SplitOffsets: []int64{4}})
}

func (e *env) file(ref formats.TableRef, b *array.RecordBuilder, stats formats.FileStats) formats.DataFile {
	e.Helper()
	var buf bytes.Buffer
	record := b.NewRecordBatch()
	w := must[*pqarrow.FileWriter](e)(pqarrow.NewFileWriter(record.Schema(), &buf, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps()))
	if err := w.Write(record); err != nil {
		e.Fatal(err)
	}
	if err := w.Close(); err != nil {
		e.Fatal(err)
	}
	uri := ref.Location + "/data/" + uuid.NewString() + ".parquet"
	if err := e.store.Put(e.ctx, uri, buf.Bytes()); err != nil {
		e.Fatal(err)
	}
	return formats.DataFile{Path: uri, Rows: record.NumRows(), Size: int64(buf.Len()), Stats: stats}
}

func positions(of ...uint32) *roaring.Bitmap { return roaring.BitmapOf(of...) }

// stockCatalog opens the lake's catalog as any iceberg-go program would.
func (e *env) stockCatalog() *sqlcatalog.Catalog {
	e.Helper()
	db := must[*sql.DB](e)(sql.Open("sqlite", "file:"+e.cfg.Catalog[len("sqlite://"):]+"?_pragma=busy_timeout(5000)"))
	e.Cleanup(func() { db.Close() })
	return must[*sqlcatalog.Catalog](e)(sqlcatalog.NewCatalog("streambed", db, sqlcatalog.SQLite, nil))
}

func (e *env) stock(name formats.TableName) *table.Table {
	e.Helper()
	return must[*table.Table](e)(e.stockCatalog().LoadTable(e.ctx, table.Identifier{name.Schema, name.Table}))
}

// contents is id -> val of a table of the simple schema.
type contents map[int64]string

func (c contents) fill(from, n int64, val string) contents {
	for i := from; i < from+n; i++ {
		c[i] = val
	}
	return c
}

func (c contents) drop(ids ...int64) contents {
	for _, id := range ids {
		delete(c, id)
	}
	return c
}

// stockScan reads a table with iceberg-go's own scanner.
func stockScan(t testing.TB, st *table.Table, options ...table.ScanOption) contents {
	t.Helper()
	tb := must[arrow.Table](t)(st.Scan(options...).ToArrowTable(context.Background()))
	defer tb.Release()
	out := contents{}
	for r := array.NewTableReader(tb, 0); r.Next(); {
		collect(t, out, r.RecordBatch(), nil)
	}
	return out
}

func collect(t testing.TB, out contents, b arrow.RecordBatch, deleted *roaring.Bitmap) {
	t.Helper()
	for i := range int(b.NumRows()) {
		if deleted != nil && deleted.Contains(uint32(i)) {
			continue
		}
		id := b.Column(0).(*array.Int64).Value(i)
		if _, twice := out[id]; twice {
			t.Fatalf("id %d twice", id)
		}
		out[id] = b.Column(1).ValueStr(i)
	}
}

// scan reads a table by a plan of ours.
func (e *env) scan(r formats.Reader, view *formats.View, name formats.TableName) contents {
	e.Helper()
	plan := must[*formats.ScanPlan](e)(r.Plan(e.ctx, view, name))
	out := contents{}
	for _, f := range plan.Files {
		body := must[[]byte](e)(e.store.Get(e.ctx, f.Path))
		tb := must[arrow.Table](e)(pqarrow.ReadTable(e.ctx, bytes.NewReader(body), nil, pqarrow.ArrowReadProperties{BatchSize: f.Rows}, memory.DefaultAllocator))
		tr := array.NewTableReader(tb, f.Rows)
		for tr.Next() {
			if tr.RecordBatch().NumRows() != f.Rows {
				e.Fatalf("%s has %d rows, planned %d", f.Path, tr.RecordBatch().NumRows(), f.Rows)
			}
			collect(e, out, tr.RecordBatch(), f.Deleted)
		}
	}
	return out
}

func equal(t testing.TB, got, want contents) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Fatalf("rows differ: got %s, want %s", got, want)
	}
}

func (c contents) String() string {
	s := ""
	for _, id := range slices.Sorted(maps.Keys(c)) {
		s += fmt.Sprintf(" %d=%s", id, c[id])
	}
	return "{" + s + " }"
}

// check compares a table, read by the stock scanner and by ours, with what it should hold.
func (e *env) check(name formats.TableName, want contents) {
	e.Helper()
	equal(e, stockScan(e, e.stock(name)), want)
	r := e.reader()
	equal(e, e.scan(r, must[*formats.View](e)(r.Current(e.ctx)), name), want)
}
