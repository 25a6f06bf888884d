package endtoend

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// TestAStandbyFeedsThePipelineAndItsPromotionLosesNothing: slot and stream are the standby's, publications are made on the
// primary, and once that is gone the standby is all there is.
func TestAStandbyFeedsThePipelineAndItsPromotionLosesNothing(t *testing.T) {
	t.Parallel()
	var primary *postgres.Server
	var err error
	for _, version := range []string{"18", "17", "16"} {
		if primary, err = postgres.Start(t.Context(), postgres.Options{Version: version}); !errors.Is(err, postgres.ErrNoBinaries) {
			break
		}
	}
	if errors.Is(err, postgres.ErrNoBinaries) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = primary.Close() })
	p := newPipeline(t, primary, twoTables+`; CREATE TABLE whole (n int, v text); ALTER TABLE whole REPLICA IDENTITY FULL;
		INSERT INTO whole SELECT g / 2, 'v' FROM generate_series(1, 50) g; CREATE TABLE log (line text); INSERT INTO log VALUES ('first')`)
	standby, err := postgres.StartStandby(t.Context(), primary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Close() })
	promoted := &postgres.Database{Server: standby, Name: p.source.Name}
	text, err := os.ReadFile(p.config)
	if err != nil {
		t.Fatal(err)
	}
	from := `url: "` + p.source.URL() + `"`
	to := `url: "` + promoted.URL() + `", primary_url: "` + p.source.URL() + `"`
	if err := os.WriteFile(p.config, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := p.command("check"); code != 0 {
		t.Errorf("check exits with %d:\n%s", code, out)
	}
	d := p.start()
	d.ready()
	change := `INSERT INTO one SELECT max(id) + 1, 'new' FROM one; UPDATE two SET v = v || '+'; DELETE FROM whole WHERE ctid = (SELECT min(ctid) FROM whole);
		UPDATE whole SET v = 'w' WHERE n = 20; INSERT INTO log VALUES ('line')`
	p.source.Exec(t, change)
	p.source.Exec(t, "CREATE TABLE late (id int PRIMARY KEY); INSERT INTO late VALUES (1), (2)")
	p.same(d, "one", "two", "whole", "log", "late")
	// What the standby has not got is not its to lose.
	p.source.Exec(t, change+"; DELETE FROM late WHERE id = 1")
	last := p.source.Query(t, "SELECT pg_current_wal_flush_lsn()")[0][0]
	d.eventually(time.Minute, "the standby to have all that was committed", func() (bool, string) {
		at := promoted.Query(t, "SELECT pg_last_wal_replay_lsn() >= '"+last+"'")[0][0]
		return at == "t", at
	})
	if err := primary.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.source = promoted
	p.source.Exec(t, change+"; INSERT INTO late VALUES (3)")
	p.same(d, "one", "two", "whole", "log", "late")
	p.source.Exec(t, "CREATE TABLE later (id int PRIMARY KEY); INSERT INTO later VALUES (1)")
	p.same(d, "later")
	d.stop(15)
	p.source.Exec(t, change)
	d = p.start()
	p.same(d, "one", "two", "whole", "log", "late", "later")
}
