package types

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

// ordered has, by type, values in ascending order.
var ordered = []struct {
	lake Type
	add  func(b array.Builder)
}{
	{Type{Kind: Boolean}, func(b array.Builder) { b.(*array.BooleanBuilder).AppendValues([]bool{false, true}, nil) }},
	{Type{Kind: Int}, func(b array.Builder) {
		b.(*array.Int32Builder).AppendValues([]int32{math.MinInt32, -65536, -65535, -257, -256, -255, -2, -1, 0, 1, 127, 128, 255, 256, 65535, math.MaxInt32}, nil)
	}},
	{Type{Kind: Long}, func(b array.Builder) {
		b.(*array.Int64Builder).AppendValues([]int64{math.MinInt64, math.MinInt64 + 1, math.MinInt32 - 1, -1, 0, 1, math.MaxUint32, math.MaxInt64 - 1, math.MaxInt64}, nil)
	}},
	{Type{Kind: Double}, func(b array.Builder) {
		b.(*array.Float64Builder).AppendValues([]float64{math.Inf(-1), -1e300, -1, -5e-324, math.Copysign(0, -1), 0, 5e-324, 1, 1e300, math.Inf(1), math.NaN()}, nil)
	}},
	{Type{Kind: Float}, func(b array.Builder) {
		b.(*array.Float32Builder).AppendValues([]float32{float32(math.Inf(-1)), -1, float32(math.Copysign(0, -1)), 0, 1e-45, 1, float32(math.Inf(1)), float32(math.NaN())}, nil)
	}},
	{Type{Kind: Decimal, Precision: 38}, func(b array.Builder) {
		for _, s := range []string{"-99999999999999999999999999999999999999", "-18446744073709551616", "-18446744073709551615", "-256", "-1", "0", "1", "255", "256",
			"18446744073709551615", "18446744073709551616", "99999999999999999999999999999999999999"} {
			n, err := decimal128.FromString(s, 38, 0)
			if err != nil {
				panic(err)
			}
			b.(*array.Decimal128Builder).Append(n)
		}
	}},
	{Type{Kind: String}, func(b array.Builder) {
		b.(*array.StringBuilder).AppendValues([]string{"", "\x00", "\x00\x00", "\x00\x01", "\x00a", "\x01", "a", "a\x00", "a\x00\x00b", "a\x01", "aa", "ab", "b", "ä", "\U0010FFFF"}, nil)
	}},
	{Type{Kind: Binary}, func(b array.Builder) {
		b.(*array.BinaryBuilder).AppendValues([][]byte{{}, {0}, {0, 1}, {0, 0xff}, {1}, {0xff}, {0xff, 0}, {0xff, 0xff}}, nil)
	}},
	{Type{Kind: UUID}, func(b array.Builder) {
		for _, first := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			b.(*extensions.UUIDBuilder).AppendBytes([16]byte{first})
		}
	}},
	{Type{Kind: Date}, func(b array.Builder) {
		b.(*array.Date32Builder).AppendValues([]arrow.Date32{firstDay, -1, 0, 1, lastDay}, nil)
	}},
	{Type{Kind: Timestamp}, func(b array.Builder) {
		b.(*array.TimestampBuilder).AppendValues([]arrow.Timestamp{arrow.Timestamp(firstMicrosecond), -1, 0, 1, arrow.Timestamp(lastMicrosecond)}, nil)
	}},
}

func TestKeysOfScalarsSortAsTheirValuesAndNullFirst(t *testing.T) {
	for _, c := range ordered {
		b := builder(c.lake)
		b.AppendNull()
		c.add(b)
		a := b.NewArray()
		var last []byte
		for i := range a.Len() {
			key := keyOf(t, c.lake, a, i)
			if bytes.Compare(last, key) >= 0 {
				t.Errorf("%s: the key %x of %s is not after %x", c.lake, key, a.ValueStr(i), last)
			}
			last = key
		}
		if !bytes.Equal(keyOf(t, c.lake, a, 0), AppendKeyNull(nil)) {
			t.Errorf("%s: NULL has two encodings", c.lake)
		}
	}
}

func keyOf(t testing.TB, lake Type, a arrow.Array, row int) []byte {
	t.Helper()
	key, err := AppendKeyValue(nil, lake, a, row)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// some appends a value out of few, so that equal ones come up, or NULL.
func some(b array.Builder, t Type, r *rand.Rand) {
	if r.IntN(4) == 0 {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.Int32Builder:
		b.Append([]int32{0, 1, -1, 255, 256, 257}[r.IntN(6)])
	case *array.StringBuilder:
		b.Append([]string{"", "\x00", "\x00\x01", "\xff", "\x00\xff", "a", "a\x00", "\x01a"}[r.IntN(8)])
	case *array.ListBuilder:
		b.Append(true)
		for range r.IntN(3) {
			some(b.ValueBuilder(), t.Fields[0].Type, r)
		}
	case *array.StructBuilder:
		b.Append(true)
		for i, f := range t.Fields {
			some(b.FieldBuilder(i), f.Type, r)
		}
	case *array.MapBuilder:
		b.Append(true)
		for range r.IntN(3) {
			b.KeyBuilder().(*array.StringBuilder).Append([]string{"", "a", "\x00"}[r.IntN(3)])
			some(b.ItemBuilder(), t.Fields[1].Type, r)
		}
	default:
		panic(fmt.Sprintf("no values for %T", b))
	}
}

func TestKeysAreEqualExactlyWhenTheValuesAreAndNoneIsAPrefixOfAnother(t *testing.T) {
	text, number := Type{Kind: String}, Type{Kind: Int}
	listOf := func(t Type) Type { return Type{Kind: List, Fields: []Field{{Name: "element", Type: t}}} }
	pair := Type{Kind: Struct, Fields: []Field{{Name: "a", Type: text}, {Name: "b", Type: listOf(number)}}}
	bag := Type{Kind: Map, Fields: []Field{{Name: "key", Type: text, Required: true}, {Name: "value", Type: text}}}
	for _, lake := range []Type{text, number, listOf(text), listOf(listOf(number)), pair, listOf(pair), bag, {Kind: Struct, Fields: []Field{{Name: "m", Type: bag}, {Name: "t", Type: text}}}} {
		r := rand.New(rand.NewPCG(1, uint64(lake.Kind)))
		b := builder(lake)
		for range 400 {
			some(b, lake, r)
		}
		a := b.NewArray()
		keys := make([][]byte, a.Len())
		for i := range keys {
			keys[i] = keyOf(t, lake, a, i)
		}
		for i := range keys {
			for j := range i {
				one, two := array.NewSlice(a, int64(i), int64(i)+1), array.NewSlice(a, int64(j), int64(j)+1)
				equal := array.Equal(one, two)
				if equal != bytes.Equal(keys[i], keys[j]) {
					t.Fatalf("%s: %s and %s have the keys %x and %x", lake, one, two, keys[i], keys[j])
				}
				if !equal && (bytes.HasPrefix(keys[i], keys[j]) || bytes.HasPrefix(keys[j], keys[i])) {
					t.Fatalf("%s: of the keys %x and %x one is a prefix of the other", lake, keys[i], keys[j])
				}
				// A slice is another view of the same value.
				if sliced := keyOf(t, lake, one, 0); !bytes.Equal(sliced, keys[i]) {
					t.Fatalf("%s: the key of a slice is %x instead of %x", lake, sliced, keys[i])
				}
			}
		}
	}
}

func TestPromotedColumnsKeepTheirKeys(t *testing.T) {
	for _, c := range []struct {
		from, to Type
		text     string
		pg       Postgres
	}{
		{Type{Kind: Int}, Type{Kind: Long}, "-70000", base(OIDInt4, "int4")},
		{Type{Kind: Float}, Type{Kind: Double}, "0.1", base(OIDFloat4, "float4")},
		{Type{Kind: Decimal, Precision: 9, Scale: 2}, Type{Kind: Decimal, Precision: 30, Scale: 2}, "-1234.56", base(OIDNumeric, "numeric")},
	} {
		old, err := codec(t, c.pg, c.from, Options{}, true).AppendKey(nil, false, []byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		now, err := codec(t, c.pg, c.to, Options{}, true).AppendKey(nil, false, []byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		b := builder(c.from)
		if err := codec(t, c.pg, c.from, Options{}, true).Append(b, false, []byte(c.text)); err != nil {
			t.Fatal(err)
		}
		stored := keyOf(t, c.to, b.NewArray(), 0)
		if !slices.Equal(old, now) || !slices.Equal(old, stored) {
			t.Errorf("%s promoted to %s: the key %x became %x, from an old file %x", c.from, c.to, old, now, stored)
		}
	}
}

func TestKeysOfAWrongArrayAreErrors(t *testing.T) {
	b := builder(Type{Kind: Int})
	b.(*array.Int32Builder).Append(1)
	a := b.NewArray()
	for _, lake := range []Type{{Kind: Boolean}, {Kind: Double}, {Kind: Decimal, Precision: 5}, {Kind: String}, {Kind: UUID}, {Kind: List}, {Kind: Timestamp}} {
		if dst, err := AppendKeyValue([]byte("x"), lake, a, 0); err == nil || string(dst) != "x" {
			t.Errorf("an array of integers gives the key %x for %s", dst, lake)
		}
	}
}
