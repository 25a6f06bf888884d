package queryd

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/test/postgres"
)

// testLake is a real lake whose tables are filled by hand, with a query server over it.
type testLake struct {
	testing.TB
	store  storage.Store
	lake   *iceberg.Lake
	number int64
	at     lsn.LSN
	now    time.Time
	tables map[string]*testTable

	server *Server
	port   int
}

type testTable struct {
	ref    formats.TableRef
	schema *formats.Schema
	files  []formats.DataFile
}

func newLake(t testing.TB, change ...func(*Options)) *testLake {
	t.Helper()
	return newLakeOn(t, nil, change...)
}

// newLakeOn makes a lake whose store is wrapped.
func newLakeOn(t testing.TB, wrap func(storage.Store) storage.Store, change ...func(*Options)) *testLake {
	t.Helper()
	dir := t.TempDir()
	store, err := storage.NewLocal("file://" + filepath.Join(dir, "warehouse"))
	ok(t, err)
	if wrap != nil {
		store = wrap(store)
	}
	cfg := iceberg.Config{Pipeline: "shop", Store: store, Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), Mode: iceberg.DeletionVectors}
	lake, err := iceberg.Open(t.Context(), cfg)
	ok(t, err)
	t.Cleanup(func() { lake.Close() })
	state, err := lake.Claim(t.Context())
	ok(t, err)
	l := &testLake{TB: t, store: store, lake: lake, number: state.Checkpoint, now: time.Now().UTC().Add(-time.Hour).Truncate(time.Second), tables: map[string]*testTable{}}
	reader, err := iceberg.OpenReader(t.Context(), cfg)
	ok(t, err)
	o := Options{Listen: "127.0.0.1:0", Reader: reader, Store: store, TempDir: filepath.Join(dir, "temp"), Memory: 256 << 20, Threads: 2}
	for _, f := range change {
		f(&o)
	}
	l.server, err = New(o)
	ok(t, err)
	address, err := l.server.Listen()
	ok(t, err)
	_, port, _ := strings.Cut(address.String(), ":")
	l.port, _ = strconv.Atoi(port)
	served := make(chan error, 1)
	go func() { served <- l.server.Serve(context.Background()) }()
	t.Cleanup(func() {
		ok(t, l.server.Close())
		ok(t, <-served)
		ok(t, reader.Close())
	})
	return l
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// commit makes the next checkpoint, a second of source time after the last.
func (l *testLake) commit(changes ...formats.TableChange) {
	l.Helper()
	l.number++
	l.now = l.now.Add(time.Second)
	cp := &formats.Checkpoint{Number: l.number, From: l.at, To: l.at + 100, CommitTime: l.now, Known: l.now, Changes: changes}
	ok(l, l.lake.Commit(l.Context(), cp))
	l.at += 100
}

// copyTable makes a lake table of a Postgres table with its rows, in one checkpoint.
func (l *testLake) copyTable(db *postgres.Database, schema, table string) *testTable {
	l.Helper()
	t := &testTable{ref: l.lake.NewTable(formats.TableName{Schema: schema, Table: table}), schema: describeSource(l, db, schema, table)}
	l.tables[schema+"."+table] = t
	change := formats.TableChange{Table: t.ref, Create: true, Publish: true, Schema: t.schema}
	if f := l.file(db, t, ""); f.Rows > 0 {
		change.Add = []formats.DataFile{f}
	}
	l.commit(change)
	return t
}

// source makes a table in Postgres and copies it.
func (l *testLake) source(db *postgres.Database, table, ddl string) *testTable {
	l.Helper()
	db.Exec(l, ddl)
	return l.copyTable(db, "public", table)
}

// file writes the rows of the source that match a condition to a data file.
func (l *testLake) file(db *postgres.Database, t *testTable, where string) formats.DataFile {
	l.Helper()
	fields := t.schema.Fields()
	names := make([]string, len(fields))
	codecs := make([]*types.Codec, len(fields))
	for i, c := range t.schema.Columns {
		names[i] = pgx.Identifier{c.Name}.Sanitize()
		codec, err := types.NewCodec(c.Source, c.Type, types.Options{}, false)
		ok(l, err)
		codecs[i] = codec
	}
	ctx := l.Context()
	conn, err := pgx.Connect(ctx, db.URL())
	ok(l, err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "SET timezone = 'UTC'; SET intervalstyle = 'iso_8601'; SET extra_float_digits = 3")
	ok(l, err)
	results, err := conn.PgConn().Exec(ctx, "SELECT "+strings.Join(names, ", ")+" FROM "+pgx.Identifier{t.ref.Name.Schema, t.ref.Name.Table}.Sanitize()+" "+where).ReadAll()
	ok(l, err)
	b := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(fields))
	for _, row := range results[0].Rows {
		for i, raw := range row {
			if raw == nil {
				b.Field(i).AppendNull()
				continue
			}
			ok(l, codecs[i].Append(b.Field(i), false, raw))
		}
	}
	record := b.NewRecordBatch()
	var buffer bytes.Buffer
	w, err := parquet.NewWriter(&buffer, fields, parquet.Options{})
	ok(l, err)
	ok(l, w.Write(record))
	n, size, stats, err := w.Close()
	ok(l, err)
	uri := t.ref.Location + "/data/" + uuid.NewString() + ".parquet"
	ok(l, l.store.Put(ctx, uri, buffer.Bytes()))
	f := formats.DataFile{Path: uri, Rows: n, Size: size, Stats: stats}
	t.files = append(t.files, f)
	return f
}

// add commits the source's rows that match a condition as a new file.
func (l *testLake) add(db *postgres.Database, t *testTable, where string) {
	l.Helper()
	l.commit(formats.TableChange{Table: t.ref, Add: []formats.DataFile{l.file(db, t, where)}})
}

// remove commits deletes of positions in a table's file.
func (l *testLake) remove(t *testTable, file int, positions ...uint32) {
	l.Helper()
	l.commit(formats.TableChange{Table: t.ref, Deletes: map[string]*roaring.Bitmap{t.files[file].Path: roaring.BitmapOf(positions...)}})
}

func describeSource(t testing.TB, db *postgres.Database, schema, table string) *formats.Schema {
	t.Helper()
	s := &formats.Schema{KeyKind: formats.KeyNone}
	rows := db.Query(t, fmt.Sprintf(`SELECT a.attname, a.attnum, a.atttypid, a.atttypmod, t.typname, t.typtype, coalesce(e.oid, 0), coalesce(e.typname, ''), coalesce(e.typtype, 'b'),
		a.attnotnull, coalesce((SELECT array_position(i.indkey::int2[], a.attnum) FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary), -1)
		FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
		WHERE a.attrelid = '%s'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, strings.ReplaceAll(pgx.Identifier{schema, table}.Sanitize(), "'", "''")))
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	next := len(rows) + 1
	for i, r := range rows {
		pg := types.Postgres{OID: uint32(number(r[2])), Typmod: int32(number(r[3])), Name: r[4], Schema: "pg_catalog", Class: r[5][0]}
		if r[7] != "" {
			pg.Element = &types.Postgres{OID: uint32(number(r[6])), Typmod: -1, Name: r[7], Schema: "pg_catalog", Class: r[8][0]}
		}
		c := formats.Column{Attnum: int16(number(r[1])), Source: pg}
		c.Field = types.Field{ID: i + 1, Name: r[0], Type: types.AssignIDs(types.Lake(pg, types.Options{}, false), &next)}
		if number(r[10]) >= 0 {
			s.KeyKind, s.Key = formats.KeyPrimary, append(s.Key, i)
			c.Required = true
		}
		s.Columns = append(s.Columns, c)
	}
	s.LastFieldID = next
	return s
}

// psql runs statements as the acceptance harness does, each with -c; the last one's output is given.
func (l *testLake) psql(statements ...string) (out, errors string) {
	l.Helper()
	return psql(l, l.port, "lake", statements...)
}

func psql(t testing.TB, port int, database string, statements ...string) (out, errors string) {
	t.Helper()
	args := []string{"-qAtX", "-v", "ON_ERROR_STOP=1", "-F", "|", "-P", "null=<NULL>", "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "postgres", "-d", database}
	for _, s := range statements {
		args = append(args, "-c", s)
	}
	path, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("psql is not installed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	return stdout.String(), stderr.String()
}

// want runs a query through psql and compares the output.
func (l *testLake) want(expect string, statements ...string) {
	l.Helper()
	out, errors := l.psql(statements...)
	if strings.TrimSpace(out) != strings.TrimSpace(expect) || strings.Contains(errors, "ERROR") {
		l.Errorf("%s\ngives\n%s%s\nnot\n%s", statements[len(statements)-1], out, errors, expect)
	}
}

func (l *testLake) connect() *pgx.Conn {
	l.Helper()
	conn, err := pgx.Connect(l.Context(), l.url())
	ok(l, err)
	l.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (l *testLake) url() string {
	return fmt.Sprintf("postgres://analyst@127.0.0.1:%d/lake?sslmode=disable", l.port)
}
