package decoder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func newSpool(t *testing.T, limit int64) *spool {
	return &spool{dir: t.TempDir(), limit: limit, logs: map[uint32]*streamLog{}, stats: &counters{}}
}

// read gives what a log holds.
func read(t *testing.T, l *streamLog) []string {
	t.Helper()
	var got []string
	err := l.each(func(int) error { return nil }, func(kind byte, body []byte) error {
		got = append(got, string(kind)+string(body))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestALogKeepsItsOrderWhereverItsRecordsAre fills logs in turn with records of all sizes, from nothing to larger than any
// buffer, with memory for all, some or none of them.
func TestALogKeepsItsOrderWhereverItsRecordsAre(t *testing.T) {
	for _, limit := range []int64{1, 50_000, 1 << 30} {
		s := newSpool(t, limit)
		want := map[uint32][]string{}
		sizes := []int{0, 1, 100, 5000, largeBlock - recordHeader - 1, largeBlock, 2*largeBlock + 7}
		for round := range 20 {
			for xid := uint32(1); xid <= 3; xid++ {
				l := s.logs[xid]
				if l == nil {
					l = s.begin(xid)
				}
				sub := xid*100 + uint32(round%3)
				body := strings.Repeat(fmt.Sprint(round%10), sizes[(round+int(xid))%len(sizes)])
				if err := s.add(l, sub, 'I', []byte(body)); err != nil {
					t.Fatal(err)
				}
				if round%3 != 1 {
					want[xid] = append(want[xid], "I"+body)
				}
				if s.held > max(limit, largeBlock) {
					t.Fatalf("%d bytes are held in memory, %d is the bound", s.held, limit)
				}
			}
		}
		for xid, l := range s.logs {
			l.dropped[xid*100+1] = true
			got := read(t, l)
			if len(got) != len(want[xid]) {
				t.Fatalf("limit %d: log %d gave %d records, wanted %d", limit, xid, len(got), len(want[xid]))
			}
			for i := range got {
				if got[i] != want[xid][i] {
					t.Fatalf("limit %d: record %d of log %d is not the one written", limit, i, xid)
				}
			}
		}
		s.close()
		if left, err := os.ReadDir(s.dir); s.held != 0 || err != nil || len(left) > 0 {
			t.Errorf("limit %d: %d bytes are held at the end, %v is left, %v", limit, s.held, left, err)
		}
	}
}

// TestALogThatLostBytesIsNotReplayedInPart: a file that is shorter than what was written, or altered, is an error.
func TestALogThatLostBytesIsNotReplayedInPart(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"gone":     os.Remove,
		"cut off":  func(path string) error { return os.Truncate(path, 20) },
		"emptied":  func(path string) error { return os.Truncate(path, 0) },
		"at a row": func(path string) error { return os.Truncate(path, recordHeader+6) },
		"altered":  func(path string) error { return os.WriteFile(path, make([]byte, 100), 0o600) },
	} {
		s := newSpool(t, 1)
		l := s.begin(7)
		for range 3 {
			if err := s.add(l, 7, 'I', []byte("hello")); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.flush(l); err != nil {
			t.Fatal(err)
		}
		if err := harm(filepath.Join(s.dir, "transaction-7.log")); err != nil {
			t.Fatal(err)
		}
		var fault *SpillError
		err := l.each(func(int) error { return nil }, func(byte, []byte) error { return nil })
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), "transaction 7") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
