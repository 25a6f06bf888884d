package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/streambed/streambed/stages"
)

// pipelineCollector makes metrics of a pipeline's status at each scrape, so that both always say the same.
type pipelineCollector struct {
	report func() report
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("streambed_"+name, help, labels, nil)
}

var (
	buildInfo       = describe("build_info", "Always 1; the version is a label.", "version")
	pipelineReady   = describe("ready", "1 while the pipeline streams and no table is in its first copy.")
	pipelineTrouble = describe("trouble", "1 while something fails and is retried.")
	pipelinePhase   = describe("phase", "1 for the phase the pipeline is in.", "phase")
	positionBytes   = describe("position_bytes", "Position in the source's WAL, by stage: received, committed to the lake, acknowledged to the source, and the source's own end.", "stage")
	lagBytes        = describe("lag_bytes", "WAL between the lake's position and the source's end.")
	lagSeconds      = describe("lag_seconds", "Age of the source time up to which the lake is complete; 0 when nothing is outstanding.")
	checkpointNo    = describe("checkpoint", "Number of the newest checkpoint.")
	commitTime      = describe("commit_time_seconds", "Source commit time of the newest transaction in the lake.")
	knownTime       = describe("known_time_seconds", "Source time up to which the lake is known to be complete.")
	rowsTotal       = describe("rows_total", "Row changes taken since the start.", "operation")
	streamedTotal   = describe("streamed_transactions_total", "Transactions that came before their commit, since they are large, since the start.")
	streamedOpen    = describe("streamed_transactions_open", "Transactions that have begun to come and are kept until their commit.")
	spilledBytes    = describe("streamed_spilled_bytes_total", "Bytes of such transactions that went to the local disk since the start.")
	commitsTotal    = describe("commits_total", "Checkpoints committed since the start.")
	filesTotal      = describe("files_total", "Data files written since the start.")
	bytesTotal      = describe("bytes_total", "Bytes of data files written since the start.")
	storeRequests   = describe("store_requests_total", "Calls to the object store since the start; each read from an open object counts as a get.", "operation")
	storeBytes      = describe("store_bytes_total", "Bytes written to and read from the object store since the start.", "direction")
	memoryBytes     = describe("memory_bytes", "Admission budget: bytes used and its limit.", "kind")
	queueLength     = describe("queue_length", "Entries in a channel between two stages.", "queue")
	queueLimit      = describe("queue_limit", "Most entries a channel holds.", "queue")
	lastRows        = describe("last_commit_rows", "Row changes of the newest checkpoint.")
	lastSeconds     = describe("last_commit_seconds", "Duration of the newest checkpoint's phases.", "phase")
	tableRows       = describe("table_rows_total", "Row changes of a table taken since the start.", "table", "operation")
	tableFiles      = describe("table_files", "Live data files of a table.", "table")
	tablePhase      = describe("table_phase", "1 for the phase a table is in.", "table", "phase")
	tableSetAside   = describe("table_set_aside", "1 when a table no longer follows its source; status says why.", "table")
	tableWarnings   = describe("table_warnings", "Warnings about a table; status shows them.", "table")
	copyRows        = describe("table_copy_rows", "Rows read by a running copy.", "table")
	copyBytes       = describe("table_copy_bytes", "Bytes read by a running copy.", "table")
	copyFraction    = describe("table_copy_fraction", "Share of a running copy that is done, 0 to 1.", "table")

	everyMetric = []*prometheus.Desc{buildInfo, pipelineReady, pipelineTrouble, pipelinePhase, positionBytes, lagBytes, lagSeconds,
		checkpointNo, commitTime, knownTime, rowsTotal, streamedTotal, streamedOpen, spilledBytes, commitsTotal, filesTotal, bytesTotal, storeRequests, storeBytes, memoryBytes, queueLength, queueLimit,
		lastRows, lastSeconds, tableRows, tableFiles, tablePhase, tableSetAside, tableWarnings, copyRows, copyBytes, copyFraction}
)

// Describe lists the metrics.
func (c *pipelineCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range everyMetric {
		out <- d
	}
}

// Collect sends the metrics of the status as it is now.
func (c *pipelineCollector) Collect(out chan<- prometheus.Metric) {
	r := c.report()
	s := &r.Status
	send := func(kind prometheus.ValueType) func(*prometheus.Desc, float64, ...string) {
		return func(d *prometheus.Desc, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
		}
	}
	gauge, counter := send(prometheus.GaugeValue), send(prometheus.CounterValue)

	gauge(buildInfo, 1, r.Version)
	gauge(pipelineReady, oneIf(s.Ready))
	gauge(pipelineTrouble, oneIf(s.Trouble != ""))
	gauge(pipelinePhase, 1, s.Phase)
	gauge(positionBytes, float64(s.Received), "received")
	gauge(positionBytes, float64(s.Committed), "committed")
	gauge(positionBytes, float64(s.Acknowledged), "acknowledged")
	gauge(positionBytes, float64(s.SourceEnd), "source_end")
	gauge(lagBytes, float64(r.Lag.Bytes))
	if r.Lag.Seconds >= 0 {
		gauge(lagSeconds, r.Lag.Seconds)
	}
	gauge(checkpointNo, float64(s.Checkpoint))
	when(gauge, commitTime, s.CommitTime)
	when(gauge, knownTime, s.Known)
	counter(streamedTotal, float64(s.Streamed.Transactions))
	gauge(streamedOpen, float64(s.Streamed.Open))
	counter(spilledBytes, float64(s.Streamed.Spilled))
	counter(commitsTotal, float64(s.Commits))
	counter(filesTotal, float64(s.Files))
	counter(bytesTotal, float64(s.Bytes))
	counter(storeRequests, float64(r.Store.Puts), "put")
	counter(storeRequests, float64(r.Store.Gets), "get")
	counter(storeRequests, float64(r.Store.Deletes), "delete")
	counter(storeRequests, float64(r.Store.Lists), "list")
	counter(storeBytes, float64(r.Store.BytesPut), "written")
	counter(storeBytes, float64(r.Store.BytesGot), "read")
	gauge(memoryBytes, float64(s.MemoryUsed), "used")
	gauge(memoryBytes, float64(s.MemoryLimit), "limit")
	gauge(lastRows, float64(s.LastCommit.Rows))
	gauge(lastSeconds, s.LastCommit.Waiting.Seconds(), "waiting")
	gauge(lastSeconds, s.LastCommit.Commit.Seconds(), "commit")
	rows(counter, rowsTotal, s.Rows)
	for _, q := range s.Queues {
		gauge(queueLength, float64(q.Length), q.Name)
		gauge(queueLimit, float64(q.Limit), q.Name)
	}
	for i := range s.Tables {
		collectTable(gauge, counter, &s.Tables[i])
	}
}

type sender = func(*prometheus.Desc, float64, ...string)

func collectTable(gauge, counter sender, t *stages.TableStatus) {
	rows(counter, tableRows, t.Rows, t.Name)
	gauge(tableFiles, float64(t.Files), t.Name)
	gauge(tablePhase, 1, t.Name, t.Phase)
	gauge(tableSetAside, oneIf(t.SetAside != ""), t.Name)
	gauge(tableWarnings, float64(len(t.Warnings)), t.Name)
	if copying(t) {
		gauge(copyRows, float64(t.Copy.Rows), t.Name)
		gauge(copyBytes, float64(t.Copy.Bytes), t.Name)
		gauge(copyFraction, t.Copy.Fraction, t.Name)
	}
}

// rows sends the four counts under labels with the operation after them.
func rows(counter sender, d *prometheus.Desc, r stages.RowCounts, labels ...string) {
	for _, o := range []struct {
		name  string
		count int64
	}{{"insert", r.Inserted}, {"update", r.Updated}, {"delete", r.Deleted}, {"copy", r.Copied}} {
		counter(d, float64(o.count), append(labels[:len(labels):len(labels)], o.name)...)
	}
}

// when sends a time, if there is one, in seconds since 1970.
func when(gauge sender, d *prometheus.Desc, t time.Time) {
	if !t.IsZero() {
		gauge(d, float64(t.UnixMicro())/1e6)
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
