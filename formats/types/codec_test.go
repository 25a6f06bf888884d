package types

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"
)

func codec(t testing.TB, pg Postgres, lake Type, o Options, key bool) *Codec {
	t.Helper()
	c, err := NewCodec(pg, lake, o, key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func builder(lake Type) array.Builder { return array.NewBuilder(memory.DefaultAllocator, lake.Arrow()) }

// wireNumeric makes numeric's binary form from its text form.
func wireNumeric(text string) []byte {
	out := func(digits []uint16, weight, sign, scale int) []byte {
		b := binary.BigEndian.AppendUint16(nil, uint16(len(digits)))
		b = binary.BigEndian.AppendUint16(b, uint16(weight))
		b = binary.BigEndian.AppendUint16(b, uint16(sign))
		b = binary.BigEndian.AppendUint16(b, uint16(scale))
		for _, d := range digits {
			b = binary.BigEndian.AppendUint16(b, d)
		}
		return b
	}
	switch text {
	case "NaN":
		return out(nil, 0, numericNaN, 0)
	case "Infinity":
		return out(nil, 0, numericPlusInf, 0)
	case "-Infinity":
		return out(nil, 0, numericMinusInf, 0)
	}
	text, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(text, ".")
	scale := len(fraction)
	whole = strings.Repeat("0", (4-len(whole)%4)%4) + whole
	fraction += strings.Repeat("0", (4-len(fraction)%4)%4)
	weight := len(whole)/4 - 1
	var digits []uint16
	for all := whole + fraction; all != ""; all = all[4:] {
		digits = append(digits, uint16(all[0]-'0')*1000+uint16(all[1]-'0')*100+uint16(all[2]-'0')*10+uint16(all[3]-'0'))
	}
	for len(digits) > 0 && digits[0] == 0 {
		digits = digits[1:]
		weight--
	}
	for len(digits) > 0 && digits[len(digits)-1] == 0 {
		digits = digits[:len(digits)-1]
	}
	sign := numericPositive
	if len(digits) == 0 {
		weight = 0
	} else if negative {
		sign = numericNegative
	}
	return out(digits, weight, sign, scale)
}

func TestNumericRoundsHalfEvenAndCounts(t *testing.T) {
	lake := Type{Kind: Decimal, Precision: 6, Scale: 2}
	for _, c := range []struct {
		text, want string // want is unscaled; "" for NULL
		bent       bool
	}{
		{"1.5", "150", false}, {"1.50000000", "150", false}, {"0", "0", false}, {"-0.01", "-1", false},
		{"0.005", "0", true}, {"0.015", "2", true}, {"0.025", "2", true}, {"0.0250000000000000000000000001", "3", true},
		{"0.0249999999999999999999999999", "2", true}, {"-0.015", "-2", true}, {"-0.025", "-2", true}, {"-0.001", "0", true},
		{"9999.99", "999999", false}, {"9999.994", "999999", true}, {"9999.995", "", true}, {"-9999.995", "", true},
		{"10000", "", true}, {"-10000", "", true}, {"0.00000000000000000000000000000000000000000000001", "0", true},
		{"123456789012345678901234567890123456789012345678901234567890", "", true},
		{"340282366920938463463374607431768211456", "", true}, {"340282366920938463463374607431768211457.5", "", true},
		{"NaN", "", true}, {"Infinity", "", true}, {"-Infinity", "", true},
	} {
		for _, bin := range []bool{false, true} {
			src := []byte(c.text)
			if bin {
				src = wireNumeric(c.text)
			}
			d := codec(t, base(OIDNumeric, "numeric"), lake, Options{}, false)
			b := builder(lake).(*array.Decimal128Builder)
			if err := d.Append(b, bin, src); err != nil {
				t.Fatalf("%s: %v", c.text, err)
			}
			a := b.NewDecimal128Array()
			got := ""
			if !a.IsNull(0) {
				got = a.Value(0).BigInt().String()
			}
			if got != c.want || d.Bent() == 1 != c.bent || (d.BentSample() != "") != c.bent {
				t.Errorf("%s (binary %v) is %q with %d bent (%s), not %q", c.text, bin, got, d.Bent(), d.BentSample(), c.want)
			}
		}
	}
}

// refused are values that the lake's type cannot hold.
var refused = []struct {
	pg    Postgres
	lake  Type
	text  string
	wire  string // hex; "numeric" for wireNumeric
	names string // what the error must say
}{
	{base(OIDNumeric, "numeric"), DefaultNumeric, "NaN", "numeric", "not a number"},
	{base(OIDNumeric, "numeric"), DefaultNumeric, "-Infinity", "numeric", "infinite"},
	{base(OIDNumeric, "numeric"), DefaultNumeric, "100000000000000000000", "numeric", "before the decimal point"},
	{base(OIDNumeric, "numeric"), DefaultNumeric, "0.0000000000000000001", "numeric", "after the decimal point"},
	{base(OIDDate, "date"), Type{Kind: Date}, "infinity", "7fffffff", "infinite"},
	{base(OIDDate, "date"), Type{Kind: Date}, "0044-03-15 BC", "fff49ab8", "before the year 0001"},
	{base(OIDTimestamp, "timestamp"), Type{Kind: Timestamp}, "10000-01-01 00:00:00", "0380e7f7e43e0000", "after the year 9999"},
	{base(OIDTime, "time"), Type{Kind: Time}, "24:00:00", "000000141dd76000", "24:00:00"},
	{arrayOf(base(OIDInt4, "int4")), Type{Kind: List, Fields: []Field{{Name: "element", Type: Type{Kind: Int}}}}, "{{1}}",
		"00000002000000000000001700000001000000010000000100000001" + "0000000400000001", "dimensions"},
	{arrayOf(base(OIDDate, "date")), Type{Kind: List, Fields: []Field{{Name: "element", Type: Type{Kind: Date}}}}, "{2000-01-01,infinity}",
		"00000001000000000000043a0000000200000001" + "0000000400000000" + "000000047fffffff", "infinite"},
	{base(OIDText, "text"), Type{Kind: String}, "a\xff", "61ff", "UTF-8"},
}

func TestRefusedAndKeyValuesAreErrorsThatSayWhy(t *testing.T) {
	for _, c := range refused {
		for _, bin := range []bool{false, true} {
			src := []byte(c.text)
			if bin && c.wire == "numeric" {
				src = wireNumeric(c.text)
			} else if bin {
				src, _ = hex.DecodeString(c.wire)
			}
			bend := codec(t, c.pg, c.lake, Options{}, false)
			if err := bend.Append(builder(c.lake), bin, src); err != nil || bend.Bent() != 1 {
				t.Errorf("%s (binary %v): %d bent, error %v", c.text, bin, bend.Bent(), err)
			}
			if _, err := bend.AppendKey(nil, bin, src); err != nil || bend.Bent() != 1 {
				t.Errorf("the key of %s (binary %v): %d bent, error %v", c.text, bin, bend.Bent(), err)
			}
			for _, strict := range []*Codec{codec(t, c.pg, c.lake, Options{Unrepresentable: Refuse}, false), codec(t, c.pg, c.lake, Options{}, true)} {
				b := builder(c.lake)
				err := strict.Append(b, bin, src)
				if !errors.Is(err, ErrUnrepresentable) || !strings.Contains(err.Error(), c.names) {
					t.Errorf("%s (binary %v): the error is %v", c.text, bin, err)
				}
				unchanged(t, b)
				dst, err := strict.AppendKey([]byte("x"), bin, src)
				if !errors.Is(err, ErrUnrepresentable) || string(dst) != "x" || strict.Bent() != 0 {
					t.Errorf("the key of %s (binary %v) is %x, error %v", c.text, bin, dst, err)
				}
			}
		}
	}
}

// unchanged fails the test when anything was appended to b or its children.
func unchanged(t testing.TB, b array.Builder) {
	t.Helper()
	if b.Len() != 0 {
		t.Errorf("%T has %d values after an error", b, b.Len())
	}
	switch b := b.(type) {
	case *array.ListBuilder:
		unchanged(t, b.ValueBuilder())
	case *array.MapBuilder:
		unchanged(t, b.KeyBuilder())
		unchanged(t, b.ItemBuilder())
	case *array.StructBuilder:
		for i := range b.NumField() {
			unchanged(t, b.FieldBuilder(i))
		}
	}
}

func TestMalformedValuesAreErrorsAndLeaveTheBuilder(t *testing.T) {
	ints := arrayOf(base(OIDInt4, "int4"))
	pair := Postgres{OID: 70000, Name: "pair", Class: 'c', Typmod: -1, Attributes: []Attribute{
		{Name: "a", Type: base(OIDInt4, "int4")}, {Name: "b", Type: base(OIDText, "text")}}}
	hstore := base(70001, "hstore")
	for _, c := range []struct {
		pg    Postgres
		texts []string
		wires []string
	}{
		{base(OIDBool, "bool"), []string{"", "x", "tf"}, []string{"", "02", "0000"}},
		{base(OIDInt4, "int4"), []string{"", "-", "2147483648", "-2147483649", "1x", "99999999999999999999"}, []string{"", "000000", "0000000000"}},
		{base(OIDInt8, "int8"), []string{"9223372036854775808", "-9223372036854775809", "1.0"}, []string{"00000000"}},
		{base(OIDFloat8, "float8"), []string{"", "abc", "1e999"}, []string{"00"}},
		{numericType(10, 2), []string{"", "-", ".", "1.2.3", "1e5", "0x1", "--1"}, []string{"", "0001000000000000", "00010000000000002710", "0000000012340000", "00000000000000"}},
		{base(OIDUUID, "uuid"), []string{"", "123e4567-e89b-12d3-a456-42661417400", "123e4567-e89b-12d3-a456-42661417400g", "123e4567e89b12d3a456426614174000----"}, []string{"00"}},
		{base(OIDBytea, "bytea"), []string{`\x0`, `\x0g`, `\9`, `\`, `\400`}, nil},
		{base(OIDDate, "date"), []string{"", "2024-13-01", "2023-02-29", "2024-01-01x", "24-01-01", "0000-01-01", "99999999-01-01", "2024-1-1"}, []string{"00"}},
		{base(OIDTime, "time"), []string{"", "25:00:00", "24:00:00.1", "12:60:00", "12:00", "12:00:00.", "12:00:00.1234567", "12:00:60"}, []string{"00", "ffffffffffffffff", "000000141dd76001"}},
		{base(OIDTimestamp, "timestamp"), []string{"2024-01-01", "2024-01-01T00:00:00", "2024-01-01 00:00:00 x"}, []string{"00"}},
		{base(OIDTimestampTZ, "timestamptz"), []string{"2024-01-01 00:00:00+", "2024-01-01 00:00:00+1", "2024-01-01 00:00:00+01:", "2024-01-01 00:00:00+01:00:00:00"}, nil},
		{base(OIDJSONB, "jsonb"), nil, []string{"", "027b7d"}},
		{base(OIDInterval, "interval"), nil, []string{"00"}},
		{base(OIDTimeTZ, "timetz"), nil, []string{"00", "ffffffffffffffff00000000"}},
		{base(OIDVarbit, "varbit"), nil, []string{"00", "ffffffff", "0000000900"}},
		{base(OIDInet, "inet"), nil, []string{"00", "02200004010203", "0221000401020304", "0420000401020304"}},
		{ints, []string{"", "{", "}", "{1,}", "{1", "{,1}", "{1}{", `{"1}`, `{1"}`, "[1:2={1,2}", "[1:1]=1", "{x}", `{"1\`},
			[]string{"", "00000001", "000000010000000000000017ffffffff00000001", "0000000100000000000000177fffffff00000001",
				"000000010000000000000017000000010000000100000004000001", "000000010000000000000017000000010000000100000004000000010000",
				"000000000000000000000017ff"}},
		{pair, []string{"", "(1)", "(1,a", "(1,a,b)", "(x,a)", `(1,"a)`, `(1,\)`}, []string{"00000001", "0000000200000017000000040000000100000019000000ff"}},
		{hstore, []string{"a=>1", `"a"=>`, `"a"`, `"a"=>"1",`, `"a"=>"1","b"=>"2"`, `"a"=>nul`, `"a"=>"1`}, []string{"00000001", "00000001ffffffff00000000", "7fffffff"}},
	} {
		lake := Lake(c.pg, Options{}, false)
		d := codec(t, c.pg, lake, Options{}, false)
		try := func(bin bool, src []byte) {
			b := builder(lake)
			err := d.Append(b, bin, src)
			if err == nil || errors.Is(err, ErrUnrepresentable) || !strings.Contains(err.Error(), SourceName(c.pg)) {
				t.Errorf("%s %s (binary %v): the error is %v", SourceName(c.pg), shown(bin, src), bin, err)
			}
			unchanged(t, b)
			if dst, err := d.AppendKey(nil, bin, src); err == nil || len(dst) > 0 {
				t.Errorf("%s %s (binary %v) has the key %x", SourceName(c.pg), shown(bin, src), bin, dst)
			}
		}
		for _, text := range c.texts {
			try(false, []byte(text))
		}
		for _, wire := range c.wires {
			src, err := hex.DecodeString(wire)
			if err != nil {
				t.Fatal(err)
			}
			try(true, src)
		}
		if d.Bent() != 0 {
			t.Errorf("%s: malformed values count as bent", SourceName(c.pg))
		}
	}
}

func TestAWrongBuilderIsAnErrorAndStaysAsItIs(t *testing.T) {
	list := arrayOf(base(OIDInt4, "int4"))
	for _, c := range []struct {
		pg Postgres
		b  arrow.DataType
	}{
		{base(OIDInt4, "int4"), arrow.PrimitiveTypes.Int64}, {base(OIDInt8, "int8"), arrow.BinaryTypes.Binary},
		{base(OIDUUID, "uuid"), &arrow.FixedSizeBinaryType{ByteWidth: 8}}, {list, arrow.ListOf(arrow.PrimitiveTypes.Int64)},
		{list, arrow.PrimitiveTypes.Int32},
	} {
		text := "1"
		switch c.pg.OID {
		case OIDUUID:
			text = "123e4567-e89b-12d3-a456-426614174000"
		case list.OID:
			text = "{1}"
		}
		b := array.NewBuilder(memory.DefaultAllocator, c.b)
		if err := codec(t, c.pg, Lake(c.pg, Options{}, false), Options{}, false).Append(b, false, []byte(text)); err == nil {
			t.Errorf("%s went into %s", SourceName(c.pg), c.b)
		}
		unchanged(t, b)
	}
}

// vectorType is pgvector's type.
func vectorType() Postgres { return base(70002, "vector") }

func TestVectors(t *testing.T) {
	lake := Lake(vectorType(), Options{}, false)
	d := codec(t, vectorType(), lake, Options{}, false)
	b := builder(lake)
	wire, _ := hex.DecodeString("00020000" + "3f800000" + "c0200000")
	for _, v := range []struct {
		bin bool
		src []byte
	}{{false, []byte("[1,-2.5]")}, {true, wire}, {false, []byte("[]")}} {
		if err := d.Append(b, v.bin, v.src); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.NewArray().String(); got != "[[1 -2.5] [1 -2.5] []]" {
		t.Errorf("vectors decode to %s", got)
	}
	for _, bad := range []string{"", "[", "[1,]", "[,1]", "[x]", "1,2"} {
		if err := d.Append(b, false, []byte(bad)); err == nil {
			t.Errorf("%q is taken for a vector", bad)
		}
	}
	if err := d.Append(b, true, wire[:len(wire)-1]); err == nil {
		t.Error("a short binary vector is taken")
	}
}

func TestPromotedColumnsDecodeTheOldType(t *testing.T) {
	for _, c := range []struct {
		pg         Postgres
		lake       Type
		text, want string
	}{
		{base(OIDInt4, "int4"), Type{Kind: Long}, "-5", "[-5]"},
		{base(OIDFloat4, "float4"), Type{Kind: Double}, "1.5", "[1.5]"},
		{numericType(5, 2), Type{Kind: Decimal, Precision: 20, Scale: 2}, "-1.25", "[-1.25]"},
		{base(OIDInt4, "int4"), Type{Kind: String}, "-5", `["-5"]`},
	} {
		b := builder(c.lake)
		if err := codec(t, c.pg, c.lake, Options{}, false).Append(b, false, []byte(c.text)); err != nil {
			t.Fatal(err)
		}
		if got := b.NewArray().String(); got != c.want {
			t.Errorf("%s as %s is %s, not %s", c.text, c.lake, got, c.want)
		}
	}
}

func TestABuilderIsFullBeforeItsOffsetsWrapAround(t *testing.T) {
	large := make([]byte, 1<<31) // never touched
	for _, lake := range []Type{{Kind: String}, {Kind: Binary}} {
		b := builder(lake)
		if err := appendCell(b, &lake, &cell{b: large}); !errors.Is(err, ErrFull) {
			t.Errorf("2 GiB in a %s: %v", lake, err)
		}
		if err := checkBuilder(b, &lake, 1<<31-1); err != nil {
			t.Errorf("as much as fits in a %s: %v", lake, err)
		}
		if err := appendCell(b, &lake, &cell{b: large[:1]}); err != nil {
			t.Fatal(err)
		}
		nested := Type{Kind: List, Fields: []Field{{Name: "element", Type: lake}}}
		l := builder(nested).(*array.ListBuilder)
		for _, c := range []struct {
			b    array.Builder
			lake Type
			size int
			want error
		}{{b, lake, 1<<31 - 2, nil}, {b, lake, 1<<31 - 1, ErrFull}, {l, nested, 1 << 31, ErrFull}} {
			if err := checkBuilder(c.b, &c.lake, c.size); !errors.Is(err, c.want) {
				t.Errorf("%d bytes in a %s: %v", c.size, c.lake, err)
			}
		}
		if b.Len() != 1 || l.Len() != 0 || l.ValueBuilder().Len() != 0 {
			t.Errorf("a full builder of %s was changed", lake)
		}
	}
}

func TestACodecServesManyWorkers(t *testing.T) {
	lake := Type{Kind: List, Fields: []Field{{Name: "element", Type: Type{Kind: Date}}}}
	d := codec(t, arrayOf(base(OIDDate, "date")), lake, Options{}, false)
	const workers, values = 4, 500
	var group errgroup.Group
	for range workers {
		group.Go(func() error {
			b := builder(lake)
			for range values {
				if err := d.Append(b, false, []byte("{2000-01-01,infinity,NULL}")); err != nil {
					return err
				}
			}
			a := b.NewArray()
			for i := range values {
				if got := a.ValueStr(i); got != `["2000-01-01","9999-12-31",null]` {
					return errors.New(got)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if d.Bent() != workers*values {
		t.Errorf("%d values are counted as bent, not %d", d.Bent(), workers*values)
	}
}

func TestSourceBytesAreNotKept(t *testing.T) {
	for _, c := range allocationCases() {
		src := bytes.Clone(c.src)
		b := builder(c.lake)
		if err := c.codec.Append(b, c.binary, src); err != nil {
			t.Fatal(err)
		}
		for i := range src {
			src[i] = 0xff
		}
		again := builder(c.lake)
		if err := c.codec.Append(again, c.binary, c.src); err != nil {
			t.Fatal(err)
		}
		if first, second := b.NewArray(), again.NewArray(); !array.Equal(first, second) {
			t.Errorf("%s: overwriting the wire bytes changed %s to %s", c.name, second, first)
		}
	}
}

func TestDefaultsReadAsStoredValues(t *testing.T) {
	for _, c := range []struct {
		pg         Postgres
		text, want string
	}{
		{base(OIDInt4, "int4"), "42", "[42]"}, {base(OIDText, "text"), "", `[""]`},
		{arrayOf(base(OIDText, "text")), `{a,"b c"}`, `[["a" "b c"]]`}, {base(OIDDate, "date"), "infinity", "[9999-12-31]"},
	} {
		a, err := ParseDefault(c.pg, Lake(c.pg, Options{}, false), c.text)
		if err != nil {
			t.Fatal(err)
		}
		if a.String() != c.want {
			t.Errorf("the default %q of %s is %s, not %s", c.text, SourceName(c.pg), a, c.want)
		}
		a.Release()
	}
	if _, err := ParseDefault(base(OIDInt4, "int4"), Type{Kind: Int}, "x"); err == nil {
		t.Error("a default that is no number is taken for one")
	}
}

func TestPowersOfTen(t *testing.T) {
	for n := range maxPrecision + 1 {
		hi, lo := powerOfTen(n)
		got := new(big.Int).Add(new(big.Int).Lsh(new(big.Int).SetUint64(hi), 64), new(big.Int).SetUint64(lo))
		if want := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil); got.Cmp(want) != 0 {
			t.Errorf("10^%d is %s", n, got)
		}
	}
}
