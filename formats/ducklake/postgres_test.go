package ducklake_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/conformance"
	"github.com/streambed/streambed/formats/ducklake"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/test/postgres"
)

// onPostgres gives lakes with their catalogs in fresh databases of a server.
func onPostgres(t testing.TB) func(testing.TB) ducklake.Config {
	t.Helper()
	server := postgres.ForTest(t)
	return func(t testing.TB) ducklake.Config {
		cfg := config(t)
		cfg.Catalog = server.Database(t).URL()
		return cfg
	}
}

func TestConformanceOnPostgres(t *testing.T) {
	config := onPostgres(t)
	conformance.Run(t, func(t testing.TB) *conformance.Setup { return setup(t, config(t)) })
}

func TestKeptCheckpointsReadRightAfterExpiryOnPostgres(t *testing.T) {
	keptReadRight(t, onPostgres(t))
}

func TestDuckDBsMaintenanceIsFollowedOnPostgres(t *testing.T) {
	maintenanceIsFollowed(t, onPostgres(t))
}

func TestDuckDBReadsEveryTypeExactlyOnPostgres(t *testing.T) {
	typesRead(t, onPostgres(t), everyType)
}

func TestPostgresCatalogIsMadeByManyAtOnce(t *testing.T) {
	cfg := onPostgres(t)(t)
	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			l, err := ducklake.Open(context.Background(), cfg)
			if err == nil {
				l.Close()
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestInlinedNumbersKeepTheirDigits: settings of the catalog's server that change how it writes values change none.
func TestInlinedNumbersKeepTheirDigits(t *testing.T) {
	database := postgres.ForTest(t).Database(t)
	database.Exec(t, "ALTER DATABASE "+database.Name+" SET extra_float_digits = 0; ALTER DATABASE "+database.Name+" SET datestyle = 'SQL, DMY';"+
		"ALTER DATABASE "+database.Name+" SET bytea_output = 'escape'")
	e := newEnv(t, func(cfg *ducklake.Config) {
		*cfg = inlining(t)
		cfg.Catalog = database.URL()
	})
	all := flat()
	s := typedSchema(t, all, false)
	ref := e.lake.NewTable(formats.TableName{Schema: "public", Table: "typed"})
	file := writeTyped(e, ref, s, all)
	want := shownRows(t, e.cfg.Store, file.Path, s)
	e.commit(formats.TableChange{Table: ref, Create: true, Publish: true, Schema: s, Add: []formats.DataFile{file}})
	cfg := e.cfg
	cfg.Store = ducklake.NewStore(e.cfg.Store.(*ducklake.Store).Store, ducklake.Inlining{})
	r, err := ducklake.OpenReader(e.ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	plan, err := r.Plan(e.ctx, e.view(), ref.Name)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Files) != 1 {
		t.Fatalf("%d files are planned, want the inlined one", len(plan.Files))
	}
	if got := shownRows(t, cfg.Store, plan.Files[0].Path, s); got != want {
		t.Errorf("the catalog gives\n%swant\n%s", got, want)
	}
}

// shownRows shows all values of a file.
func shownRows(t *testing.T, store storage.Store, path string, s *formats.Schema) string {
	t.Helper()
	object, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parquet.Open(t.Context(), object)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var b strings.Builder
	for rec, err := range file.Batches(t.Context(), s.Fields()) {
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range s.Fields() {
			for row := range int(rec.NumRows()) {
				fmt.Fprintf(&b, "%s %d: %s\n", f.Name, row, rec.Column(i).ValueStr(row))
			}
		}
		rec.Release()
	}
	return b.String()
}
