package types

import (
	"bytes"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestKeysReadBack decodes the encoded keys of all ordered values, NULL among them: two columns a key.
func TestKeysReadBack(t *testing.T) {
	for _, o := range ordered {
		if slices.Contains([]Kind{Float, Double, List, Map, Struct}, o.lake.Kind) {
			continue
		}
		b := array.NewBuilder(memory.DefaultAllocator, o.lake.Arrow())
		o.add(b)
		b.AppendNull()
		values := b.NewArray()
		for i := range values.Len() {
			for j := range values.Len() {
				key, err := AppendKeyValue(nil, o.lake, values, i)
				if err == nil {
					key, err = AppendKeyValue(key, o.lake, values, j)
				}
				if err != nil {
					t.Fatal(err)
				}
				rest := key
				for range 2 {
					if rest, err = AppendKeyTo(b, o.lake, rest); err != nil {
						t.Fatalf("%s: %x: %v", o.lake, key, err)
					}
				}
				back := b.NewArray()
				if len(rest) != 0 || back.Len() != 2 || !equalAt(back, 0, values, i) || !equalAt(back, 1, values, j) {
					t.Errorf("%s: key of %s and %s reads as %v", o.lake, values.ValueStr(i), values.ValueStr(j), back)
				}
			}
		}
	}
}

func equalAt(a arrow.Array, i int, b arrow.Array, j int) bool {
	return a.IsNull(i) == b.IsNull(j) && a.ValueStr(i) == b.ValueStr(j)
}

// FuzzKeyReads feeds it any bytes: what reads is written the same.
func FuzzKeyReads(f *testing.F) {
	f.Add([]byte{0x82, 1, 2}, uint8(0))
	f.Add([]byte{0x01, 'a', 0, 0xff, 0, 1}, uint8(1))
	f.Fuzz(func(t *testing.T, key []byte, kind uint8) {
		lake := []Type{{Kind: Long}, {Kind: String}, {Kind: Boolean}, {Kind: UUID}, {Kind: Decimal, Precision: 38}}[kind%5]
		b := array.NewBuilder(memory.DefaultAllocator, lake.Arrow())
		rest, err := AppendKeyTo(b, lake, key)
		if err != nil {
			return
		}
		again, err := AppendKeyValue(nil, lake, b.NewArray(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := AppendKeyTo(b, lake, again); err != nil || len(again) > len(key)-len(rest) && !bytes.Equal(again, key[:len(key)-len(rest)]) {
			t.Fatalf("%x reads, and is written as %x", key, again)
		}
	})
}
