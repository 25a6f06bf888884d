package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/stages"
)

// sample is a status with something in every field that the page, the metrics or the command show.
func sample() stages.Status {
	return stages.Status{
		Pipeline: "shop", Phase: "streaming", Ready: true,
		Received: 0x16B374D848, Committed: 0x16B374D800, Acknowledged: 0x16B374D700, SourceEnd: 0x16B374E000,
		Checkpoint: 42, CommitTime: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), Known: time.Date(2026, 3, 1, 10, 0, 1, 0, time.UTC),
		MemoryUsed: 1 << 20, MemoryLimit: 1 << 28, Rows: stages.RowCounts{Inserted: 1234, Updated: 5, Deleted: 6, Copied: 7},
		Streamed: stages.StreamedCounts{Transactions: 4, Open: 2, Spilled: 8192}, Commits: 41, Files: 80, Bytes: 3 << 20,
		Queues:     []stages.QueueStatus{{Name: "raw", Length: 3, Limit: 64}},
		LastCommit: stages.CommitDuration{Rows: 10, Waiting: 20 * time.Millisecond, Commit: 30 * time.Millisecond},
		Tables: []stages.TableStatus{
			{Name: "public.orders", Phase: "live", Rows: stages.RowCounts{Inserted: 1}, Files: 9},
			{Name: `public."Log"`, Phase: "copying", AppendOnly: true,
				Copy: &stages.CopyStatus{State: "reading", Rows: 500, Bytes: 9000, EstimatedRows: 1000, Fraction: 0.5, Remaining: 90 * time.Second}},
		},
	}
}

func reportOf(s stages.Status) func() report {
	now := time.Date(2026, 3, 1, 10, 0, 5, 0, time.UTC)
	return func() report {
		return report{Version: "v1", PID: 7, Started: now.Add(-time.Minute), Now: now, Lag: lagOf(&s, now), Status: s,
			Store: storage.Counts{Puts: 12, BytesPut: 4096}}
	}
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func TestReadyOnlyWhenThePipelineSaysSo(t *testing.T) {
	s := sample()
	if w := get(webHandler(reportOf(s)), "/readyz"); w.Code != http.StatusOK {
		t.Errorf("a ready pipeline answers %d %s", w.Code, w.Body)
	}
	s.Ready = false
	if w := get(webHandler(reportOf(s)), "/readyz"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `public."Log" is in its first copy`) {
		t.Errorf("a copying pipeline answers %d %s", w.Code, w.Body)
	}
	s.Phase, s.Trouble = "waiting", "the source does not answer"
	if w := get(webHandler(reportOf(s)), "/readyz"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), s.Trouble) {
		t.Errorf("a pipeline in trouble answers %d %s", w.Code, w.Body)
	}
	if w := get(webHandler(reportOf(s)), "/healthz"); w.Code != http.StatusOK {
		t.Errorf("health is %d although the process lives", w.Code)
	}
}

func TestMetricsSayWhatTheStatusSays(t *testing.T) {
	text := get(webHandler(reportOf(sample())), "/metrics").Body.String()
	for _, line := range []string{
		`streambed_ready 1`, `streambed_trouble 0`, `streambed_build_info{version="v1"} 1`, `streambed_phase{phase="streaming"} 1`,
		`streambed_position_bytes{stage="committed"} 9.7505e+10`, `streambed_lag_bytes 2048`, `streambed_lag_seconds 4`, `streambed_checkpoint 42`,
		`streambed_rows_total{operation="insert"} 1234`, `streambed_rows_total{operation="copy"} 7`, `streambed_queue_limit{queue="raw"} 64`,
		`streambed_last_commit_seconds{phase="commit"} 0.03`, `streambed_table_rows_total{operation="insert",table="public.orders"} 1`,
		`streambed_table_copy_fraction{table="public.\"Log\""} 0.5`, `streambed_table_set_aside{table="public.orders"} 0`, `go_goroutines `,
		`streambed_streamed_transactions_total 4`, `streambed_streamed_transactions_open 2`, `streambed_streamed_spilled_bytes_total 8192`,
		`streambed_store_requests_total{operation="put"} 12`, `streambed_store_bytes_total{direction="written"} 4096`,
	} {
		if strings.HasPrefix(line, "streambed_position") { // rounded by the text form; compare the name alone
			line = `streambed_position_bytes{stage="committed"} `
		}
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("no line %s", line)
		}
	}
}

func TestMetricsAreWellFormed(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(&pipelineCollector{report: reportOf(sample())})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != len(everyMetric) {
		t.Errorf("%d metrics are collected, %d described", len(families), len(everyMetric))
	}
}

func TestStatusPageNeedsNothingFromOutside(t *testing.T) {
	w := get(webHandler(reportOf(sample())), "/")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "status.json") {
		t.Fatalf("the page answers %d", w.Code)
	}
	if found := regexp.MustCompile(`(?:src|href)\s*=|@import|url\(`).FindString(w.Body.String()); found != "" {
		t.Errorf("the page refers to something outside itself: %s", found)
	}
	for _, address := range regexp.MustCompile(`https?://[^"']*`).FindAllString(w.Body.String(), -1) {
		if address != "http://www.w3.org/2000/svg" {
			t.Errorf("the page names %s", address)
		}
	}
	if w := get(webHandler(reportOf(sample())), "/nothing"); w.Code != http.StatusNotFound {
		t.Errorf("an unknown path answers %d", w.Code)
	}
}

func TestStatusIsTheSameAsJSON(t *testing.T) {
	var r report
	if err := json.Unmarshal(get(webHandler(reportOf(sample())), "/status.json").Body.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Status.Committed != sample().Committed || len(r.Status.Tables) != 2 || r.Status.Tables[1].Copy.Remaining != 90*time.Second || r.Lag.Bytes != 2048 {
		t.Errorf("read back as %+v", r)
	}
}

func TestLag(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		s    stages.Status
		want lag
		text string
	}{
		{stages.Status{}, lag{Seconds: -1}, "unknown"},
		{stages.Status{SourceEnd: 100, Committed: 100, Known: now.Add(-time.Hour)}, lag{}, "none"},
		{stages.Status{SourceEnd: 100, Committed: 120}, lag{}, "none"},
		{stages.Status{SourceEnd: 2148, Committed: 100, Known: now.Add(-1500 * time.Millisecond)}, lag{Bytes: 2048, Seconds: 1.5}, "2.0 KiB, 1.5 s"},
		{stages.Status{SourceEnd: 101, Committed: 100, Known: now.Add(time.Second)}, lag{Bytes: 1}, "1 B, 0.0 s"},
		{stages.Status{SourceEnd: 101}, lag{Bytes: 101, Seconds: -1}, "101 B"},
	} {
		if got := lagOf(&c.s, now); got != c.want || got.String() != c.text {
			t.Errorf("lag of %+v is %+v (%s), want %+v (%s)", c.s, got, got, c.want, c.text)
		}
	}
}
