package config

import (
	"testing"
	"time"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "4096": 4096, "64MiB": 64 << 20, "1GiB": 1 << 30, "10GB": 10_000_000_000,
		"1.5 GiB": 3 << 29, "1kb": 1000, "2tib": 2 << 40, "7B": 7} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1MiB", "1 2MiB", "1..2MiB", "NaN", "Inf", "0x10", "1PiB"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
	for _, bytes := range []int64{0, 1, 1023, 1024, 64 << 20, 3 << 29, 1 << 40, 1<<40 + 1} {
		if got, err := ParseSize(FormatSize(bytes)); err != nil || got != bytes {
			t.Errorf("%d becomes %s becomes %d, %v", bytes, FormatSize(bytes), got, err)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{"200ms": 200 * time.Millisecond, "1h30m": 90 * time.Minute, "7d": 168 * time.Hour, "0": 0} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "2", "d", "-1d", "1000000d", "1.5d", "2 s", "soon"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", text, got)
		}
	}
}

func TestTableNamesAreReadAsWritten(t *testing.T) {
	for text, want := range map[string][2]string{
		"public.orders": {"public", "orders"}, `public."a.b"`: {"public", "a.b"}, `"S.x"."qu""ote"`: {"S.x", `qu"ote`},
		"public.MixedCase": {"public", "MixedCase"}, `public."*"`: {"public", "*"}, "public.ünïcode": {"public", "ünïcode"},
		`public."with space"`: {"public", "with space"}, "public.sla/sh": {"public", "sla/sh"},
	} {
		if schema, table, err := ParseTable(text); err != nil || schema != want[0] || table != want[1] {
			t.Errorf("ParseTable(%s) = %q, %q, %v; want %q", text, schema, table, err, want)
		}
	}
	for _, text := range []string{"", ".", "a.", ".b", "orders", "a.b.c", `a."b`, `a.b"c"`, `a."b"c`, `a.""`, "a.*", "*", "a.\x00", "a.\xff"} {
		if schema, table, err := ParseTable(text); err == nil {
			t.Errorf("ParseTable(%q) = %q, %q; want an error", text, schema, table)
		}
	}
}

func TestLoopback(t *testing.T) {
	for listen, want := range map[string]bool{"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, "127.9.9.9:1": true,
		"0.0.0.0:1": false, ":1": false, "[::]:1": false, "db.example:1": false, "10.0.0.1:1": false} {
		if Loopback(listen) != want {
			t.Errorf("Loopback(%s) = %v", listen, !want)
		}
	}
}
