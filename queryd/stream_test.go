package queryd

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/streambed/streambed/test/postgres"
)

// residentMemory gives the process' resident memory in bytes.
func residentMemory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("no /proc here")
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	ok(t, err)
	return kib << 10
}

// TestResultsStreamInBoundedMemory reads a result that is far larger than the memory it may use (promise 6).
func TestResultsStreamInBoundedMemory(t *testing.T) {
	l := newLake(t, func(o *Options) { o.Memory = 128 << 20 })
	conn := l.connect()
	before := residentMemory(t)
	const rows = 3_000_000
	reader := conn.PgConn().Exec(t.Context(), fmt.Sprintf("SELECT i, 'a text that makes the row some two hundred bytes long, so that all of them are far more than the memory ' || i, i * 2, md5(i::text) FROM range(%d) r(i)", rows))
	n, most := 0, int64(0)
	for reader.NextResult() {
		r := reader.ResultReader()
		for r.NextRow() {
			if n++; n%100_000 == 0 {
				most = max(most, residentMemory(t))
			}
		}
	}
	ok(t, reader.Close())
	if n != rows {
		t.Fatalf("%d rows", n)
	}
	if grown := most - before; grown > 150<<20 {
		t.Fatalf("memory grew by %d MiB for a result of some 500 MiB", grown>>20)
	}
}

// TestSlowClientSlowsOnlyItself leaves a result unread while others work, and then reads it whole.
func TestSlowClientSlowsOnlyItself(t *testing.T) {
	l := newLake(t)
	f := frontend(t, l)
	f.Send(&pgproto3.Query{String: "SELECT i, repeat('x', 100) FROM range(2000000) r(i)"})
	ok(t, f.Flush())
	for range 3 {
		conn := l.connect()
		var n int64
		ok(t, conn.QueryRow(t.Context(), "SELECT sum(i)::bigint FROM range(1000000) r(i)").Scan(&n))
		if n != 499999500000 {
			t.Fatal(n)
		}
	}
	n := 0
	for {
		m, err := f.Receive()
		ok(t, err)
		switch m := m.(type) {
		case *pgproto3.DataRow:
			if string(m.Values[0]) != strconv.Itoa(n) {
				t.Fatalf("row %d is %s", n, m.Values[0])
			}
			n++
		case *pgproto3.ErrorResponse:
			t.Fatal(m.Message)
		case *pgproto3.ReadyForQuery:
			if n != 2000000 {
				t.Fatalf("%d rows", n)
			}
			return
		}
	}
}

func TestCloseTellsClientsAndWaitsForThem(t *testing.T) {
	l := newLake(t)
	f := frontend(t, l)
	f.Send(&pgproto3.Query{String: "SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)"})
	ok(t, f.Flush())
	idle := frontend(t, l)
	postgres.Eventually(t, "the statement to run", func() bool {
		l.server.mu.Lock()
		defer l.server.mu.Unlock()
		for _, n := range l.server.active {
			n.mu.Lock()
			busy := n.cancel != nil
			n.mu.Unlock()
			if busy {
				return true
			}
		}
		return false
	})
	done := make(chan struct{})
	go func() { defer close(done); l.server.endSessions() }()
	for _, c := range []*pgproto3.Frontend{f, idle} {
		m, err := c.Receive()
		ok(t, err)
		if _, begun := m.(*pgproto3.RowDescription); begun {
			m, err = c.Receive()
			ok(t, err)
		}
		if got := short(m); got != "E 57P01" {
			t.Errorf("the client is told %s", got)
		}
	}
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("sessions did not end")
	}
}

// frontEndSeeds are runs of messages that a fuzzer changes.
func frontEndSeeds() [][]byte {
	encode := func(messages ...pgproto3.FrontendMessage) []byte {
		var b []byte
		for _, m := range messages {
			b, _ = m.Encode(b)
		}
		return b
	}
	return [][]byte{
		encode(&pgproto3.Query{String: "SELECT 1; SELECT $1"}),
		encode(&pgproto3.Parse{Name: "a", Query: "SELECT $1::int", ParameterOIDs: []uint32{23}}, &pgproto3.Bind{PreparedStatement: "a", Parameters: [][]byte{{0, 0, 0, 1}}, ParameterFormatCodes: []int16{1}, ResultFormatCodes: []int16{1}}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{MaxRows: 1}, &pgproto3.Sync{}),
		encode(&pgproto3.Parse{Query: "SELECT $1, $2", ParameterOIDs: []uint32{1700, 1007}}, &pgproto3.Describe{ObjectType: 'S'}, &pgproto3.Flush{}, &pgproto3.Bind{Parameters: [][]byte{{0, 1, 0, 0, 0, 0, 0, 0, 0, 5}, {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1}}, ParameterFormatCodes: []int16{1}}, &pgproto3.Execute{}, &pgproto3.Close{ObjectType: 'S'}, &pgproto3.Sync{}, &pgproto3.Terminate{}),
		encode(&pgproto3.CopyData{Data: []byte("x")}, &pgproto3.CopyDone{}, &pgproto3.CopyFail{}, &pgproto3.FunctionCall{}, &pgproto3.PasswordMessage{Password: "x"}),
		encode(&pgproto3.Query{String: "BEGIN; DECLARE c CURSOR FOR SELECT 1; FETCH 1 FROM c"}, &pgproto3.Execute{Portal: "c"}, &pgproto3.Sync{}),
		encode(&pgproto3.Query{String: "SET timezone = 'Asia/Kolkata'; SHOW ALL; PREPARE p AS SELECT 1; EXECUTE p; COPY (SELECT 1) TO STDOUT (FORMAT binary)"}),
		{'Q', 0xff, 0xff, 0xff, 0xff}, {'B', 0, 0, 0, 12, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0}, {0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f},
	}
}

// sendBytes sends any bytes after a startup. The server answers or hangs up, never fails, and the session ends with its
// client.
func sendBytes(t *testing.T, l *testLake, data []byte) {
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); l.server.serve(server) }()
	go func() { _, _ = io.Copy(io.Discard, client) }()
	_ = client.SetDeadline(time.Now().Add(20 * time.Second))
	start, _ := (&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "u", "statement_timeout": "1000"}}).Encode(nil)
	_, _ = client.Write(start)
	_, _ = client.Write(data)
	_ = client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("the session did not end with its client, after %q", data)
	}
	if l.server.faults.Load() > 0 {
		t.Fatalf("a session failed by a fault of the server, after %q", data)
	}
}

func FuzzFrontEnd(f *testing.F) {
	for _, seed := range frontEndSeeds() {
		f.Add(seed)
	}
	l := newLake(f)
	f.Fuzz(func(t *testing.T, data []byte) { sendBytes(t, l, data) })
}

// TestDamagedMessagesNeverFailTheServer is a short run of the fuzzer's kind with a fixed seed, so that every test run has
// one.
func TestDamagedMessagesNeverFailTheServer(t *testing.T) {
	l := newLake(t)
	r := rand.New(rand.NewPCG(7, 11))
	seeds := frontEndSeeds()
	for range 5000 {
		data := slices.Clone(seeds[r.IntN(len(seeds))])
		if r.IntN(2) == 0 {
			data = append(data, seeds[r.IntN(len(seeds))]...)
		}
		for range 1 + r.IntN(6) {
			at := r.IntN(len(data))
			switch r.IntN(5) {
			case 0:
				data[at] = byte(r.Uint32())
			case 1:
				data[at] ^= 1 << r.IntN(8)
			case 2:
				data = slices.Delete(data, at, min(len(data), at+1+r.IntN(4)))
			case 3:
				data = slices.Insert(data, at, make([]byte, 1+r.IntN(4))...)
			case 4:
				data = data[:at+1]
			}
			if len(data) == 0 {
				data = []byte{'S'}
			}
		}
		sendBytes(t, l, data)
	}
}
