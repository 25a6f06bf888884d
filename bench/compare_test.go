package main

import (
	"strings"
	"testing"
)

func sumOf(t *testing.T, pieces ...string) checksum {
	t.Helper()
	var w checksumWriter
	for _, piece := range pieces {
		if n, err := w.Write([]byte(piece)); err != nil || n != len(piece) {
			t.Fatalf("wrote %d of %d: %v", n, len(piece), err)
		}
	}
	if len(w.part) > 0 {
		t.Fatalf("%q is left over", w.part)
	}
	return w.checksum
}

func TestChecksumKnowsRowsButNotTheirOrder(t *testing.T) {
	want := sumOf(t, "1\ta\n2\tb\n3\t\\N\n")
	if want.Rows != 3 {
		t.Errorf("%d rows", want.Rows)
	}
	for _, same := range [][]string{{"3\t\\N\n", "1\ta\n", "2\tb\n"}, {"2\t", "b\n1", "\ta\n3\t\\N", "\n"}, strings.SplitAfter("1\ta\n2\tb\n3\t\\N\n", "")} {
		if got := sumOf(t, same...); got != want {
			t.Errorf("%q gives %+v, not %+v", same, got, want)
		}
	}
	for _, other := range []string{"1\ta\n2\tb\n", "1\ta\n2\tb\n3\tN\n", "1\tb\n2\ta\n3\t\\N\n", "1\ta\n1\ta\n3\t\\N\n", "1\ta\n2\tb\n3\t\\N\n\n"} {
		if got := sumOf(t, other); got == want {
			t.Errorf("%q has the same sum", other)
		}
	}
}
