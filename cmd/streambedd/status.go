package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/streambed/streambed/cmd/internal/config"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages"
	"github.com/streambed/streambed/stages/source"
)

func newStatus(p *program) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how far the lake is and what is wrong with any table",
		Long: "status asks the running daemon, or reads the lake when none is running. It exits with 3 when the daemon is not\n" +
			"running, a table is set aside, or something fails and is being retried.",
		Args: noArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the daemon says as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.load(cmd)
		if err != nil {
			return err
		}
		r, err := askStatus(cmd.Context(), cfg.State)
		if errors.Is(err, errNotRunning) {
			return p.statusOfLake(cmd.Context(), cfg)
		}
		if err != nil {
			return err
		}
		if asJSON {
			e := json.NewEncoder(p.out)
			e.SetIndent("", "  ")
			if err := e.Encode(r); err != nil {
				return err
			}
		} else {
			printReport(p.out, r)
		}
		return troubleOf(&r.Status)
	}
	return cmd
}

// troubleOf makes an error of whatever in a status needs attention.
func troubleOf(s *stages.Status) error {
	var aside []string
	for _, t := range s.Tables {
		if t.SetAside != "" {
			aside = append(aside, t.Name)
		}
	}
	switch {
	case len(aside) > 0:
		return findings("%s set aside: %s", plural(len(aside), "table is", "tables are"), strings.Join(aside, ", "))
	case s.Trouble != "":
		return findings("the pipeline is in trouble: %s", s.Trouble)
	}
	return nil
}

func printReport(w io.Writer, r *report) {
	s := &r.Status
	ready := "not ready: " + notReady(*r)
	if s.Ready {
		ready = "ready"
	}
	fmt.Fprintf(w, "pipeline %s: %s, %s (process %d, up %s)\n", s.Pipeline, s.Phase, ready, r.PID, r.Now.Sub(r.Started).Round(time.Second))
	fmt.Fprintf(w, "lake at %s, checkpoint %d%s; source at %s; acknowledged %s\n", s.Committed, s.Checkpoint, committedAt(s.CommitTime), s.SourceEnd, s.Acknowledged)
	fmt.Fprintf(w, "lag %s\n", r.Lag)
	fmt.Fprintf(w, "since the start: %s inserted, %s updated, %s deleted, %s copied; %s, %s, %s written\n",
		number(s.Rows.Inserted), number(s.Rows.Updated), number(s.Rows.Deleted), number(s.Rows.Copied),
		plural(int(s.Commits), "commit", "commits"), plural(int(s.Files), "file", "files"), bytesText(s.Bytes))
	if s.Trouble != "" {
		fmt.Fprintf(w, "trouble: %s\n", s.Trouble)
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TABLE\tPHASE\tINSERTED\tUPDATED\tDELETED\tCOPIED\tFILES\tNOTE")
	for i := range s.Tables {
		t := &s.Tables[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", t.Name, phaseOf(t), number(t.Rows.Inserted), number(t.Rows.Updated),
			number(t.Rows.Deleted), number(t.Rows.Copied), t.Files, noteOf(t))
	}
	_ = table.Flush()
	for i := range s.Tables {
		t := &s.Tables[i]
		if t.SetAside != "" {
			fmt.Fprintf(w, "\n%s is set aside: %s\n", t.Name, t.SetAside)
		}
		for _, warning := range t.Warnings {
			fmt.Fprintf(w, "\n%s: %s\n", t.Name, warning)
		}
	}
}

func (l lag) String() string {
	switch {
	case l.Seconds < 0 && l.Bytes == 0:
		return "unknown"
	case l.Bytes == 0:
		return "none"
	case l.Seconds < 0:
		return bytesText(int64(l.Bytes))
	}
	return fmt.Sprintf("%s, %.1f s", bytesText(int64(l.Bytes)), l.Seconds)
}

func phaseOf(t *stages.TableStatus) string {
	if t.SetAside != "" {
		return "set aside"
	}
	return t.Phase
}

// copying reports whether a table's copy is under way; its last standing is kept when it is done.
func copying(t *stages.TableStatus) bool { return t.Copy != nil && t.Copy.State != "published" }

// noteOf says in a few words what is special about a table; long texts follow below the list.
func noteOf(t *stages.TableStatus) string {
	var notes []string
	if t.AppendOnly {
		notes = append(notes, "append-only")
	}
	if c := t.Copy; copying(t) {
		note := fmt.Sprintf("copy %s: %s of about %s rows, %s, %.0f %%", c.State, number(c.Rows), number(c.EstimatedRows), bytesText(c.Bytes), 100*c.Fraction)
		if c.EstimatedRows == 0 {
			note = fmt.Sprintf("copy %s: %s rows, %s, %.0f %%", c.State, number(c.Rows), bytesText(c.Bytes), 100*c.Fraction)
		}
		if c.Remaining > 0 {
			note += ", about " + c.Remaining.Round(time.Second).String() + " left"
		}
		notes = append(notes, note)
	}
	if n := len(t.Warnings); n > 0 {
		notes = append(notes, plural(n, "warning", "warnings"))
	}
	return strings.Join(notes, "; ")
}

// statusOfLake says what the lake itself knows, without a daemon.
func (p *program) statusOfLake(ctx context.Context, cfg *config.Config) error {
	view, err := currentView(ctx, cfg)
	if err != nil {
		return fmt.Errorf("%w, and the lake cannot be read: %w", errNotRunning, err)
	}
	fmt.Fprintf(p.out, "pipeline %s: the daemon is not running\n", cfg.Pipeline)
	if view == nil {
		fmt.Fprintln(p.out, "it has not written to the lake yet")
		return findings("the daemon is not running; start it with `streambedd run`")
	}
	fmt.Fprintf(p.out, "lake at %s, checkpoint %d%s\n\n", view.Position, view.Checkpoint, committedAt(view.CommitTime))
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TABLE\tPHASE")
	aside := 0
	for _, t := range view.Tables {
		phase := "live"
		if t.SetAside != "" {
			phase, aside = "set aside", aside+1
		}
		fmt.Fprintf(table, "%s\t%s\n", source.Show(t.Name), phase)
	}
	_ = table.Flush()
	for _, t := range view.Tables {
		if t.SetAside != "" {
			fmt.Fprintf(p.out, "\n%s is set aside: %s\n", source.Show(t.Name), t.SetAside)
		}
	}
	if aside > 0 {
		return findings("the daemon is not running, and %s set aside", plural(aside, "table is", "tables are"))
	}
	return findings("the daemon is not running; start it with `streambedd run`")
}

// currentView reads the newest checkpoint; nil when nothing has been written yet.
func currentView(ctx context.Context, cfg *config.Config) (*formats.View, error) {
	reader, err := openReader(ctx, cfg)
	if err != nil || reader == nil {
		return nil, err
	}
	defer reader.Close()
	return reader.Current(ctx)
}

func committedAt(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", source commits up to " + t.UTC().Format("2006-01-02 15:04:05.000 UTC")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(int64(n)) + " " + many
}

// number writes a count with commas between thousands.
func number(n int64) string {
	text := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(text) - 3; i > start; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// bytesText writes a size for people, in three digits.
func bytesText(n int64) string {
	value, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for value >= 1024 && i < len(units)-1 {
		value, i = value/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[i])
}
