package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is Linux' unit of process times, the same on every architecture that Go knows.
const clockTick = 10 * time.Millisecond

// processTime is the CPU time that a process has used, its threads together.
func processTime(pid int) (time.Duration, error) {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(body)
}

// parseStat reads user and system time out of /proc/PID/stat (proc(5)): fields 14 and 15. The name in field 2 may hold
// anything, so fields count from the last parenthesis.
func parseStat(body []byte) (time.Duration, error) {
	fields := strings.Fields(string(body[bytes.LastIndexByte(body, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("not the form of /proc/PID/stat: %q", body)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("not the form of /proc/PID/stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// resetPeak makes peakMemory count from now.
func resetPeak(pid int) { _ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) }

// peakMemory is the most memory, in bytes, that a process held resident since resetPeak.
func peakMemory(pid int) (int64, error) {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return parsePeak(body)
}

// parsePeak reads VmHWM out of /proc/PID/status.
func parsePeak(body []byte) (int64, error) {
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/PID/status has no line VmHWM")
}

// load is the load average of the last minute.
func load() float64 {
	body, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(body), " ")
	n, _ := strconv.ParseFloat(first, 64)
	return n
}
