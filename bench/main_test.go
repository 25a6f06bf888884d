package main

import (
	"io"
	"strings"
	"testing"
)

func TestCommandLineChoosesAndScales(t *testing.T) {
	o, err := parse([]string{"-workloads", "trickle, append", "-targets", "ducklake,dv", "-scale", "0.01", "-cut", "50", "-catalog", "postgres", "-store", "s3"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got := nameList(o.workloads, func(w workload) string { return w.name }); got != "trickle,append" {
		t.Errorf("workloads are %s", got)
	}
	if got := nameList(o.targets, func(one target) string { return one.name }); got != "ducklake,dv" {
		t.Errorf("targets are %s", got)
	}
	if want := (scale{Rows: 10_000, Changes: 1000, Cut: 50}); o.scale != want {
		t.Errorf("scale is %+v, not %+v", o.scale, want)
	}
	if all, err := parse(nil, io.Discard); err != nil || len(all.workloads) != len(workloads) || len(all.targets) != len(targets) {
		t.Errorf("without flags: %+v, %v", all, err)
	}
}

func TestWrongCommandLinesAreSaid(t *testing.T) {
	for args, says := range map[string]string{
		"-targets mow": `no target "mow"; choose from cow,mor,dv,ducklake`, "-workloads x": `no workload "x"`, "-store disk": "folder or s3",
		"-catalog rest": "sqlite or postgres", "-scale 0": "at least 1", "-cut 0": "at least 1", "trickle": `"trickle" is not understood`,
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, not %s", args, err, says)
		}
	}
}
