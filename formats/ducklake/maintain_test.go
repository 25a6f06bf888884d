package ducklake_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/conformance"
	"github.com/streambed/streambed/formats/ducklake"
	"github.com/streambed/streambed/formats/storage"
)

// maintained is one table with what it held at each checkpoint, and where each key's row is.
type maintained struct {
	*env
	ref    formats.TableRef
	places map[int64]at
	rows   conformance.Rows
	past   map[int64]string
	random *rand.Rand
	next   int64
}

// at is a position in a data file.
type at struct {
	path string
	row  uint32
}

func newMaintained(t testing.TB, config func(testing.TB) ducklake.Config, change func(*ducklake.Config)) *maintained {
	m := &maintained{places: map[int64]at{}, rows: conformance.Rows{}, past: map[int64]string{}, random: rand.New(rand.NewPCG(7, 11))}
	m.env = newEnv(t, func(cfg *ducklake.Config) {
		*cfg = config(t)
		if change != nil {
			change(cfg)
		}
	})
	m.ref = m.lake.NewTable(formats.TableName{Schema: "public", Table: "busy"})
	m.step(formats.TableChange{Create: true, Publish: true, Schema: conformance.NewSchema()}, m.places)
	return m
}

// step inserts some rows and deletes others, naming them by the given places, which may be those before a maintenance.
func (m *maintained) step(ch formats.TableChange, places map[int64]at) {
	m.Helper()
	ch.Table = m.ref
	added := conformance.Rows{}
	for range 3 + m.random.IntN(5) {
		m.next++
		added[m.next] = conformance.Row{2: "v" + strconv.FormatInt(m.next, 10)}
	}
	ch.Deletes = map[string]*roaring.Bitmap{}
	for _, key := range slices.Sorted(maps.Keys(places)) {
		p := places[key]
		if m.rows[key] != nil && m.random.IntN(4) == 0 {
			if ch.Deletes[p.path] == nil {
				ch.Deletes[p.path] = roaring.New()
			}
			ch.Deletes[p.path].Add(p.row)
			delete(m.rows, key)
			delete(m.places, key)
		}
	}
	ch.Add = m.arranged(m.ref, added)
	m.commit(ch)
	for _, file := range ch.Add {
		conformance.EachRow(m, m.cfg.Store, file.Path, conformance.NewSchema(), nil, func(row uint32, key int64, r conformance.Row) {
			m.rows[key], m.places[key] = r, at{file.Path, row}
		})
	}
	m.past[m.number] = render(m.rows, conformance.NewSchema())
}

// maintain runs a task, with some steps between its two halves, and follows the rows that it moved.
func (m *maintained) maintain(task formats.Task, between int) formats.MaintenanceReport {
	m.Helper()
	prepared, err := m.lake.Prepare(m.ctx, formats.Maintenance{Task: task, All: true})
	if err != nil {
		m.Fatal(err)
	}
	if prepared == nil {
		return formats.MaintenanceReport{}
	}
	for range between {
		m.step(formats.TableChange{}, m.places)
	}
	moves, report, err := prepared.Apply(m.ctx)
	if err != nil {
		m.Fatal(err)
	}
	files, _, err := m.lake.Files(m.ctx, m.ref, 0)
	if err != nil {
		m.Fatal(err)
	}
	for _, f := range files { // whoever follows must not take up rows that were deleted between the two halves
		for _, r := range moves {
			if r.New == f.Path && (f.Deleted == nil) != (r.Dead == nil) || r.New == f.Path && r.Dead != nil && !r.Dead.Equals(f.Deleted) {
				m.Fatalf("%s tells that %v are dead of %s, the lake %v", task, r.Dead, f.Path, f.Deleted)
			}
		}
	}
	for key, p := range m.places {
		for _, r := range moves {
			if r.Old == p.path {
				row, ok := r.Row(p.row)
				if !ok {
					m.Fatalf("%s lost row %d of %s, key %d", task, p.row, p.path, key)
				}
				m.places[key] = at{r.New, row}
			}
		}
	}
	return report
}

// check reads the table now and at all kept checkpoints, with our reader and with DuckDB's.
func (m *maintained) check(d *duckDB) {
	m.Helper()
	now := m.view()
	r := m.lake.Reader()
	for number := int64(1); number <= m.number; number++ {
		view, err := r.At(m.ctx, now, formats.Point{Checkpoint: number})
		if err != nil {
			m.Fatal(err)
		}
		rows, schema := conformance.Read(m, r, m.cfg.Store, view, m.ref.Name)
		if got := render(rows, schema); got != m.past[number] {
			m.Fatalf("checkpoint %d reads\n%swant\n%s", number, got, m.past[number])
		}
		if d != nil && number%3 == m.number%3 {
			if got := d.read(view, &view.Tables[0]); got != m.past[number] {
				m.Fatalf("DuckDB reads checkpoint %d as\n%swant\n%s", number, got, m.past[number])
			}
		}
	}
	rows, schema := conformance.Read(m, r, m.cfg.Store, now, m.ref.Name)
	if got := render(rows, schema); got != m.past[m.number] {
		m.Fatalf("now reads\n%swant\n%s", got, m.past[m.number])
	}
	if d != nil {
		want := strconv.Itoa(len(m.rows))
		if got := d.value("SELECT count(*) FROM lake.public.busy"); got != want {
			m.Fatalf("DuckDB counts %s rows, want %s", got, want)
		}
	}
}

func TestMaintenanceKeepsEveryRowAndEveryCheckpoint(t *testing.T) { maintenanceKeeps(t, inlining) }

func TestMaintenanceKeepsEveryRowAndEveryCheckpointOnPostgres(t *testing.T) {
	maintenanceKeeps(t, inlined(onPostgres(t)))
}

// maintenanceKeeps flushes and compacts a busy table while it changes; deletes that were worked out before go on naming the
// old files (promises 2 and 9).
func maintenanceKeeps(t *testing.T, config func(testing.TB) ducklake.Config) {
	m := newMaintained(t, config, nil)
	var d *duckDB
	if _, err := python(); err == nil {
		d = newDuckDB(t, m.cfg)
	}
	flushed, compacted := 0, 0
	for round := range 4 {
		for range 3 {
			m.step(formats.TableChange{}, m.places)
		}
		stale := map[int64]at{}
		for key, p := range m.places {
			stale[key] = p
		}
		flushed += m.maintain(formats.Flush, round%2).Before
		compacted += m.maintain(formats.Compact, round%3).Before
		m.step(formats.TableChange{}, stale)
		if round == 2 {
			m.open() // what was followed is in the catalog
			m.locate()
		}
	}
	if flushed < 10 || compacted < 2 {
		t.Fatalf("%d inlined files were flushed and %d files compacted", flushed, compacted)
	}
	m.check(d)
}

// locate finds all rows anew, as a rebuilt key index does.
func (m *maintained) locate() {
	m.Helper()
	files, _, err := m.lake.Files(m.ctx, m.ref, 0)
	if err != nil {
		m.Fatal(err)
	}
	m.places = map[int64]at{}
	for _, f := range files {
		conformance.EachRow(m, m.cfg.Store, f.Path, conformance.NewSchema(), f.Deleted, func(row uint32, key int64, _ conformance.Row) {
			if _, twice := m.places[key]; twice {
				m.Fatalf("key %d is live twice", key)
			}
			m.places[key] = at{f.Path, row}
		})
	}
	if len(m.places) != len(m.rows) {
		m.Fatalf("%d rows are live, want %d", len(m.places), len(m.rows))
	}
}

// TestExpiryRemovesWhatNoCheckpointShows: after all but the newest checkpoint have expired, only its files and rows are
// left, those of maintenance between them included; files go after the grace, and so do orphans.
func TestExpiryRemovesWhatNoCheckpointShows(t *testing.T) {
	now := start
	m := newMaintained(t, inlining, func(cfg *ducklake.Config) {
		cfg.Now = func() time.Time { return now }
		cfg.Retention = ducklake.Retention{All: time.Minute, Minutely: time.Minute, Hourly: time.Minute}
	})
	for range 12 {
		m.step(formats.TableChange{}, m.places)
		m.maintain(formats.Flush, 0)
	}
	m.maintain(formats.Compact, 0)
	orphan := m.ref.Location + "/deletes/orphan.parquet"
	if err := m.cfg.Store.Put(m.ctx, orphan, []byte("x")); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Minute)
	if report := m.maintain(formats.Expire, 0); report.Snapshots != 12 {
		t.Fatalf("%d snapshots expired, want 12", report.Snapshots)
	}
	m.step(formats.TableChange{}, m.places) // ends the grace of the maintenance after the newest checkpoint
	now = now.Add(2 * time.Minute)
	m.maintain(formats.Expire, 0)
	d := newDuckDB(t, m.cfg)
	var snapshots, ended int
	if err := d.catalog.QueryRow(`SELECT (SELECT count(*) FROM ducklake_snapshot),
		(SELECT count(*) FROM ducklake_data_file WHERE end_snapshot IS NOT NULL)`).Scan(&snapshots, &ended); err != nil {
		t.Fatal(err)
	}
	if snapshots != 2 || ended > 0 { // the first, empty one, too
		t.Errorf("%d snapshots and %d ended files are left", snapshots, ended)
	}
	swept := func(want bool) {
		t.Helper()
		prepared, err := m.lake.Prepare(m.ctx, formats.Maintenance{Task: formats.Orphans, All: true, Age: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		if prepared != nil {
			if _, _, err := prepared.Apply(m.ctx); err != nil {
				t.Fatal(err)
			}
		}
		files := 0
		var uris []string
		if err := m.cfg.Store.List(m.ctx, m.cfg.Store.Warehouse()+"/", func(i storage.Info) error {
			if i.URI == orphan {
				t.Errorf("%s is still there", orphan)
			}
			if strings.HasSuffix(i.URI, ".parquet") {
				files++
				uris = append(uris, i.URI)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		var live int
		if err := d.catalog.QueryRow(`SELECT (SELECT count(*) FROM ducklake_data_file) + (SELECT count(*) FROM ducklake_delete_file)`).Scan(&live); err != nil {
			t.Fatal(err)
		}
		if (files == live) != want {
			t.Errorf("%d files are stored, the catalog has %d: %v", files, live, uris)
		}
	}
	swept(false) // a reader may still be at work
	now = now.Add(2 * time.Hour)
	leases := m.lake.Leases()
	if _, err := leases.Write.Exec(`INSERT INTO streambed_leases (pipeline, holder, checkpoint, since, heartbeat)
		VALUES ($1, 'a query of three hours', 1, `+leases.Clock+` - 10800000000, `+leases.Clock+`)`, leases.Pipeline); err != nil {
		t.Fatal(err)
	}
	swept(false) // and one has a lease from before
	if _, err := leases.Write.Exec(`DELETE FROM streambed_leases`); err != nil {
		t.Fatal(err)
	}
	swept(true)
	view := m.view()
	rows, schema := conformance.Read(t, m.lake.Reader(), m.cfg.Store, view, m.ref.Name)
	if got := render(rows, schema); got != m.past[m.number] {
		t.Fatalf("reads\n%swant\n%s", got, m.past[m.number])
	}
}

// TestMaintenanceAfterAnInsertOfDuckDB: a file that another writer adds between the two halves of a compaction stays in
// the table, for us too.
func TestMaintenanceAfterAnInsertOfDuckDB(t *testing.T) {
	t.Parallel()
	m := newMaintained(t, config, nil)
	d := newDuckDB(t, m.cfg)
	for range 3 {
		m.step(formats.TableChange{}, m.places)
	}
	prepared, err := m.lake.Prepare(m.ctx, formats.Maintenance{Task: formats.Compact, All: true})
	if err != nil || prepared == nil {
		t.Fatal(prepared, err)
	}
	d.query("INSERT INTO lake.public.busy VALUES (1000, 'duck')")
	m.rows[1000] = conformance.Row{2: "duck"}
	if _, _, err := prepared.Apply(m.ctx); !errors.Is(err, formats.ErrForeignWrite) {
		t.Fatalf("the compaction ends with %v", err)
	}
	m.locate()
	m.step(formats.TableChange{}, m.places)
	m.maintain(formats.Compact, 0)
	m.locate()
	if got, want := d.value("SELECT count(*) FROM lake.public.busy"), strconv.Itoa(len(m.rows)); got != want {
		t.Errorf("DuckDB counts %s rows, want %s", got, want)
	}
}
