package main

import (
	"io"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// TestOneWorkloadEndToEnd runs the whole harness at a small scale, its check against the source included.
func TestOneWorkloadEndToEnd(t *testing.T) {
	if _, err := postgres.Binaries(""); err != nil {
		t.Skip(err)
	}
	o, err := parse([]string{"-workloads", "trickle", "-targets", "dv", "-rows", "3000", "-changes", "200", "-cut", "50", "-interval", "300ms"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r, err := run(t.Context(), *o, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 1 {
		t.Fatalf("%d results", len(r.Results))
	}
	one := r.Results[0]
	if one.Skipped != "" || one.Changes != 200 || one.Checksum.Rows != 3000 || one.Seconds <= 0 || one.Seconds > time.Since(began).Seconds() ||
		one.Commits < 1 || one.Store.Puts < one.Commits || one.Store.BytesPut == 0 || one.Objects < one.Store.Puts/2 || len(one.ReadSeconds) != len(reads) {
		t.Errorf("measured %+v", one)
	}
}
