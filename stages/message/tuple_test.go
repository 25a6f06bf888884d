package message

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

func encode(values []Value) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(values)))
	for _, v := range values {
		b = append(b, v.Kind)
		if v.Kind == 't' || v.Kind == 'b' {
			b = binary.BigEndian.AppendUint32(b, uint32(len(v.Data)))
			b = append(b, v.Data...)
		}
	}
	return b
}

var wide = []Value{{'t', []byte("17")}, {'n', nil}, {'u', nil}, {'b', []byte{0, 1}}, {'t', []byte{}}}

func TestColumnsReadsEveryKind(t *testing.T) {
	got, err := Columns(encode(wide), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(wide) {
		t.Fatalf("%d columns, wanted %d", len(got), len(wide))
	}
	for i, v := range got {
		if v.Kind != wide[i].Kind || !bytes.Equal(v.Data, wide[i].Data) {
			t.Errorf("column %d is %q %q, wanted %q %q", i, v.Kind, v.Data, wide[i].Kind, wide[i].Data)
		}
	}
}

func TestColumnsNamesTheFaultOfEveryPrefix(t *testing.T) {
	whole := encode(wide)
	for n := range whole {
		_, err := Columns(whole[:n], nil)
		var fault *TupleError
		if !errors.As(err, &fault) {
			t.Errorf("the first %d of %d bytes gave %v", n, len(whole), err)
		}
		if _, err := TupleLength(whole[:n]); !errors.As(err, &fault) {
			t.Errorf("the first %d of %d bytes have a length: %v", n, len(whole), err)
		}
	}
	if _, err := Columns(append(whole, 0), nil); err == nil {
		t.Error("a byte after the tuple was not noticed")
	}
	if n, err := TupleLength(append(whole, 0)); err != nil || n != len(whole) {
		t.Errorf("the tuple's length is %d, %v, wanted %d", n, err, len(whole))
	}
}

func TestColumnsAllocatesNothingWithRoom(t *testing.T) {
	whole, dst := encode(wide), make([]Value, 0, len(wide))
	if n := testing.AllocsPerRun(100, func() { dst, _ = Columns(whole, dst) }); n != 0 {
		t.Fatalf("%v allocations a tuple", n)
	}
}

func FuzzColumns(f *testing.F) {
	f.Add(encode(wide))
	f.Add([]byte{0, 1, 't', 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := TupleLength(data)
		if err != nil {
			if _, err := Columns(data, nil); err == nil {
				t.Fatal("Columns takes what has no length")
			}
			return
		}
		values, err := Columns(data[:n], nil)
		if err != nil {
			t.Fatalf("TupleLength takes what Columns refuses: %v", err)
		}
		if again := encode(values); !bytes.Equal(again, data[:n]) {
			t.Fatalf("%x read and written again is %x", data[:n], again)
		}
	})
}
