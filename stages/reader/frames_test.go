package reader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

func frame(kind byte, body []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body)))
	return append(b, body...)
}

func data(payload string) []byte {
	b := []byte{'w', 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1}
	return frame('d', append(b, payload...))
}

func keepalive(ask byte) []byte {
	return frame('d', []byte{'k', 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 2, ask})
}

// TestFramesAreFoundWhereverAReadEnds splits a stream at every place.
func TestFramesAreFoundWhereverAReadEnds(t *testing.T) {
	stream := bytes.Join([][]byte{data("one"), frame('N', []byte("notice")), keepalive(1), data(""), keepalive(0), data("two")}, nil)
	for cut := range len(stream) + 1 {
		s := newSlab(len(stream))
		copy(s.buf, stream[:cut])
		taken, asked, err := s.parse(cut)
		if err != nil {
			t.Fatal(err)
		}
		before := len(s.raw.Messages)
		rest := newSlab(len(stream))
		n := copy(rest.buf, stream[taken:])
		more, again, err := rest.parse(n)
		if err != nil || more != n {
			t.Fatalf("cut at %d: %d of %d bytes taken, %v", cut, more, n, err)
		}
		all := append(s.raw.Messages, rest.raw.Messages...)
		if len(all) != 5 || !(asked || again) {
			t.Fatalf("cut at %d: %d messages (%d before), asked %v %v", cut, len(all), before, asked, again)
		}
		if string(all[0].Data) != "one" || all[0].Start != 7 || all[0].End != 9 || !all[0].ServerTime.Equal(time.Date(2000, 1, 1, 0, 0, 0, 1000, time.UTC)) {
			t.Fatalf("cut at %d: the first message is %+v", cut, all[0])
		}
		if !all[1].Keepalive || !all[1].ReplyRequested || all[1].End != 11 || all[1].Data != nil || all[3].ReplyRequested || string(all[4].Data) != "two" {
			t.Fatalf("cut at %d: %+v", cut, all)
		}
	}
}

func TestWhatIsNotTheProtocolIsSaid(t *testing.T) {
	for name, stream := range map[string][]byte{
		"length below its own size": {'d', 0, 0, 0, 3},
		"length beyond reason":      {'d', 0xff, 0, 0, 0},
		"unknown frame":             frame('?', nil),
		"empty message":             frame('d', nil),
		"unknown message":           frame('d', []byte("x")),
		"short data":                frame('d', make([]byte, 3)),
		"short keepalive":           frame('d', []byte("k123")),
	} {
		s := newSlab(len(stream))
		copy(s.buf, stream)
		if _, _, err := s.parse(len(stream)); !errors.Is(err, ErrProtocol) || Retryable(err) {
			t.Errorf("%s gave %v", name, err)
		}
	}
	s := newSlab(100)
	n := copy(s.buf, frame('E', []byte("SFATAL\x00C57P01\x00Mgoing away\x00\x00")))
	var fault *pgconn.PgError
	if _, _, err := s.parse(n); !errors.As(err, &fault) || fault.Code != "57P01" {
		t.Errorf("an error response gave %v", err)
	}
}

func TestStatusSetsAllThreePositions(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC)
	got := status(nil, 0x200, 0x100, now, true)
	want := frame('d', append(append([]byte{'r'}, bytes.Join([][]byte{be(0x200), be(0x100), be(0x100), be(1_000_000)}, nil)...), 1))
	if !bytes.Equal(got, want) {
		t.Fatalf("%x\nwanted\n%x", got, want)
	}
}

func be(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func TestReleasingTwiceIsNoticed(t *testing.T) {
	s := newSlab(10)
	s.sent = true
	s.raw.Release()
	defer func() {
		if recover() == nil {
			t.Error("a second release went unnoticed")
		}
	}()
	s.raw.Release()
}

func FuzzParse(f *testing.F) {
	f.Add(data("row"), 3)
	f.Add(bytes.Join([][]byte{keepalive(1), data("x"), frame('E', []byte("C55000\x00"))}, nil), 30)
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		s := newSlab(max(len(stream), 1))
		copy(s.buf, stream)
		taken, _, err := s.parse(len(stream))
		if taken > len(stream) {
			t.Fatalf("%d bytes taken of %d", taken, len(stream))
		}
		total := int64(0)
		for _, m := range s.raw.Messages {
			total += int64(len(m.Data))
		}
		if total != s.bytes {
			t.Fatalf("%d bytes counted of %d", s.bytes, total)
		}
		// The same stream in two reads gives the same messages.
		if cut < 0 || cut > len(stream) || err != nil {
			return
		}
		first, second := newSlab(max(len(stream), 1)), newSlab(max(len(stream), 1))
		copy(first.buf, stream)
		n, _, err := first.parse(cut)
		if err != nil {
			t.Fatalf("a prefix gave %v", err)
		}
		m := copy(second.buf, stream[n:])
		more, _, err := second.parse(m)
		if err != nil || n+more != taken || len(first.raw.Messages)+len(second.raw.Messages) != len(s.raw.Messages) {
			t.Fatalf("cut at %d: %d and %d bytes, wanted %d: %v", cut, n, more, taken, err)
		}
	})
}

func TestOlderServersAreNotAskedForTransactionsInProgress(t *testing.T) {
	for version, want := range map[string]bool{"13.14": false, "14.0": true, "15.10 (Debian 15.10-0+deb12u1)": true, "18beta1": true, "9.6": false, "": false} {
		if got := canStream(version); got != want {
			t.Errorf("version %q: %v", version, got)
		}
	}
}
