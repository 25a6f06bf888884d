package ducklake_test

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/conformance"
	"github.com/streambed/streambed/formats/ducklake"
	"github.com/streambed/streambed/formats/types"
)

var busy = formats.TableName{Schema: "public", Table: "busy"}

// arranged writes rows as the files that the lake wants of them, as the pipeline does.
func (e *env) arranged(ref formats.TableRef, rows conformance.Rows) (files []formats.DataFile) {
	e.Helper()
	schema := conformance.NewSchema()
	arranger := e.lake.Arranger(ref.Name, schema)
	if arranger == nil {
		return []formats.DataFile{e.file(ref, rows)}
	}
	fields := make([]types.Field, 0, 2)
	for _, c := range arranger.Columns() {
		fields = append(fields, schema.Columns[c].Field)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(fields))
	defer b.Release()
	keys := slices.Sorted(maps.Keys(rows))
	for _, key := range keys {
		for i, c := range arranger.Columns() {
			if c == 0 {
				b.Field(i).(*array.Int64Builder).Append(key)
			} else {
				b.Field(i).(*array.StringBuilder).Append(rows[key][2])
			}
		}
	}
	record := b.NewRecordBatch()
	defer record.Release()
	groups, err := arranger.Arrange(record)
	if err != nil {
		e.Fatal(err)
	}
	for _, g := range groups {
		part := conformance.Rows{}
		for _, i := range g.Rows {
			part[keys[i]] = rows[keys[i]]
		}
		file := e.fileIn(ref, part, g.Folder)
		file.Partition = g.Partition
		files = append(files, file)
	}
	return files
}

// fileIn writes rows into a folder of the table.
func (e *env) fileIn(ref formats.TableRef, rows conformance.Rows, folder string) formats.DataFile {
	e.Helper()
	file := e.file(ref, rows)
	body, err := e.cfg.Store.Get(e.ctx, file.Path)
	if err == nil {
		file.Path = ref.Location + "/" + folder + "/" + path.Base(file.Path)
		err = e.cfg.Store.Put(e.ctx, file.Path, body)
	}
	if err != nil {
		e.Fatal(err)
	}
	return file
}

// byBucket is a lake whose table "busy" is partitioned and sorted, and whose small files are inlined or not.
func byBucket(config func(testing.TB) ducklake.Config) func(testing.TB) ducklake.Config {
	return func(t testing.TB) ducklake.Config {
		cfg := config(t)
		cfg.Arrangements = map[formats.TableName]formats.Arrangement{busy: {
			PartitionBy: []formats.Transform{{Name: "bucket", Width: 3, Column: "id"}}, SortBy: []formats.SortField{{Column: "val", Descending: true}, {Column: "id"}}}}
		return cfg
	}
}

func TestMaintenanceKeepsPartitions(t *testing.T) {
	for name, config := range map[string]func(testing.TB) ducklake.Config{"Files": config, "Inlined": inlining, "Postgres": inlined(onPostgres(t))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMaintained(t, byBucket(config), nil)
			d := newDuckDB(t, m.cfg)
			flushed, compacted := 0, 0
			for round := range 3 {
				for range 3 {
					m.step(formats.TableChange{}, m.places)
				}
				stale := maps.Clone(m.places)
				flushed += m.maintain(formats.Flush, round%2).Before
				compacted += m.maintain(formats.Compact, round%2).Before
				m.step(formats.TableChange{}, stale)
				if round == 1 {
					m.open() // partitions are known from the catalog, and of inlined rows from what they hold
					m.locate()
				}
			}
			if flushed+compacted < 20 {
				t.Fatalf("%d inlined files were flushed and %d files compacted", flushed, compacted)
			}
			m.maintain(formats.Flush, 0)
			m.maintain(formats.Compact, 0)
			m.check(d)
			checkBuckets(t, m, d)
			m.locate()
		})
	}
}

// checkBuckets compares every stored file with what the catalog says of it, by DuckDB's own reckoning.
func checkBuckets(t *testing.T, m *maintained, d *duckDB) {
	t.Helper()
	var files, known int
	if err := d.catalog.QueryRow(`SELECT count(*), count(partition_id) FROM ducklake_data_file WHERE end_snapshot IS NULL`).Scan(&files, &known); err != nil {
		t.Fatal(err)
	}
	if files == 0 || known != files {
		t.Fatalf("%d of %d files have a partition", known, files)
	}
	for bucket, file := range filesByPartition(t, d) {
		rows := d.query("SELECT (murmur3_32(id) & 2147483647) % 3, id, val FROM read_parquet('" + file + "', hive_partitioning = false)")
		if !slices.IsSortedFunc(rows, func(a, b []*string) int { return -strings.Compare(*a[2], *b[2]) }) {
			t.Errorf("the rows of %s are not sorted by val", file)
		}
		for _, row := range rows {
			if *row[0] != bucket {
				t.Errorf("row %s of bucket %s is in a file of bucket %s", *row[1], *row[0], bucket)
			}
		}
	}
}

// filesByPartition gives the newest live file of each partition of one field.
func filesByPartition(t *testing.T, d *duckDB) map[string]string {
	t.Helper()
	rows, err := d.catalog.Query(`SELECT v.partition_value, m.value || s.path || t.path || f.path FROM ducklake_data_file f
		JOIN ducklake_file_partition_value v ON v.data_file_id = f.data_file_id JOIN ducklake_table t ON t.table_id = f.table_id
		JOIN ducklake_schema s ON s.schema_id = t.schema_id JOIN ducklake_metadata m ON m.key = 'data_path' WHERE f.end_snapshot IS NULL ORDER BY f.data_file_id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	files := map[string]string{}
	for rows.Next() {
		var value, file string
		if err := rows.Scan(&value, &file); err != nil {
			t.Fatal(err)
		}
		files[value] = file
	}
	return files
}

// TestDuckDBKnowsTheArrangement has DuckDB write into a partitioned and sorted table, merge and prune by it, and the
// pipeline go on.
func TestDuckDBKnowsTheArrangement(t *testing.T) {
	t.Parallel()
	t.Run("Files", func(t *testing.T) { duckDBKnows(t, config) })
	t.Run("Inlined", func(t *testing.T) { duckDBKnows(t, inlining) })
}

func duckDBKnows(t *testing.T, config func(testing.TB) ducklake.Config) {
	m := newMaintained(t, byBucket(config), nil)
	d := newDuckDB(t, m.cfg)
	for range 3 {
		m.step(formats.TableChange{}, m.places)
	}
	d.query("INSERT INTO lake.public.busy SELECT i, 'duck' || i FROM range(1000, 1020) r(i)")
	for key := int64(1000); key < 1020; key++ {
		m.rows[key] = conformance.Row{2: "duck" + strconv.FormatInt(key, 10)}
	}
	checkBuckets(t, m, d) // its own three files too
	d.query("CALL ducklake_flush_inlined_data('lake')")
	d.query("CALL ducklake_merge_adjacent_files('lake')")
	m.open()
	m.locate()
	m.step(formats.TableChange{}, m.places)
	m.maintain(formats.Flush, 0)
	m.maintain(formats.Compact, 0)
	m.locate()
	checkBuckets(t, m, d)
	for _, key := range []int64{1000, 1001, 1002, 1003} {
		if m.rows[key] == nil {
			continue
		}
		if got := d.value("SELECT val FROM lake.public.busy WHERE id = " + strconv.FormatInt(key, 10)); got != m.rows[key][2] {
			t.Errorf("DuckDB finds %q by id %d", got, key)
		}
	}
	var expressions string
	if err := d.catalog.QueryRow(`SELECT group_concat(expression || ' ' || sort_direction || ' ' || null_order, ', ') FROM ducklake_sort_expression`).Scan(&expressions); err != nil {
		t.Fatal(err)
	}
	if expressions != "val DESC NULLS_LAST, id ASC NULLS_FIRST" {
		t.Errorf("the table is sorted by %s", expressions)
	}
}

// TestAnArrangementMayChange: new files follow it, old ones stay as they are, and inlined rows of before go into a file of
// no partition.
func TestAnArrangementMayChange(t *testing.T) {
	t.Parallel()
	m := newMaintained(t, inlining, nil)
	m.step(formats.TableChange{}, m.places)
	m.cfg.Arrangements = byBucket(config)(t).Arrangements
	m.open()
	m.locate()
	m.step(formats.TableChange{}, m.places)
	d := newDuckDB(t, m.cfg)
	m.maintain(formats.Flush, 0)
	count := func(query string) (n int) {
		t.Helper()
		if err := d.catalog.QueryRow(query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(`SELECT count(*) FROM ducklake_data_file WHERE end_snapshot IS NULL AND partition_id IS NULL`); n != 1 {
		t.Errorf("%d files are of no partition, want 1", n)
	}
	if n := count(`SELECT count(*) FROM ducklake_partition_column WHERE transform = 'bucket(3)'`); n != 1 {
		t.Errorf("%d partition columns, want 1", n)
	}
	m.check(d)
	m.cfg.Arrangements = nil
	m.open()
	m.locate()
	m.step(formats.TableChange{}, m.places)
	if n := count(`SELECT (SELECT count(*) FROM ducklake_partition_info WHERE end_snapshot IS NULL) + (SELECT count(*) FROM ducklake_sort_info WHERE end_snapshot IS NULL)`); n != 0 {
		t.Errorf("%d arrangements are left, want none", n)
	}
	m.maintain(formats.Compact, 0)
	m.check(d)
}
