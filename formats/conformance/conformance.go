// Package conformance holds what every formats.Lake must pass, whatever its format, mode, catalog and store.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/lsn"
)

// Setup is a lake under test. Open may be called again for another writer or a restarted one; OpenReader for readers.
// Both close what they open when the test ends.
type Setup struct {
	Store      storage.Store
	Open       func(t testing.TB) formats.Lake
	OpenReader func(t testing.TB) formats.Reader
	// Maintain has random histories compact the lake, a formats.Maintainer, all the time.
	Maintain bool
}

// Run proves the contract of formats.Lake and formats.Reader. setup gives an empty lake of its own.
func Run(t *testing.T, setup func(t testing.TB) *Setup) { run(t, setup, 3, 60) }

// RunShort is Run with a single, shorter random history, for what differs from a lake that Run has seen in catalog or
// store alone.
func RunShort(t *testing.T, setup func(t testing.TB) *Setup) { run(t, setup, 1, 25) }

func run(t *testing.T, setup func(t testing.TB) *Setup, histories uint64, steps int) {
	for name, test := range map[string]func(*testing.T, *Setup){
		"EmptyLakeReads":              emptyLakeReads,
		"CopyIsInvisibleUntilPublish": copyIsInvisibleUntilPublish,
		"ResyncReplacesAtOnce":        resyncReplacesAtOnce,
		"SecondClaimFencesFirst":      secondClaimFencesFirst,
		"CheckpointsFollowEachOther":  checkpointsFollowEachOther,
		"StateSurvivesReopening":      stateSurvivesReopening,
		"NamesStayDistinct":           namesStayDistinct,
		"TruncateThenAdd":             truncateThenAdd,
		"DropTakesTheTableAway":       dropTakesTheTableAway,
		"BadChangesAreRefusedWhole":   badChangesAreRefusedWhole,
		"SchemaChangeWithoutData":     schemaChangeWithoutData,
		"PointsOutsideHistory":        pointsOutsideHistory,
		"VersionsNameContent":         versionsNameContent,
		"DeletesFollowReplacedFiles":  deletesFollowReplacedFiles,
	} {
		t.Run(name, func(t *testing.T) { test(t, setup(t)) })
	}
	for seed := range histories {
		t.Run(fmt.Sprintf("RandomHistory/%d", seed+1), func(t *testing.T) { randomHistory(t, setup(t), seed+1, steps) })
	}
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// pipeline feeds a lake checkpoint by checkpoint.
type pipeline struct {
	testing.TB
	ctx    context.Context
	setup  *Setup
	lake   formats.Lake
	state  *formats.State
	number int64
	at     lsn.LSN
}

func newPipeline(t testing.TB, s *Setup) *pipeline {
	p := &pipeline{TB: t, ctx: context.Background(), setup: s}
	p.open()
	return p
}

func (p *pipeline) open() {
	p.Helper()
	p.lake = p.setup.Open(p)
	st, err := p.lake.Claim(p.ctx)
	if err != nil {
		p.Fatal(err)
	}
	p.state, p.number, p.at = st, st.Checkpoint, st.Position
}

func timeOf(number int64) time.Time { return start.Add(time.Duration(number) * time.Second) }

func (p *pipeline) next(changes ...formats.TableChange) *formats.Checkpoint {
	n := p.number + 1
	return &formats.Checkpoint{Number: n, From: p.at, To: lsn.LSN(n * 1000), CommitTime: timeOf(n), Known: timeOf(n), Changes: changes}
}

func (p *pipeline) send(cp *formats.Checkpoint) error {
	err := p.lake.Commit(p.ctx, cp)
	if err == nil {
		p.number, p.at = cp.Number, cp.To
	}
	return err
}

func (p *pipeline) commit(changes ...formats.TableChange) {
	p.Helper()
	cp := p.next(changes...)
	p.addKeys(cp)
	if err := p.send(cp); err != nil {
		p.Fatal(err)
	}
}

// rows makes rows with keys [from, from+n) and one value.
func rows(from, n int64, value string) Rows {
	out := Rows{}
	for key := from; key < from+n; key++ {
		out[key] = Row{2: value}
	}
	return out
}

func (p *pipeline) file(ref formats.TableRef, r Rows) formats.DataFile {
	p.Helper()
	return WriteFile(p, p.setup.Store, ref, NewSchema(), r)
}

// table makes and publishes a table with some rows.
func (p *pipeline) table(name formats.TableName, r Rows) (formats.TableRef, formats.DataFile) {
	p.Helper()
	ref := p.lake.NewTable(name)
	ch := formats.TableChange{Table: ref, Create: true, Schema: NewSchema(), Publish: true}
	var file formats.DataFile
	if len(r) > 0 {
		file = p.file(ref, r)
		ch.Add = []formats.DataFile{file}
	}
	p.commit(ch)
	return ref, file
}

func (p *pipeline) current(r formats.Reader) *formats.View {
	p.Helper()
	view, err := r.Current(p.ctx)
	if err != nil {
		p.Fatal(err)
	}
	return view
}

// expect compares a table at a view.
func (p *pipeline) expect(r formats.Reader, view *formats.View, name formats.TableName, want Rows) {
	p.Helper()
	got, schema := Read(p, r, p.setup.Store, view, name)
	if g, w := got.render(schema), want.render(schema); g != w {
		p.Fatalf("table %v at checkpoint %d reads\n%swant\n%s", name, view.Checkpoint, g, w)
	}
}

func names(view *formats.View) string {
	var out []string
	for _, vt := range view.Tables {
		out = append(out, vt.Name.Schema+"."+vt.Name.Table)
	}
	return strings.Join(out, " ")
}

var orders = formats.TableName{Schema: "public", Table: "orders"}

func emptyLakeReads(t *testing.T, s *Setup) {
	p := newPipeline(t, s)
	r := s.OpenReader(t)
	view := p.current(r)
	if view.Checkpoint != 0 || view.Position != 0 || len(view.Tables) != 0 {
		t.Fatalf("%+v", view)
	}
	if _, err := r.Plan(p.ctx, view, orders); !errors.Is(err, formats.ErrNoSuchTable) {
		t.Fatal(err)
	}
	if _, err := r.Snapshots(p.ctx, orders); !errors.Is(err, formats.ErrNoSuchTable) {
		t.Fatal(err)
	}
	p.commit() // a checkpoint without changes moves the state alone
	if view := p.current(r); view.Checkpoint != 1 || view.Position != 1000 || !view.Known.Equal(timeOf(1)) {
		t.Fatalf("%+v", view)
	}
}

func copyIsInvisibleUntilPublish(t *testing.T, s *Setup) {
	p := newPipeline(t, s)
	r := s.OpenReader(t)
	ref := p.lake.NewTable(orders)
	if p.lake.Exists(ref) || p.lake.Sequence(ref) != 0 {
		t.Fatal("a table exists before it was made")
	}
	p.commit(formats.TableChange{Table: ref, Create: true, Schema: NewSchema()})
	if !p.lake.Exists(ref) {
		t.Fatal("a table that was made does not exist")
	}
	a, b := p.file(ref, rows(0, 5, "a")), p.file(ref, rows(5, 5, "b"))
	p.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{a}})
	p.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{b}, Deletes: map[string]*roaring.Bitmap{a.Path: roaring.BitmapOf(0)}})
	if got := names(p.current(r)); got != "" {
		t.Fatalf("visible before it was published: %s", got)
	}
	p.open() // a restart keeps what was copied
	if p.lake.Sequence(ref) == 0 {
		t.Fatal("no sequence number after a restart")
	}
	p.commit(formats.TableChange{Table: ref, Publish: true})
	view := p.current(r)
	want := rows(1, 4, "a")
	for key, row := range rows(5, 5, "b") {
		want[key] = row
	}
	p.expect(r, view, orders, want)
	infos, err := r.Snapshots(p.ctx, orders)
	if err != nil || len(infos) != 1 || infos[0].Checkpoint != 4 || infos[0].Position != 4000 || infos[0].Rows != 9 {
		t.Fatalf("history does not begin at the publication: %+v %v", infos, err)
	}
}

func resyncReplacesAtOnce(t *testing.T, s *Setup) {
	p := newPipeline(t, s)
	r := s.OpenReader(t)
	old, _ := p.table(orders, rows(0, 3, "old"))
	fresh := p.lake.NewTable(orders)
	if fresh.ID == old.ID || fresh.Location == old.Location {
		t.Fatal("two incarnations share an ID or a location")
	}
	p.commit(formats.TableChange{Table: fresh, Create: true, Schema: NewSchema(), Add: []formats.DataFile{p.file(fresh, rows(0, 2, "new"))}})
	p.commit(formats.TableChange{Table: old, Add: []formats.DataFile{p.file(old, rows(3, 1, "old"))}}) // goes on meanwhile
	p.expect(r, p.current(r), orders, rows(0, 4, "old"))
	cp := p.next(formats.TableChange{Table: fresh, Publish: true})
	cp.Forget = []string{old.ID}
	if err := p.send(cp); err != nil {
		t.Fatal(err)
	}
	p.expect(r, p.current(r), orders, rows(0, 2, "new"))
	if p.lake.Exists(old) {
		t.Fatal("a forgotten incarnation exists")
	}
	p.open()
	if len(p.state.Tables) != 1 || p.state.Tables[0].Table.ID != fresh.ID || p.state.Tables[0].Phase != formats.Live {
		t.Fatalf("%+v", p.state.Tables)
	}
}

func secondClaimFencesFirst(t *testing.T, s *Setup) {
	p := newPipeline(t, s)
	ref, _ := p.table(orders, rows(0, 3, "a"))
	other := newPipeline(t, s)
	if other.state.Epoch <= p.state.Epoch || other.number != p.number {
		t.Fatalf("second claim: %+v after %+v", other.state, p.state)
	}
	file := p.file(ref, rows(3, 1, "late"))
	if err := p.send(p.next(formats.TableChange{Table: ref, Add: []formats.DataFile{file}})); !errors.Is(err, formats.ErrFenced) {
		t.Fatalf("the first writer was not fenced: %v", err)
	}
	if err := p.lake.SetIdentity(p.ctx, formats.Identity{SystemIdentifier: "1"}); !errors.Is(err, formats.ErrFenced) {
		t.Fatalf("the first writer was not fenced: %v", err)
	}
	other.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{p.file(ref, rows(3, 1, "a"))}})
	r := s.OpenReader(t)
	p.expect(r, p.current(r), orders, rows(0, 4, "a"))
}

func checkpointsFollowEachOther(t *testing.T, s *Setup) {
	p := newPipeline(t, s)
	p.commit()
	for _, change := range []func(*formats.Checkpoint){
		func(cp *formats.Checkpoint) { cp.Number++ },
		func(cp *formats.Checkpoint) { cp.Number-- },
		func(cp *formats.Checkpoint) { cp.From++ },
		func(cp *formats.Checkpoint) { cp.To = cp.From - 1 },
	} {
		cp := p.next()
		change(cp)
		if err := p.lake.Commit(p.ctx, cp); err == nil {
			t.Fatalf("accepted %+v", cp)
		}
	}
	p.commit()
}

func stateSurvivesReopening(t *testing.T, s *Setup) {
	p := newPipeline(t, s)
	id := formats.Identity{SystemIdentifier: "7312", Timeline: 3, DatabaseOID: 16384}
	if err := p.lake.SetIdentity(p.ctx, id); err != nil {
		t.Fatal(err)
	}
	ref, _ := p.table(orders, rows(0, 2, "a"))
	cp := p.next()
	cp.Known = cp.CommitTime.Add(time.Minute)
	cp.States = []formats.TableState{{Table: ref, Phase: formats.Live, OID: 42, Schema: *NewSchema(), SetAside: "broken: mend it"}}
	if err := p.send(cp); err != nil {
		t.Fatal(err)
	}
	epoch := p.state.Epoch
	p.open()
	st := p.state
	if st.Identity != id || st.Epoch != epoch+1 || st.Checkpoint != 2 || st.Position != 2000 || !st.CommitTime.Equal(cp.CommitTime) ||
		!st.Known.Equal(cp.Known) || len(st.Tables) != 1 || st.Tables[0].OID != 42 || st.Tables[0].SetAside != "broken: mend it" {
		t.Fatalf("%+v", st)
	}
	r := s.OpenReader(t)
	if view := p.current(r); view.Tables[0].SetAside != "broken: mend it" {
		t.Fatalf("%+v", view.Tables[0])
	}
}

func namesStayDistinct(t *testing.T, s *Setup) {
	p := newPipeline(t, s)
	list := []formats.TableName{{Schema: "a", Table: "b.c"}, {Schema: "a.b", Table: "c"}, {Schema: "A", Table: "B"}, {Schema: "a", Table: "B"},
		{Schema: "a", Table: "b"}, {Schema: `"q"`, Table: `'s'`}, {Schema: "a/b", Table: "../c"}, {Schema: "naïve", Table: "日本語"},
		{Schema: strings.Repeat("x", 63), Table: strings.Repeat("é", 31)}, {Schema: "%41", Table: "A"}, {Schema: "__iceberg_namespace_v1__:", Table: "t"}}
	locations := map[string]bool{}
	for i, name := range list {
		ref, _ := p.table(name, rows(int64(i), 1, "v"))
		locations[strings.ToLower(ref.Location)] = true
		if strings.ContainsAny(ref.Location[len(s.Store.Warehouse()):], `%"'. `) {
			t.Errorf("location %q of %v", ref.Location, name)
		}
	}
	if len(locations) != len(list) {
		t.Fatalf("%d locations for %d tables", len(locations), len(list))
	}
	r := s.OpenReader(t)
	view := p.current(r)
	if len(view.Tables) != len(list) {
		t.Fatalf("%d tables: %s", len(view.Tables), names(view))
	}
	for i, name := range list {
		p.expect(r, view, name, rows(int64(i), 1, "v"))
	}
}

func truncateThenAdd(t *testing.T, s *Setup) {
	p := newPipeline(t, s)
	r := s.OpenReader(t)
	ref, file := p.table(orders, rows(0, 5, "a"))
	p.commit(formats.TableChange{Table: ref, Deletes: map[string]*roaring.Bitmap{file.Path: roaring.BitmapOf(1)}})
	fresh := p.file(ref, rows(0, 3, "b"))
	p.commit(formats.TableChange{Table: ref, Truncate: true, Add: []formats.DataFile{fresh},
		Deletes: map[string]*roaring.Bitmap{fresh.Path: roaring.BitmapOf(0)}})
	p.expect(r, p.current(r), orders, rows(1, 2, "b"))
	p.commit(formats.TableChange{Table: ref, Truncate: true})
	p.expect(r, p.current(r), orders, Rows{})
	p.commit(formats.TableChange{Table: ref, Truncate: true}) // of an empty table
	p.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{p.file(ref, rows(7, 1, "c"))}})
	p.expect(r, p.current(r), orders, rows(7, 1, "c"))
	p.open()
	if got := locate(t, p.lake, s.Store, ref, NewSchema()); len(got) != 1 {
		t.Fatalf("live rows after a restart: %v", got)
	}
}

func dropTakesTheTableAway(t *testing.T, s *Setup) {
	p := newPipeline(t, s)
	r := s.OpenReader(t)
	ref, _ := p.table(orders, rows(0, 2, "a"))
	p.table(formats.TableName{Schema: "public", Table: "items"}, nil)
	cp := p.next(formats.TableChange{Table: ref, Unpublish: true})
	cp.Forget = []string{ref.ID}
	if err := p.send(cp); err != nil {
		t.Fatal(err)
	}
	if got := names(p.current(r)); got != "public.items" {
		t.Fatalf("visible: %s", got)
	}
	again, _ := p.table(orders, rows(5, 1, "again")) // dropped and created again is a new table
	if again.ID == ref.ID {
		t.Fatal("an ID was used twice")
	}
	p.expect(r, p.current(r), orders, rows(5, 1, "again"))
}

func badChangesAreRefusedWhole(t *testing.T, s *Setup) {
	p := newPipeline(t, s)
	ref, file := p.table(orders, rows(0, 3, "a"))
	good, _ := p.table(formats.TableName{Schema: "public", Table: "items"}, rows(0, 1, "i"))
	never := p.lake.NewTable(orders)
	for name, ch := range map[string]formats.TableChange{
		"a delete from an unknown file":      {Table: ref, Deletes: map[string]*roaring.Bitmap{ref.Location + "/data/x.parquet": roaring.BitmapOf(0)}},
		"a delete of a row past the end":     {Table: ref, Deletes: map[string]*roaring.Bitmap{file.Path: roaring.BitmapOf(3)}},
		"a file that was committed before":   {Table: ref, Add: []formats.DataFile{file}},
		"a change of a table never made":     {Table: never, Truncate: true},
		"making a table a second time":       {Table: ref, Create: true, Schema: NewSchema()},
		"making a table without a schema":    {Table: never, Create: true},
		"a delete from what it truncates":    {Table: ref, Truncate: true, Deletes: map[string]*roaring.Bitmap{file.Path: roaring.BitmapOf(0)}},
		"two changes of one table at a time": {Table: good, Truncate: true},
	} {
		added := p.file(good, rows(1, 1, "i"))
		if err := p.send(p.next(formats.TableChange{Table: good, Add: []formats.DataFile{added}}, ch)); err == nil {
			t.Fatalf("%s was accepted", name)
		}
	}
	p.commit(formats.TableChange{Table: ref, Deletes: map[string]*roaring.Bitmap{file.Path: roaring.BitmapOf(0)}})
	r := s.OpenReader(t)
	view := p.current(r)
	p.expect(r, view, orders, rows(1, 2, "a"))
	p.expect(r, view, good.Name, rows(0, 1, "i"))
}
