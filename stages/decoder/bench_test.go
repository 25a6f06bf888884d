package decoder

import (
	"fmt"
	"testing"
	"time"

	"github.com/streambed/streambed/stages/message"
)

// BenchmarkRows decodes slabs of a thousand ten-column rows into chunks.
func BenchmarkRows(b *testing.B) {
	const rows = 1000
	template := []message.RawMessage{
		rawMessage("begin 0/100 xid=1 time=1"),
		rawMessage("relation 1 public.a d a:20* b:20 c:23 d:25 e:25 f:25 g:701 h:16 i:1184 j:1700"),
	}
	for i := range rows {
		template = append(template, rawMessage(fmt.Sprintf("insert 1 new=%d,%d,42,%032d,some_words_of_text,null,3.25,t,2024-01-01T00:00:00,12345.67", i, i*i, i)))
	}
	template = append(template, rawMessage("commit 0/100 0/110 time=1"))
	bytes := int64(0)
	for _, m := range template {
		bytes += int64(len(m.Data))
	}
	c := make(chan message.TableMessage, 64)
	go func() {
		for range c {
		}
	}()
	cuts := make(chan *message.Cut, 64)
	go func() {
		for range cuts {
		}
	}()
	d := New(Config{Router: fixedRouter{1: {OID: 1, C: c}}, Flush: Flush{Interval: time.Hour, Rows: 10000}})
	in := make(chan *message.Raw, 4)
	done := make(chan error, 1)
	go func() { done <- d.Run(b.Context(), in, cuts) }()
	b.SetBytes(bytes / rows)
	b.ReportAllocs()
	b.ResetTimer()
	for sent := 0; sent < b.N; sent += rows {
		raw := &message.Raw{Messages: template, Release: func() {}}
		in <- raw
	}
	close(in)
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
