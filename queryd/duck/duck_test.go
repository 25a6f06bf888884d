package duck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

func open(t *testing.T, directories ...string) *DB {
	t.Helper()
	db, err := Open(Config{Memory: 256 << 20, TempDir: t.TempDir(), Threads: 2, Directories: directories, Setup: []string{"SET errors_as_json = true"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func connect(t *testing.T, db *DB) *Conn {
	t.Helper()
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Release)
	return c
}

func TestStreamedResultIsWholeAndMayBeLeftEarly(t *testing.T) {
	c := connect(t, open(t))
	s, err := c.Prepare(t.Context(), "SELECT i, 'text that is long enough for the heap ' || i FROM range(1000000) t(i)")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, limit := range []int{1 << 30, 5000} {
		rows, err := s.Execute(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for n < limit {
			chunk, err := rows.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if chunk == nil {
				break
			}
			for i := range chunk.Rows {
				if At[int64](&chunk.Columns[0], i) != int64(n) || string(chunk.Columns[1].Bytes(i)) != fmt.Sprint("text that is long enough for the heap ", n) {
					t.Fatalf("row %d is wrong", n)
				}
				n++
			}
		}
		if limit == 1<<30 && n != 1000000 {
			t.Fatalf("%d rows", n)
		}
		rows.Close()
	}
	if text, _, err := c.Text(t.Context(), "SELECT 'usable'"); text != "usable" || err != nil {
		t.Fatal(text, err)
	}
}

func TestStatementEndsWithItsContext(t *testing.T) {
	c := connect(t, open(t))
	for _, sql := range []string{
		"SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)",
		"SELECT a.i FROM range(10000000) a(i), range(10000000) b(i) WHERE a.i + b.i < 0",
	} {
		s, err := c.Prepare(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		reason := errors.New("the reason")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancelled := make(chan struct{})
		go func() { defer close(cancelled); cancel(reason) }()
		rows, err := s.Execute(ctx)
		if err == nil {
			var chunk *Chunk
			if chunk, err = rows.Next(ctx); chunk != nil {
				t.Fatal("a row came")
			}
			rows.Close()
		}
		if !errors.Is(err, reason) {
			t.Fatalf("%s: %v", sql, err)
		}
		<-cancelled
		s.Close()
	}
	if text, _, err := c.Text(t.Context(), "SELECT 'usable'"); text != "usable" || err != nil {
		t.Fatal(text, err)
	}
}

func TestErrorInTheMiddleOfAResultIsTold(t *testing.T) {
	c := connect(t, open(t))
	s, err := c.Prepare(t.Context(), "SELECT CAST(CASE WHEN i = 900000 THEN 'x' ELSE '1' END AS INTEGER) FROM range(1000000) t(i)")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows, err := s.Execute(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var chunk *Chunk
	for chunk, err = rows.Next(t.Context()); chunk != nil; chunk, err = rows.Next(t.Context()) {
	}
	var e *Error
	if !errors.As(err, &e) || e.SQLState() != "22P02" {
		t.Fatalf("%v", err)
	}
}

func TestNothingOutsideItsFoldersIsReachable(t *testing.T) {
	lake, other := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "secret.csv"), []byte("a\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := connect(t, open(t, lake))
	for _, sql := range []string{
		"SELECT * FROM read_csv('" + other + "/secret.csv')",
		"SELECT * FROM read_text('" + lake + "/../" + filepath.Base(other) + "/secret.csv')",
		"COPY (SELECT 1) TO '" + other + "/x.csv'",
		"SET enable_external_access = true",
		"SET allowed_directories = ['/']",
		"INSTALL httpfs", "LOAD httpfs", "ATTACH '" + other + "/x.db'",
	} {
		if err := c.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s was allowed", sql)
		}
	}
}

func TestSpillingWorksWhileConfined(t *testing.T) {
	db, err := Open(Config{Memory: 48 << 20, TempDir: t.TempDir(), Threads: 2, Setup: []string{"SET errors_as_json = true"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	c := connect(t, db)
	text, _, err := c.Text(t.Context(), "SELECT count(*)::varchar FROM (SELECT i, md5(i::varchar) m FROM range(2000000) t(i) ORDER BY m) WHERE m > ''")
	if err != nil || text != "2000000" {
		t.Fatal(text, err)
	}
}

func TestDeletedRowsAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	outside, err := Open(Config{Directories: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	c := connect(t, outside)
	var paths []string
	for i := range 3 {
		p := filepath.Join(dir, fmt.Sprintf("%d.parquet", i))
		paths = append(paths, p)
		if err := c.Exec(t.Context(), fmt.Sprintf("COPY (SELECT %d * 1000000 + i AS i FROM range(200000) t(i)) TO '%s'", i, p)); err != nil {
			t.Fatal(err)
		}
	}
	deleted := []*roaring.Bitmap{roaring.New(), nil, roaring.New()}
	deleted[0].AddRange(0, 100000)
	for i := uint32(0); i < 200000; i += 2 {
		deleted[2].Add(i)
	}
	v, err := outside.Deletes.Register(paths, deleted)
	if err != nil {
		t.Fatal(err)
	}
	w, err := outside.Deletes.Register(paths[:1], deleted[:1])
	if err != nil {
		t.Fatal(err)
	}
	if v.Slot == w.Slot || v.bitmaps[0] != w.bitmaps[0] {
		t.Fatal("equal bitmaps are not shared, or slots are")
	}
	w.Release()
	sql := fmt.Sprintf("SELECT string_agg(x, ',') FROM (SELECT (i // 1000000) || ':' || count(*) || ':' || min(i) AS x FROM read_parquet(['%s']) WHERE %s(%d::UINTEGER, file_index, file_row_number) GROUP BY i // 1000000 ORDER BY 1)",
		strings.Join(paths, "','"), LiveFunction, v.Slot)
	got, _, err := c.Text(t.Context(), sql)
	if err != nil || got != "0:100000:100000,1:200000:1000000,2:100000:2000001" {
		t.Fatal(got, err)
	}
	v.Release()
	if err := c.Exec(t.Context(), sql); err == nil {
		t.Fatal("a released version still answers")
	}
	if len(outside.Deletes.bitmaps) != 0 {
		t.Fatal("bitmaps leak")
	}
}

// TestDeletedRowsOfOneFileAreLeftOutWithinTheScan reads deletes that lie close, far apart, at the ends of the bitmap's
// blocks and beyond them, after a filter that leaves gaps, and looks where DuckDB evaluates them.
func TestDeletedRowsOfOneFileAreLeftOutWithinTheScan(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(Config{Directories: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c := connect(t, db)
	const rows = 300_000
	path := filepath.Join(dir, "one.parquet")
	if err := c.Exec(t.Context(), fmt.Sprintf("COPY (SELECT i, i %% 7 AS k, 'text ' || i AS v FROM range(%d) t(i)) TO '%s'", rows, path)); err != nil {
		t.Fatal(err)
	}
	deleted := roaring.BitmapOf(0, 63, 64, 65535, 65536, 131071, rows-1)
	deleted.AddRange(2000, 5000)
	for i := uint32(70_000); i < 120_000; i += 100 {
		deleted.Add(i)
	}
	v, err := db.Deletes.Register([]string{path}, []*roaring.Bitmap{deleted})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	var left, sum, odd uint64
	for i := range uint64(rows) {
		if deleted.Contains(uint32(i)) {
			continue
		}
		left, sum = left+1, sum+i
		if i%7 == 3 && i > 1990 {
			odd += i
		}
	}
	for where, live := range map[string]string{
		"within": fmt.Sprintf("%s(%d::UINTEGER, file_row_number)", LiveInOneFunction, v.Slot), "after": fmt.Sprintf("%s(%d::UINTEGER, file_index, file_row_number)", LiveFunction, v.Slot),
	} {
		from := fmt.Sprintf(" FROM read_parquet(['%s']) WHERE %s", path, live)
		got, _, err := c.Text(t.Context(), "SELECT count(*) || '|' || sum(i) || '|' || (SELECT sum(i)"+from+" AND k = 3 AND i > 1990)"+from)
		if want := fmt.Sprintf("%d|%d|%d", left, sum, odd); err != nil || got != want {
			t.Errorf("%s the scan: %s, not %s (%v)", where, got, want, err)
		}
	}
	var plan string
	s, err := c.Prepare(t.Context(), fmt.Sprintf("EXPLAIN SELECT k, max(v) FROM read_parquet(['%s']) WHERE %s(%d::UINTEGER, file_row_number) GROUP BY k", path, LiveInOneFunction, v.Slot))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Execute(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for chunk, err := r.Next(t.Context()); chunk != nil; chunk, err = r.Next(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		plan += string(chunk.Columns[1].Bytes(0))
	}
	if strings.Contains(plan, "FILTER  ") || !strings.Contains(plan, "READ_PARQUET") {
		t.Errorf("the deletes are not evaluated within the scan:\n%s", plan)
	}
}

func TestISOIntervalsAreReadExactly(t *testing.T) {
	c := connect(t, open(t))
	for text, want := range map[string]string{
		"P1Y2M3DT4H5M6.789S": "14|3|14706789000", "PT0S": "0|0|0", "P-1Y-2M": "-14|0|0", "PT-0.5S": "0|0|-500000",
		"P1M-2DT-3H4M": "1|-2|-10560000000", "PT1193046H28M14.999999S": "0|0|4294967294999999", "P178000000Y": "2136000000|0|0",
	} {
		s, err := c.Prepare(t.Context(), "SELECT streambed_interval(x) FROM (VALUES ('"+text+"'), (NULL)) v(x)")
		if err != nil {
			t.Fatal(err)
		}
		rows, err := s.Execute(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		chunk, err := rows.Next(t.Context())
		if err != nil || chunk == nil || chunk.Rows != 2 {
			t.Fatal(err)
		}
		type interval struct {
			months, days int32
			micros       int64
		}
		v := At[interval](&chunk.Columns[0], 0)
		if got := fmt.Sprintf("%d|%d|%d", v.months, v.days, v.micros); got != want {
			t.Errorf("%s reads as %s, not %s", text, got, want)
		}
		if !chunk.Columns[0].Null(1) {
			t.Error("NULL is not NULL")
		}
		rows.Close()
		s.Close()
	}
	for _, text := range []string{"", "1 day", "P1", "PT1", "P1X", "PT1D", "P99999999999Y", "PT9223372036854775807H"} {
		if err := c.Exec(t.Context(), "SELECT streambed_interval('"+text+"')"); err == nil {
			t.Errorf("%q was taken for an interval", text)
		}
	}
}
