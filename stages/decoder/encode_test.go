package decoder

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/message"
)

// This file writes pgoutput messages from lines of text. It shares nothing with the parser.

func seconds(n int64) time.Time { return time.Date(2001, 1, 1, 0, 0, int(n), 0, time.UTC) }

func asSeconds(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return strconv.FormatFloat(t.Sub(seconds(0)).Seconds(), 'f', -1, 64)
}

type fields struct {
	words []string
	named map[string]string
}

func split(line string) fields {
	f := fields{named: map[string]string{}}
	for _, word := range strings.Fields(line) {
		if name, value, ok := strings.Cut(word, "="); ok {
			f.named[name] = value
		} else {
			f.words = append(f.words, word)
		}
	}
	return f
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (f fields) position(i int) uint64 { return uint64(must(lsn.Parse(f.words[i]))) }
func (f fields) number(i int) uint64   { return must(strconv.ParseUint(f.words[i], 10, 32)) }
func (f fields) time(name string) time.Time {
	return seconds(must(strconv.ParseInt(f.named[name], 10, 64)))
}

func micros(t time.Time) uint64 {
	return uint64(t.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).Microseconds())
}

func be16(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint16(b, uint16(n)) }
func be32(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }
func be64(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }
func zero(b []byte, s string) []byte { return append(append(b, s...), 0) }

// tuple writes values separated by commas: null, ~ for unchanged, x:.. for binary in hexadecimal, else text.
func tuple(b []byte, text string) []byte {
	values := strings.Split(text, ",")
	b = be16(b, uint64(len(values)))
	for _, v := range values {
		switch {
		case v == "null":
			b = append(b, 'n')
		case v == "~":
			b = append(b, 'u')
		case strings.HasPrefix(v, "x:"):
			raw := must(hex.DecodeString(v[2:]))
			b = append(be32(append(b, 'b'), uint64(len(raw))), raw...)
		default:
			b = append(be32(append(b, 't'), uint64(len(v))), v...)
		}
	}
	return b
}

// xlog writes the pgoutput message that a line stands for; nil when it is no such line.
func xlog(line string) []byte {
	f := split(line)
	switch f.words[0] {
	case "hex":
		return must(hex.DecodeString(strings.Join(f.words[1:], "")))
	case "begin": // begin COMMIT xid= time=
		b := be64(be64([]byte{'B'}, f.position(1)), micros(f.time("time")))
		return be32(b, must(strconv.ParseUint(f.named["xid"], 10, 32)))
	case "commit": // commit COMMIT END time=
		b := be64(be64([]byte{'C', 0}, f.position(1)), f.position(2))
		return be64(b, micros(f.time("time")))
	case "relation": // relation OID schema.table identity column:type[*]...
		schema, table, _ := strings.Cut(f.words[2], ".")
		b := zero(zero(be32([]byte{'R'}, f.number(1)), schema), table)
		b = be16(append(b, f.words[3]...), uint64(len(f.words)-4))
		for _, column := range f.words[4:] {
			name, oid, _ := strings.Cut(column, ":")
			key := byte(0)
			if strings.HasSuffix(oid, "*") {
				oid, key = oid[:len(oid)-1], 1
			}
			b = be32(zero(append(b, key), name), must(strconv.ParseUint(oid, 10, 32)))
			b = be32(b, 1<<32-1)
		}
		return b
	case "stream": // stream XID [first]
		return append(be32([]byte{'S'}, f.number(1)), byte(len(f.words)-2))
	case "stop":
		return []byte{'E'}
	case "streamabort": // streamabort XID SUBXID
		return be32(be32([]byte{'A'}, f.number(1)), f.number(2))
	case "streamcommit": // streamcommit XID COMMIT END time=
		b := append(be32([]byte{'c'}, f.number(1)), 0)
		return be64(be64(be64(b, f.position(2)), f.position(3)), micros(f.time("time")))
	case "type":
		return zero(zero(be32([]byte{'Y'}, f.number(1)), f.words[2]), f.words[3])
	case "origin":
		return zero(be64([]byte{'O'}, f.position(1)), f.words[2])
	case "insert": // insert OID new=
		return tuple(append(be32([]byte{'I'}, f.number(1)), 'N'), f.named["new"])
	case "update", "delete": // update OID [K=|O=] new= ; delete OID K=|O=
		b := be32([]byte{f.words[0][0] - 'a' + 'A'}, f.number(1))
		for _, kind := range []string{"K", "O"} {
			if old, ok := f.named[kind]; ok {
				b = tuple(append(b, kind...), old)
			}
		}
		if f.words[0] == "update" {
			b = tuple(append(b, 'N'), f.named["new"])
		}
		return b
	case "truncate": // truncate OPTIONS OID...
		b := append(be32([]byte{'T'}, uint64(len(f.words)-2)), byte(f.number(1)))
		for i := range f.words[2:] {
			b = be32(b, f.number(i+2))
		}
		return b
	}
	return nil
}

// rawMessage writes a replication message: a keepalive or a pgoutput message.
func rawMessage(line string) message.RawMessage {
	f := split(line)
	if f.words[0] == "keepalive" { // keepalive END time= [ask]
		return message.RawMessage{
			Keepalive: true, End: lsn.LSN(f.position(1)), ServerTime: f.time("time"), ReplyRequested: len(f.words) > 2,
		}
	}
	data := xlog(line)
	if data == nil {
		panic(fmt.Sprintf("unknown line %q", line))
	}
	if sub, ok := f.named["sub"]; ok { // inside a block: the xid behind the type
		data = append(be32(data[:1:1], must(strconv.ParseUint(sub, 10, 32))), data[1:]...)
	}
	return message.RawMessage{Data: data}
}
