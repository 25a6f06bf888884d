package types

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// decodeBoth decodes a value that must not panic, and gives it with its key; ok is false when it is malformed.
func decodeBoth(t *testing.T, c *Codec, bin bool, src []byte) (a arrow.Array, key []byte, ok bool) {
	t.Helper()
	lake := c.Type()
	b := builder(lake)
	err := c.Append(b, bin, src)
	key, keyErr := c.AppendKey(nil, bin, src)
	if (err == nil) != (keyErr == nil) {
		t.Fatalf("%q: Append gives %v and AppendKey %v", src, err, keyErr)
	}
	if err != nil {
		unchanged(t, b)
		return nil, nil, false
	}
	a = b.NewArray()
	if a.Len() != 1 {
		t.Fatalf("%q became %d values", src, a.Len())
	}
	stored, err := AppendKeyValue(nil, lake, a, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(key, stored) {
		t.Fatalf("%q has the key %x, and %x once it is stored", src, key, stored)
	}
	return a, key, true
}

func FuzzNumericTextAndBinaryAgree(f *testing.F) {
	for _, s := range []string{"0", "-1.5", "NaN", "Infinity", "0.0000000000000000005", "99999999999999999999.999999999999999999", "123456789012345678901234567890", "00.10"} {
		f.Add(s, uint8(38), uint8(18))
	}
	f.Add("0.005", uint8(4), uint8(2))
	f.Fuzz(func(t *testing.T, text string, precision, scale uint8) {
		p := int(precision)%maxPrecision + 1
		lake := Type{Kind: Decimal, Precision: p, Scale: int(scale) % (p + 1)}
		c := codec(t, base(OIDNumeric, "numeric"), lake, Options{}, false)
		a, key, ok := decodeBoth(t, c, false, []byte(text))
		if !ok || len(text) > 2000 {
			return
		}
		bent := c.Bent()
		other, otherKey, ok := decodeBoth(t, c, true, wireNumeric(text))
		if !ok || !array.Equal(a, other) || !bytes.Equal(key, otherKey) || c.Bent() != 2*bent {
			t.Fatalf("%q is %s as text and %s in binary (%s), %d and %d bent", text, a, other, lake, bent, c.Bent()-bent)
		}
	})
}

func FuzzNumericBinaryRendersWhatItHolds(f *testing.F) {
	for _, s := range []string{"0", "-1.5", "NaN", "Infinity", "0.0001", "10000.00001", "123456789.5"} {
		f.Add(wireNumeric(s))
	}
	f.Add([]byte("\x00\x01\x00\x00\x00\x00\x00\x03\x00\x05"))
	f.Fuzz(func(t *testing.T, src []byte) {
		text, err := renderNumeric(nil, src)
		if err != nil || len(text) > 2000 {
			return
		}
		// What is rendered decodes to the same decimal, as long as no digit lies behind the shown scale (Postgres sends
		// none).
		h, err := parseNumeric(src)
		if err != nil || (h.count()-1-h.weight)*4-3 > h.scale {
			return
		}
		if whole := max((h.count()-1-h.weight)*4, 0) - h.scale; whole > 0 && h.count() > 0 {
			if h.digit(h.count()-1)%powers[whole] != 0 {
				return
			}
		}
		c := codec(t, base(OIDNumeric, "numeric"), DefaultNumeric, Options{}, false)
		a, _, ok := decodeBoth(t, c, true, src)
		other, _, okText := decodeBoth(t, c, false, text)
		if !ok || !okText || !array.Equal(a, other) {
			t.Fatalf("%x decodes to %v, and its text %q to %v", src, a, text, other)
		}
	})
}

func FuzzTimestampTextAndBinaryAgree(f *testing.F) {
	for _, n := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 252455615999999999, -63082281600000000, 86400000000 - 1} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		c := codec(t, base(OIDTimestamp, "timestamp"), Type{Kind: Timestamp}, Options{}, false)
		a, _, ok := decodeBoth(t, c, true, binary.BigEndian.AppendUint64(nil, uint64(n)))
		if !ok {
			t.Fatalf("the binary timestamp %d is refused", n)
		}
		got := int64(a.(*array.Timestamp).Value(0))
		if c.Bent() > 0 {
			if got != firstMicrosecond && got != lastMicrosecond {
				t.Fatalf("%d is bent to %d", n, got)
			}
			return
		}
		if got != n+epochDays*day {
			t.Fatalf("%d became %d", n, got)
		}
		text := arrow.Timestamp(got).ToTime(arrow.Microsecond).UTC().Format("2006-01-02 15:04:05.999999")
		other, _, ok := decodeBoth(t, c, false, []byte(text))
		if !ok || !array.Equal(a, other) {
			t.Fatalf("%d is %s, and its text %q is %v", n, a, text, other)
		}
	})
}

func FuzzTimestampText(f *testing.F) {
	for _, s := range []string{"2024-02-29 12:34:56.789+05:30", "infinity", "0044-03-15 00:00:00 BC", "294276-12-31 23:59:59.999999+00", "2024-01-01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, pg := range []Postgres{base(OIDDate, "date"), base(OIDTime, "time"), base(OIDTimestamp, "timestamp"), base(OIDTimestampTZ, "timestamptz")} {
			decodeBoth(t, codec(t, pg, Lake(pg, Options{}, false), Options{}, false), false, []byte(text))
		}
	})
}

// nestedTypes are the types whose parsers see nested bytes.
func nestedTypes() []Postgres {
	pair := Postgres{OID: 70000, Name: "pair", Class: 'c', Typmod: -1, Attributes: []Attribute{
		{Name: "a", Type: base(OIDInt4, "int4")}, {Name: "b", Type: base(OIDText, "text")}}}
	return []Postgres{
		arrayOf(base(OIDInt4, "int4")), arrayOf(base(OIDText, "text")), arrayOf(base(OIDNumeric, "numeric")), arrayOf(base(OIDBytea, "bytea")),
		pair, arrayOf(pair), base(70001, "hstore"), arrayOf(base(70001, "hstore")), vectorType(), arrayOf(base(OIDInterval, "interval")),
	}
}

func FuzzNestedText(f *testing.F) {
	for _, s := range []string{`{1,NULL,"a\"b"}`, `{{1},{2}}`, `[0:1]={1,2}`, `(1,"a ""b""")`, `{"(1,x)",NULL}`, `"a"=>"1", "b"=>NULL`, `[1,2.5]`, `{"\"a\"=>\"1\""}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, pg := range nestedTypes() {
			decodeBoth(t, codec(t, pg, Lake(pg, Options{}, false), Options{}, false), false, []byte(text))
		}
	})
}

func FuzzNestedBinary(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x17\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\x00\x05"))
	f.Add([]byte("\x00\x00\x00\x02\x00\x00\x00\x17\x00\x00\x00\x04\x00\x00\x00\x05\x00\x00\x00\x19\xff\xff\xff\xff"))
	f.Add([]byte("\x00\x00\x00\x01\x00\x00\x00\x01a\x00\x00\x00\x01b"))
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, pg := range nestedTypes() {
			decodeBoth(t, codec(t, pg, Lake(pg, Options{}, false), Options{}, false), true, src)
		}
	})
}

// FuzzArrayTextAndBinaryAgree writes elements as Postgres does, in both formats, and expects them back.
func FuzzArrayTextAndBinaryAgree(f *testing.F) {
	f.Add("a", "b\"c\\", "", uint8(2))
	f.Add("NULL", "{},", " ", uint8(0))
	f.Fuzz(func(t *testing.T, one, two, three string, null uint8) {
		text := []byte("{")
		wire := []byte("\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x19\x00\x00\x00\x03\x00\x00\x00\x01")
		for i, s := range []string{one, two, three} {
			if i > 0 {
				text = append(text, ',')
			}
			if i == int(null) {
				text = append(text, "NULL"...)
				wire = append(wire, "\xff\xff\xff\xff"...)
				continue
			}
			text = append(text, '"')
			for j := range len(s) {
				if s[j] == '"' || s[j] == '\\' {
					text = append(text, '\\')
				}
				text = append(text, s[j])
			}
			text = append(text, '"')
			wire = append(binary.BigEndian.AppendUint32(wire, uint32(len(s))), s...)
		}
		text = append(text, '}')
		pg := arrayOf(base(OIDText, "text"))
		c := codec(t, pg, Lake(pg, Options{}, false), Options{}, false)
		a, key, ok := decodeBoth(t, c, false, text)
		b, other, okToo := decodeBoth(t, c, true, wire)
		if !ok || !okToo || !array.Equal(a, b) || !bytes.Equal(key, other) {
			t.Fatalf("%q is %v as text and %v in binary", text, a, b)
		}
	})
}
