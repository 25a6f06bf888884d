package decoder

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/streambed/streambed/stages/message"
)

var examples = []string{
	"begin 0/200 xid=7 time=10", "commit 0/200 0/230 time=10", "origin 0/200 somewhere", "type 5 public mood",
	"relation 1 public.a d id:23* v:25", "relation 2 .in_catalog f", "insert 1 new=1,null,~,x:00ff",
	"update 1 new=1", "update 1 K=1,null new=2,~", "update 1 O=1,a new=1,b", "delete 1 K=1", "delete 1 O=1,a",
	"truncate 3 1 2 3", "truncate 0", "stream 7 first", "streamcommit 7 0/200 0/230 time=10", "streamabort 7 8",
	"hex 4D 01 0000000000000001 7000 00000002 6869",
}

// parse calls the parse function of a message's type; ok is false for a type that has none.
func parse(data []byte) (ok bool, err error) {
	body := data[1:]
	switch data[0] {
	case 'B':
		_, err = ParseBegin(body)
	case 'C':
		_, err = ParseCommit(body)
	case 'O':
		_, err = ParseOrigin(body)
	case 'Y':
		_, err = ParseType(body)
	case 'R':
		_, err = ParseRelation(body)
	case 'I', 'U', 'D':
		_, err = ParseRow(data[0], body)
	case 'T':
		_, err = ParseTruncate(body)
	case 'M':
		_, err = ParseLogical(body)
	case 'S':
		_, err = ParseStreamStart(body)
	case 'c':
		_, err = ParseStreamCommit(body)
	case 'A':
		_, err = ParseStreamAbort(body)
	default:
		return false, nil
	}
	return true, err
}

func TestAMessageCutOffAnywhereIsATypedError(t *testing.T) {
	stream := map[string][]byte{}
	for _, line := range examples {
		stream[line] = xlog(line)
	}
	for name, data := range stream {
		if ok, err := parse(data); !ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
		for n := 1; n < len(data); n++ {
			var fault *Error
			if _, err := parse(data[:n]); !errors.As(err, &fault) || fault.Kind != data[0] {
				t.Errorf("%s: the first %d of %d bytes gave %v", name, n, len(data), err)
			}
		}
		var fault *Error
		if _, err := parse(append(data, 0)); !errors.As(err, &fault) {
			t.Errorf("%s with a byte behind it gave %v", name, err)
		}
	}
}

func TestStreamMessagesAreRead(t *testing.T) {
	start, err := ParseStreamStart([]byte{0, 0, 1, 0, 1})
	if err != nil || start != (StreamStart{256, true}) {
		t.Errorf("%+v, %v", start, err)
	}
	abort, err := ParseStreamAbort([]byte{0, 0, 1, 0, 0, 0, 1, 1})
	if err != nil || abort != (StreamAbort{256, 257}) {
		t.Errorf("%+v, %v", abort, err)
	}
	commit, err := ParseStreamCommit([]byte{0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0x0f, 0x42, 0x40})
	if want := (StreamCommit{256, Commit{2, 3, time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC)}}); err != nil || commit != want {
		t.Errorf("%+v, %v", commit, err)
	}
}

func TestRowsParseWithoutAllocating(t *testing.T) {
	data := xlog("update 1 K=1,null new=2,~")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := ParseRow('U', data[1:]); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a row", n)
	}
}

// FuzzParse reads any bytes as a message: no panic, and errors of the one type.
func FuzzParse(f *testing.F) {
	for _, line := range examples {
		f.Add(xlog(line))
	}
	f.Add([]byte{'T', 0xff, 0xff, 0xff, 0xff, 0})
	f.Add([]byte{'R', 0, 0, 0, 1, 'a', 0, 'b', 0, 'd', 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		var fault *Error
		if _, err := parse(data); err != nil && !errors.As(err, &fault) {
			t.Fatalf("%x gave the error %v", data, err)
		}
	})
}

// FuzzDecoder feeds any messages to a decoder: it ends with an error of the one type or none, and keeps no budget.
func FuzzDecoder(f *testing.F) {
	for _, lines := range [][]string{
		{"begin 0/200 xid=7 time=10", "relation 1 public.a d id:23*", "insert 1 new=1", "truncate 0 1", "delete 1 K=1", "commit 0/200 0/230 time=10"},
		{"stream 7 first", "relation 1 public.a d id:23* sub=7", "insert 1 new=1 sub=8", "stop", "streamabort 7 8", "stream 7", "update 1 new=1 sub=7",
			"truncate 0 1 sub=9", "stop", "stream 6 first", "stop", "streamabort 6 6", "streamcommit 7 0/200 0/230 time=10"},
	} {
		whole := []byte{}
		for _, line := range lines {
			data := rawMessage(line).Data
			whole = append(append(whole, byte(len(data))), data...)
		}
		f.Add(whole, int64(100))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, script []byte, cost int64) {
		raw := &message.Raw{Cost: max(0, cost%(1<<40)), Release: func() {}}
		for len(script) > 0 {
			n := min(int(script[0]), len(script)-1)
			raw.Messages = append(raw.Messages, message.RawMessage{Data: script[1 : 1+n]})
			script = script[1+n:]
		}
		budget := message.NewBudget(1, nil)
		if err := budget.Acquire(t.Context(), raw.Cost); err != nil {
			t.Fatal(err)
		}
		c, drained := make(chan message.TableMessage, 10000), make(chan struct{})
		route := &message.Route{OID: 1, C: c}
		in, cuts := make(chan *message.Raw, 1), make(chan *message.Cut, 1000)
		in <- raw
		close(in)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		go func() { // a replay waits for what it has sent
			for {
				select {
				case m := <-c:
					if rows, ok := m.(*message.Rows); ok {
						budget.Release(rows.Cost)
					}
				case <-ctx.Done():
					close(drained)
					return
				}
			}
		}()
		err := New(Config{Router: fixedRouter{1: route}, Budget: budget, ChunkBytes: 64, Flush: Flush{Rows: 3}, SpillDir: dir, SpillMemory: 1}).Run(ctx, in, cuts)
		var fault *Error
		if err != nil && !errors.As(err, &fault) {
			t.Fatalf("the decoder ended with %v", err)
		}
		cancel()
		<-drained
		for len(c) > 0 {
			if rows, ok := (<-c).(*message.Rows); ok {
				budget.Release(rows.Cost)
			}
		}
		if used := budget.Used(); used != 0 {
			t.Fatalf("%d bytes of the budget are still held", used)
		}
	})
}
