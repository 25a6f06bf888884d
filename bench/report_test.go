package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/streambed/streambed/formats/storage"
)

func sample() *report {
	return &report{Time: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), CPUs: 2, Postgres: "17.1", Store: "folder", Catalog: "sqlite", Memory: "1GiB",
		Scale: scale{Rows: 1000, Changes: 100, Cut: 10}, Results: []result{
			{Workload: "trickle", Target: "cow", Changes: 100, SourceSeconds: 1, Seconds: 30, CPUSeconds: 20, PeakBytes: 300 << 20, Commits: 10,
				Store: storage.Counts{Puts: 50, Gets: 7, BytesPut: 12_500_000}, Objects: 61, ReadSeconds: []float64{0.01, 0.02, 0.003}, Load: 1.5},
			{Workload: "trickle", Target: "dv", Changes: 100, Seconds: 1, CPUSeconds: 0.5, ReadSeconds: []float64{0.01, 0.02, 0.003}},
			{Workload: "trickle", Target: "mor", Skipped: "the daemon refuses it: not yet"},
		}}
}

func TestReportComparesTargets(t *testing.T) {
	var out strings.Builder
	sample().print(&out)
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"2 CPUs, Postgres 17.1, store: folder, catalog: sqlite", "1000 rows; trickle: 100 changes, 10 a cut",
		"cow 1.0 30.0 20.0 200000.0 300 10 50 7 12.5 61 10.0 20.0 3.0 1.5 30.0", "dv 0.0 1.0 0.5 5000.0", "mor skipped: the daemon refuses it: not yet",
		"cow " + strings.Repeat("#", barWidth) + " 30.0 s", "dv ## 1.0 s",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(text, "append:") {
		t.Error("a workload that did not run has a table")
	}
}

func TestReportAsJSONHoldsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	if err := sample().write(path); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := new(report)
	if err := json.Unmarshal(body, got); err != nil || !reflect.DeepEqual(got, sample()) {
		t.Errorf("%v: read back as %+v", err, got)
	}
}

func TestBarsAreProportional(t *testing.T) {
	for value, want := range map[float64]int{100: 50, 50: 25, 1: 1, 0.001: 1, 0: 0} {
		if got := len(bar(value, 100)); got != want {
			t.Errorf("%v of 100 has %d marks, not %d", value, got, want)
		}
	}
}
