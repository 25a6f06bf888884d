package source

import (
	"strings"
	"testing"

	"github.com/streambed/streambed/lsn"
)

func TestIdentifyNamesSystemTimelineAndDatabase(t *testing.T) {
	f := newFixture(t)
	s, err := Identify(t.Context(), f.cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	want := f.Query(t, `SELECT system_identifier, (SELECT timeline_id FROM pg_control_checkpoint()), (SELECT oid FROM pg_database WHERE datname = current_database()) FROM pg_control_system()`)[0]
	if s.SystemIdentifier != want[0] || itoa(s.Timeline) != want[1] || itoa(s.DatabaseOID) != want[2] || s.InRecovery || s.Database != f.Name || s.Flushed == 0 || s.Version < 13 {
		t.Errorf("got %+v, the server says %v", s, want)
	}
}

func TestForkIsReadFromTheTimelinesHistory(t *testing.T) {
	const history = "# comment\n1\t0/A0000A0\tno recovery target specified\n\n2\t16/B374D848\tbefore 2000-01-01 05:30:00+05:30\n"
	for _, c := range []struct {
		from uint32
		at   lsn.LSN
		err  string
	}{
		{1, 0xA0000A0, ""},
		{2, 0x16_B374D848, ""},
		{5, 0, "timeline 3 of the source does not descend from timeline 5, which the lake has followed: run resync --all"},
	} {
		at, err := parseHistory(history, c.from, 3)
		if at != c.at || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("timeline %d was left at %s, %v", c.from, at, err)
		}
	}
	if _, err := parseHistory("x\ty\n", 1, 3); err == nil || !strings.Contains(err.Error(), `"x\ty"`) {
		t.Errorf("a broken line: %v", err)
	}
}

// FuzzHistory proves that no history file makes it fall over.
func FuzzHistory(f *testing.F) {
	f.Add("1\t0/A0000A0\tno recovery target specified\n")
	f.Fuzz(func(t *testing.T, history string) { _, _ = parseHistory(history, 1, 2) })
}
