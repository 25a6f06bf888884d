package main

import (
	"os"
	"testing"
	"time"
)

func TestProcessFiguresAreParsed(t *testing.T) {
	got, err := parseStat([]byte("4711 (a (strange) name) S 1 4711 4711 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 8 0 100 1000 200\n"))
	if err != nil || got != 4*time.Second {
		t.Errorf("CPU time is %s, %v", got, err)
	}
	for _, bad := range []string{"", "1 (x) S 1", "1 (x) S 1 1 1 0 -1 1 1 0 0 0 a b 0 0"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if got, err := parsePeak([]byte("Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t  2048 kB\nVmRSS:\t 1 kB\n")); err != nil || got != 2<<20 {
		t.Errorf("peak is %d, %v", got, err)
	}
	if _, err := parsePeak([]byte("Name:\tx\n")); err == nil {
		t.Error("a status without a peak was taken")
	}
	if used, err := processTime(os.Getpid()); err != nil || used < 0 {
		t.Errorf("our own CPU time is %s, %v", used, err)
	}
	if peak, err := peakMemory(os.Getpid()); err != nil || peak < 1<<20 {
		t.Errorf("our own peak is %d, %v", peak, err)
	}
}
