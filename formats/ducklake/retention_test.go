package ducklake_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/conformance"
	"github.com/streambed/streambed/formats/ducklake"
	"github.com/streambed/streambed/formats/storage"
)

// TestKeptCheckpointsReadRightAfterExpiry expires most of a history, drops and replaced tables included, and reads what
// is kept with DuckDB and ourselves (promise 9). What is not kept is an error, never fewer rows.
func TestKeptCheckpointsReadRightAfterExpiry(t *testing.T) { keptReadRight(t, config) }

func keptReadRight(t *testing.T, config func(testing.TB) ducklake.Config) {
	now := start
	p := newPair(newEnv(t, func(cfg *ducklake.Config) {
		*cfg = config(t)
		cfg.Now = func() time.Time { return now }
		cfg.Retention = ducklake.Retention{All: time.Second, Minutely: time.Second, Hourly: time.Second, Max: 100}
	}))
	r := p.lake.Reader()
	past := map[int64]string{}
	stale := p.view()
	for key := int64(10); key < 40; key++ {
		now = now.Add(400 * time.Millisecond) // three checkpoints are younger than a second
		cp, after := p.step(key)
		for i := range cp.Changes { // each row of the first file goes once
			if key >= 20 {
				cp.Changes[i].Deletes = nil
			}
		}
		if key >= 20 {
			after[key%10] = p.rows[key%10]
			if p.rows[key%10] == nil {
				delete(after, key%10)
			}
		}
		if key == 25 {
			cp.Changes[1] = formats.TableChange{Table: p.refs[1], Truncate: true}
		}
		if key > 25 {
			cp.Changes = cp.Changes[:1]
		}
		if key == 30 {
			cp.Changes = append(cp.Changes, formats.TableChange{Table: p.refs[1], Unpublish: true})
			cp.Forget = []string{p.refs[1].ID}
		}
		if err := p.send(cp); err != nil {
			t.Fatal(err)
		}
		p.rows = after
		past[cp.Number] = render(p.rows, conformance.NewSchema())
	}
	view := p.view()
	d := newDuckDB(t, p.cfg)
	kept := 0
	for number := view.Checkpoint; number > 0; number-- {
		then, err := r.At(p.ctx, view, formats.Point{Checkpoint: number})
		if errors.Is(err, formats.ErrExpired) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		kept++
		rows, schema := conformance.Read(t, r, p.cfg.Store, then, p.refs[0].Name)
		if got := render(rows, schema); got != past[number] {
			t.Fatalf("checkpoint %d reads\n%swant\n%s", number, got, past[number])
		}
		if got := d.read(then, &then.Tables[0]); got != past[number] {
			t.Fatalf("DuckDB reads checkpoint %d as\n%swant\n%s", number, got, past[number])
		}
	}
	if kept != 3 {
		t.Errorf("%d checkpoints can be read, want 3", kept)
	}
	if _, err := ducklakePlan(p, stale); !errors.Is(err, formats.ErrExpired) {
		t.Errorf("a view that is not kept any more is planned: %v", err)
	}
	for query, want := range map[string]int{
		"SELECT count(*) FROM ducklake_snapshot":                              4, // and the first, empty one
		"SELECT count(*) FROM ducklake_snapshot_changes":                      4,
		"SELECT count(*) FROM ducklake_table":                                 1,
		"SELECT count(*) FROM ducklake_delete_file":                           0, // the first file has no row left
		"SELECT count(*) FROM ducklake_data_file":                             30,
		"SELECT count(DISTINCT data_file_id) FROM ducklake_file_column_stats": 30,
		"SELECT count(*) FROM streambed_history":                              3,
		"SELECT count(*) FROM streambed_checkpoints":                          3,
		"SELECT count(*) FROM ducklake_table_stats":                           1,
		"SELECT count(DISTINCT table_id) FROM ducklake_column":                1,
		"SELECT count(*) FROM ducklake_files_scheduled_for_deletion":          2 + 2*9 + 15,
	} {
		var got int
		if err := d.catalog.QueryRow(query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, want %d (%v)", query, got, want, err)
		}
	}
	// DuckDB's own clean-up removes what we scheduled, and nothing that a kept snapshot needs.
	d.query("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
	rows, schema := conformance.Read(t, p.lake.Reader(), p.cfg.Store, view, p.refs[0].Name)
	if got := render(rows, schema); got != past[view.Checkpoint] {
		t.Fatalf("after the clean-up\n%s", got)
	}
	if got := d.read(view, &view.Tables[0]); got != past[view.Checkpoint] {
		t.Fatalf("after the clean-up DuckDB reads\n%s", got)
	}
	files := 0
	if err := p.cfg.Store.List(p.ctx, p.cfg.Store.Warehouse()+"/", func(i storage.Info) error {
		if strings.HasSuffix(i.URI, ".parquet") {
			files++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if files != 30+15 { // the 15 that this test wrote for the second table and never committed are not DuckLake's
		t.Errorf("%d files are left, want 45", files)
	}
}

func ducklakePlan(p *pair, view *formats.View) (*formats.ScanPlan, error) {
	r, err := ducklake.OpenReader(p.ctx, p.cfg)
	if err != nil {
		p.Fatal(err)
	}
	defer r.Close()
	return r.Plan(p.ctx, view, p.refs[0].Name)
}

// TestDuckDBsMaintenanceIsFollowed has DuckDB rewrite, merge and expire, insert and delete; the pipeline refuses what
// it worked out before, reads the table again and goes on (promises 8 and 11).
func TestDuckDBsMaintenanceIsFollowed(t *testing.T) { maintenanceIsFollowed(t, config) }

func maintenanceIsFollowed(t *testing.T, config func(testing.TB) ducklake.Config) {
	p := newPair(newEnv(t, func(cfg *ducklake.Config) { *cfg = config(t) }))
	d := newDuckDB(t, p.cfg)
	for key := int64(10); key < 16; key++ {
		cp, after := p.step(key)
		if err := p.send(cp); err != nil {
			t.Fatal(err)
		}
		p.rows = after
	}
	for i, maintenance := range []string{
		"CALL ducklake_rewrite_data_files('lake', 'one', schema => 'public', delete_threshold => 0.1)",
		"CALL ducklake_merge_adjacent_files('lake', 'one', schema => 'public')",
		"CALL ducklake_expire_snapshots('lake', older_than => now() - INTERVAL 1 day)",
		"CALL ducklake_cleanup_old_files('lake', cleanup_all => true)",
	} {
		before := p.number
		d.query(maintenance)
		p.verify(before) // our readers
		view := p.view()
		for j := range view.Tables {
			if got, want := d.read(view, &view.Tables[j]), render(p.rows, conformance.NewSchema()); got != want {
				t.Fatalf("after %s DuckDB reads %v as\n%swant\n%s", maintenance, view.Tables[j].Name, got, want)
			}
		}
		sequence := p.lake.Sequence(p.refs[0])
		key := int64(100 + i)
		insert := func() *formats.Checkpoint {
			var changes []formats.TableChange
			for _, ref := range p.refs {
				changes = append(changes, formats.TableChange{Table: ref, Add: []formats.DataFile{p.file(ref, rows(key, 1, "b"))}})
			}
			return p.next(changes...)
		}
		err := p.send(insert())
		if i < 2 && !errors.Is(err, formats.ErrForeignWrite) || i >= 2 && err != nil {
			t.Fatalf("after %s: %v", maintenance, err)
		}
		if i < 2 {
			if p.lake.Sequence(p.refs[0]) == sequence {
				t.Fatalf("after %s the sequence number is as before", maintenance)
			}
			p.verify(before)
			if err := p.send(insert()); err != nil {
				t.Fatal(err)
			}
		}
		p.rows[key] = conformance.Row{2: "b"}
		p.verify(before + 1)
	}
	// Rows that DuckDB adds are ours from the next checkpoint on; statistics do not hide the old ones from it.
	d.query("INSERT INTO lake.public.two VALUES (1000, 'theirs')")
	d.query("DELETE FROM lake.public.two WHERE id = 6")
	for key := range p.rows {
		if key == 6 {
			continue
		}
		if n := d.value("SELECT count(*) FROM lake.public.two WHERE id = " + strconv.FormatInt(key, 10)); n != "1" {
			t.Errorf("DuckDB finds row %d %s times", key, n)
		}
	}
	p.open()
	view := p.view()
	for i, vt := range view.Tables {
		rows, schema := conformance.Read(t, p.lake.Reader(), p.cfg.Store, view, vt.Name)
		if got := strings.Contains(render(rows, schema), "1000: val=theirs"); got != (i == 1) {
			t.Errorf("table %v:\n%s", vt.Name, render(rows, schema))
		}
		if _, ok := rows[6]; ok == (i == 1) {
			t.Errorf("row 6 in table %v: %v", vt.Name, ok)
		}
	}
}

// TestWhatDuckDBExpiredIsExpired: a checkpoint whose snapshot DuckDB has expired is refused, not read without its files.
func TestWhatDuckDBExpiredIsExpired(t *testing.T) {
	p := newPair(newEnv(t))
	for key := int64(10); key < 14; key++ {
		cp, after := p.step(key)
		if err := p.send(cp); err != nil {
			t.Fatal(err)
		}
		p.rows = after
	}
	view := p.view()
	d := newDuckDB(t, p.cfg)
	then, err := p.lake.Reader().At(p.ctx, view, formats.Point{Checkpoint: 3})
	if err != nil {
		t.Fatal(err)
	}
	d.query("SELECT snapshot_id FROM ducklake_expire_snapshots('lake', versions => [" + strconv.FormatInt(d.snapshot(then), 10) + "])")
	if _, err := p.lake.Reader().At(p.ctx, view, formats.Point{Checkpoint: 3}); !errors.Is(err, formats.ErrExpired) {
		t.Errorf("a checkpoint that DuckDB expired is read: %v", err)
	}
	if _, err := p.lake.Reader().At(p.ctx, view, formats.Point{Checkpoint: 4}); err != nil {
		t.Errorf("a checkpoint beside it is not read: %v", err)
	}
}
