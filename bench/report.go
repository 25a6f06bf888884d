package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// report is a whole run.
type report struct {
	Time     time.Time `json:"time"`
	CPUs     int       `json:"cpus"`
	Postgres string    `json:"postgres"`
	Store    string    `json:"store"`
	Catalog  string    `json:"catalog"`
	Memory   string    `json:"memory"`
	Scale    scale     `json:"scale"`
	Results  []result  `json:"results"`
}

// write writes the report as JSON.
func (r *report) write(path string) error {
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(body, '\n'), 0o644)
}

// print prints one table a workload. Bars and the last column compare the seconds with the fastest target's.
func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "%d CPUs, Postgres %s, store: %s, catalog: %s, memory: %s\n", r.CPUs, r.Postgres, r.Store, r.Catalog, r.Memory)
	fmt.Fprintf(out, "%d rows; trickle: %d changes, %d a cut\n", r.Scale.Rows, r.Scale.Changes, r.Scale.Cut)
	for i := range workloads {
		w := &workloads[i]
		var of []result
		for _, one := range r.Results {
			if one.Workload == w.name {
				of = append(of, one)
			}
		}
		if len(of) > 0 {
			fmt.Fprintf(out, "\n%s: %s\n", w.name, w.about)
			printWorkload(out, of)
		}
	}
}

func printWorkload(out io.Writer, of []result) {
	fastest, slowest := extremes(of)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\tsource s\tseconds\tCPU s\tCPU us/row\tpeak MiB\tcommits\tputs\tgets\twritten MB\tobjects\t")
	for _, q := range reads {
		fmt.Fprintf(table, "%s ms\t", q.name)
	}
	fmt.Fprintln(table, "load\t x\t")
	for _, r := range of {
		if r.Skipped != "" {
			continue
		}
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%d\t%d\t%d\t%.1f\t%d\t", r.Target, r.SourceSeconds, r.Seconds, r.CPUSeconds,
			r.CPUSeconds*1e6/float64(max(r.Changes, 1)), r.PeakBytes>>20, r.Commits, r.Store.Puts, r.Store.Gets, float64(r.Store.BytesPut)/1e6, r.Objects)
		for _, s := range r.ReadSeconds {
			fmt.Fprintf(table, "%.1f\t", s*1e3)
		}
		fmt.Fprintf(table, "%.1f\t%.1f\t\n", r.Load, r.Seconds/fastest)
	}
	_ = table.Flush()
	for _, r := range of {
		if r.Skipped != "" {
			fmt.Fprintf(out, "  %-9s skipped: %s\n", r.Target, r.Skipped)
			continue
		}
		fmt.Fprintf(out, "  %-9s %s %.1f s\n", r.Target, bar(r.Seconds, slowest), r.Seconds)
	}
}

// extremes are the seconds of the fastest and the slowest target that ran.
func extremes(of []result) (fastest, slowest float64) {
	for _, r := range of {
		if r.Skipped != "" {
			continue
		}
		if fastest == 0 || r.Seconds < fastest {
			fastest = r.Seconds
		}
		slowest = max(slowest, r.Seconds)
	}
	return fastest, slowest
}

// barWidth is the length of the longest bar.
const barWidth = 50

// bar draws a value as a share of the largest; what is above 0 has at least one mark.
func bar(value, largest float64) string {
	if value <= 0 || largest <= 0 {
		return ""
	}
	return strings.Repeat("#", max(1, int(value/largest*barWidth+0.5)))
}
