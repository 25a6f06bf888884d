package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streambed/streambed/cmd/internal/config"
	"github.com/streambed/streambed/stages/source"
)

// command runs the program and gives what it said.
func command(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = run(args, nil, &o, &e)
	return code, o.String(), e.String()
}

// pipelineFile writes a configuration that this version can do, with everything in a folder of the test's own.
func pipelineFile(t *testing.T, more string) (path, dir string) {
	t.Helper()
	dir = shortDir(t)
	path = filepath.Join(dir, "pipeline.yaml")
	text := fmt.Sprintf("source: {url: 'postgres://nobody@127.0.0.1:1/none'}\nlake: {mode: dv, warehouse: 'file://%[1]s/warehouse', catalog: 'sqlite://%[1]s/catalog.db'}\nstate: %[1]s/state\n%[2]s", dir, more)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, dir
}

func TestMistakesOnTheCommandLineAreUsageErrors(t *testing.T) {
	path, _ := pipelineFile(t, "")
	wrong, _ := pipelineFile(t, "flush: {intervall: 2s}\n")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--config", "/not/there.yaml"}, "/not/there.yaml does not exist"},
		{[]string{"statu"}, "did you mean status?"},
		{[]string{"--flush-intervall", "1s"}, "--help"},
		{[]string{"--config", path, "--flush-interval", "1"}, "--flush-interval: flush.interval"},
		{[]string{"check", "--config", wrong}, "did you mean flush.interval?"},
		{[]string{"snapshots", "--config", path}, "--table is missing"},
		{[]string{"snapshots", "--config", path, "--table", "orders"}, "public.orders"},
		{[]string{"verify", "--config", path}, "--table is missing"},
		{[]string{"status", "--config", path, "extra"}, `"extra" is not expected`},
	} {
		code, _, said := command(c.args...)
		if code != exitUsage || !strings.Contains(said, c.says) {
			t.Errorf("%q exits with %d and says %q; want %d and %q", c.args, code, said, exitUsage, c.says)
		}
	}
}

func TestWhatThisVersionCannotDoIsRefusedNotIgnored(t *testing.T) {
	path, _ := pipelineFile(t, "tables: [{name: public.t, partition_by: [day(x)]}]\n")
	code, _, said := command("run", "--config", path)
	if code != exitUsage || !strings.Contains(said, "partition_by") {
		t.Errorf("exits with %d and says %q", code, said)
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	for _, name := range []string{"run", "check", "status", "snapshots", "verify", "teardown"} {
		code, out, _ := command(name, "--help")
		if code != 0 || !strings.Contains(out, "--config") || !strings.Contains(out, "Usage:") {
			t.Errorf("%s --help exits with %d and prints\n%s", name, code, out)
		}
	}
	if code, out, _ := command("--version"); code != 0 || !strings.Contains(out, version) {
		t.Errorf("--version exits with %d and prints %q", code, out)
	}
}

func TestCheckReportsASourceThatDoesNotAnswerAndTheRestToo(t *testing.T) {
	path, dir := pipelineFile(t, "")
	if err := os.WriteFile(filepath.Join(dir, "state"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, said := command("check", "--config", path)
	if code != exitFindings || !strings.Contains(out, "error: connection") || !strings.Contains(out, "error: state") || !strings.Contains(said, "2 findings") {
		t.Errorf("exits with %d and prints\n%s\n%s", code, out, said)
	}
	if !strings.Contains(out, "memory 1GiB: ") {
		t.Errorf("the split of memory is missing:\n%s", out)
	}
	code, out, _ = command("check", "--json", "--config", path)
	if code != exitFindings || !strings.HasPrefix(out, "[") {
		t.Errorf("--json exits with %d and prints\n%s", code, out)
	}
}

func TestStatusWithoutADaemonSaysSo(t *testing.T) {
	path, _ := pipelineFile(t, "")
	code, out, said := command("status", "--config", path)
	if code != exitFindings || !strings.Contains(out, "not running") || !strings.Contains(out, "not written to the lake yet") || !strings.Contains(said, "streambedd run") {
		t.Errorf("exits with %d and prints\n%s\n%s", code, out, said)
	}
}

func TestStatusShowsTablesAndFailsWhenOneIsSetAside(t *testing.T) {
	s := sample()
	path, dir := pipelineFile(t, "")
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := listenControl(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- serve(ctx, listener, controlHandler(func() report { return reportOf(s)() }, nil)) }()
	defer func() { stop(); <-ended }()

	code, out, _ := command("status", "--config", path)
	if code != 0 {
		t.Errorf("a pipeline without trouble exits with %d", code)
	}
	for _, want := range []string{"pipeline shop: streaming, ready (process 7, up 1m0s)", "lake at 16/B374D800, checkpoint 42, source commits up to 2026-03-01 10:00:00.000 UTC",
		"lag 2.0 KiB, 4.0 s", "1,234 inserted", "public.orders  live", "append-only; copy reading: 500 of about 1,000 rows, 8.8 KiB, 50 %, about 1m30s left"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	s.Tables[0].SetAside = "a value does not fit; run resync"
	code, out, said := command("status", "--config", path)
	if code != exitFindings || !strings.Contains(out, "public.orders is set aside: a value does not fit; run resync") || !strings.Contains(said, "1 table is set aside: public.orders") {
		t.Errorf("with a table set aside it exits with %d and prints\n%s\n%s", code, out, said)
	}
	if code, _, said = command("teardown", "--config", path); code != exitFailed || !strings.Contains(said, "stop it first") {
		t.Errorf("teardown under a running daemon exits with %d and says %s", code, said)
	}
}

func TestPatternsMeanTheSameToConfigurationAndSource(t *testing.T) {
	for _, text := range []string{"public.orders", "public.*", "*.*", `public."a.b"`, `"S.x"."qu""ote"`, `public."*"`, "public.MixedCase", "a*.b*c", "public.ünïcode", `public."with space"`} {
		if _, err := config.ParsePattern(text); err != nil {
			t.Errorf("configuration refuses %s: %v", text, err)
		}
		if _, err := source.ParsePattern(text); err != nil {
			t.Errorf("source refuses %s: %v", text, err)
		}
		schema, table, err := config.ParseTable(text)
		name, err2 := source.ParseName(text)
		if (err == nil) != (err2 == nil) || err == nil && (schema != name.Schema || table != name.Table) {
			t.Errorf("%s is %s.%s (%v) to configuration, %v (%v) to source", text, schema, table, err, name, err2)
		}
	}
}

func TestFailpointsAreRefusedWhenMistyped(t *testing.T) {
	for _, value := range []string{"swap done:0", "swap done:x", "swap done:"} {
		if _, err := failpoints([]string{"STREAMBED_FAILPOINT=" + value}); err == nil {
			t.Errorf("%q is accepted", value)
		}
	}
	if f, err := failpoints(nil); f != nil || err != nil {
		t.Errorf("without the variable there is a failpoint (%v)", err)
	}
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -999: "-999", 1000000: "1,000,000"} {
		if got := number(n); got != want {
			t.Errorf("number(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 1 << 30: "1.0 GiB", 5 << 50: "5120.0 TiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("bytesText(%d) = %s, want %s", n, got, want)
		}
	}
}
