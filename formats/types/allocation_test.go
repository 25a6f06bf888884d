package types

import (
	"encoding/hex"
	"testing"
)

type allocationCase struct {
	name   string
	codec  *Codec
	lake   Type
	binary bool
	src    []byte
}

// allocationCases has an ordinary value of each kind in both formats.
func allocationCases() []allocationCase {
	var cases []allocationCase
	for _, c := range []struct {
		pg         Postgres
		text, wire string
	}{
		{base(OIDBool, "bool"), "t", "01"},
		{base(OIDInt4, "int4"), "-123456", "fffe1dc0"},
		{base(OIDInt8, "int8"), "1234567890123", "0000011f71fb04cb"},
		{base(OIDFloat8, "float8"), "-1234.5678e-12", "be153528a7ae4cc5"},
		{numericType(12, 2), "12345678.90", hex.EncodeToString(wireNumeric("12345678.90"))},
		{base(OIDNumeric, "numeric"), "-12345678901234567.123456789012345678", hex.EncodeToString(wireNumeric("-12345678901234567.123456789012345678"))},
		{base(OIDText, "text"), "some text that is longer than thirty-two bytes", hex.EncodeToString([]byte("some text that is longer than thirty-two bytes"))},
		{base(OIDJSONB, "jsonb"), `{"a": 1}`, "01" + hex.EncodeToString([]byte(`{"a": 1}`))},
		{base(OIDUUID, "uuid"), "123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"},
		{base(OIDBytea, "bytea"), `\x00ff5c`, "00ff5c"},
		{base(OIDDate, "date"), "2024-02-29", "00002278"},
		{base(OIDTime, "time"), "12:34:56.789", "0000000a8c1ac8c8"},
		{base(OIDTimestamp, "timestamp"), "2024-02-29 12:34:56.789", "0002b5e2d4ad2388"},
		{base(OIDTimestampTZ, "timestamptz"), "2024-02-29 12:34:56.789+00", "0002b5e2d4ad2388"},
		{base(OIDInterval, "interval"), "P1DT2H", "00000001ad27480000000001" + "00000000"},
		{base(OIDInet, "inet"), "10.1.2.3", "022000040a010203"},
	} {
		lake := Lake(c.pg, Options{}, false)
		d, err := NewCodec(c.pg, lake, Options{}, false)
		if err != nil {
			panic(err)
		}
		wire, err := hex.DecodeString(c.wire)
		if err != nil {
			panic(err)
		}
		cases = append(cases, allocationCase{c.pg.Name + " text", d, lake, false, []byte(c.text)},
			allocationCase{c.pg.Name + " binary", d, lake, true, wire})
	}
	return cases
}

func TestScalarsDecodeWithoutAllocating(t *testing.T) {
	for _, c := range allocationCases() {
		b := builder(c.lake)
		for range 4096 { // room for what follows
			if err := c.codec.Append(b, c.binary, c.src); err != nil {
				t.Fatal(err)
			}
		}
		b.NewArray().Release()
		b.Reserve(4096)
		if n := testing.AllocsPerRun(1000, func() { _ = c.codec.Append(b, c.binary, c.src) }); n >= 1 {
			t.Errorf("%s: %v allocations to append a value", c.name, n)
		}
		key := make([]byte, 0, 256)
		if n := testing.AllocsPerRun(1000, func() { key, _ = c.codec.AppendKey(key[:0], c.binary, c.src) }); n >= 1 {
			t.Errorf("%s: %v allocations to encode a key", c.name, n)
		}
		a := b.NewArray()
		if n := testing.AllocsPerRun(1000, func() { key, _ = AppendKeyValue(key[:0], c.lake, a, 0) }); n >= 1 {
			t.Errorf("%s: %v allocations to encode a key from Arrow", c.name, n)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, c := range allocationCases() {
		b.Run(c.name, func(b *testing.B) {
			to := builder(c.lake)
			b.ReportAllocs()
			for i := range b.N {
				if i%16384 == 0 {
					to.NewArray().Release()
				}
				if err := c.codec.Append(to, c.binary, c.src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
