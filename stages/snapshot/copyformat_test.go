package snapshot

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/streambed/streambed/stages/message"
)

func TestTextCopyRowsKeepEveryCharacter(t *testing.T) {
	for _, c := range []struct {
		row  string
		want []string // "\x00" stands for NULL
	}{
		{"1\ttwo\n", []string{"1", "two"}},
		{"\\N\t\t\\\\N\n", []string{"\x00", "", `\N`}},
		{`a\tb\nc\\d\re\bf\fg\vh` + "\n", []string{"a\tb\nc\\d\re\bf\fg\vh"}},
		{"\n", []string{""}},
		{"é\\\\\t\\\\\n", []string{`é\`, `\`}},
	} {
		values, _, err := parseText([]byte(c.row), nil, nil)
		if err != nil {
			t.Errorf("%q: %v", c.row, err)
			continue
		}
		if len(values) != len(c.want) {
			t.Errorf("%q has %d values, want %d", c.row, len(values), len(c.want))
			continue
		}
		for i, v := range values {
			if null := c.want[i] == "\x00"; null != (v.Kind == 'n') || !null && string(v.Data) != c.want[i] {
				t.Errorf("%q: value %d is %c %q, want %q", c.row, i, v.Kind, v.Data, c.want[i])
			}
		}
	}
	for _, bad := range []string{"", "a", "a\\\n"} {
		if _, _, err := parseText([]byte(bad), nil, nil); err == nil {
			t.Errorf("%q was taken for a row", bad)
		}
	}
}

func TestBinaryCopyRowsAreReadAfterTheHeader(t *testing.T) {
	data := append([]byte{}, copySignature...)
	data = append(data, 0, 0, 0, 0, 0, 0, 0, 3, 9, 9, 9) // flags, an extension of three bytes
	row := []byte{0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 2, 'h', 'i'}
	rest, err := skipHeader(append(data, row...))
	if err != nil || !bytes.Equal(rest, row) {
		t.Fatalf("header skipped to %q: %v", rest, err)
	}
	values, end, err := parseBinary(rest, nil)
	if err != nil || end || len(values) != 2 || values[0].Kind != 'n' || string(values[1].Data) != "hi" {
		t.Fatalf("row read as %v, end %v, %v", values, end, err)
	}
	if _, end, err := parseBinary([]byte{0xff, 0xff}, nil); err != nil || !end {
		t.Fatalf("trailer read as end %v, %v", end, err)
	}
}

func FuzzCopyRows(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 0, 1, 'x'})
	f.Add([]byte("a\tb\\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var total int
		if values, _, err := parseBinary(data, nil); err == nil {
			for _, v := range values {
				total += len(v.Data)
			}
			if total > len(data) {
				t.Fatal("values hold more than the row")
			}
		}
		if values, _, err := parseText(data, nil, nil); err == nil {
			for _, v := range values {
				if v.Kind != 'n' && v.Kind != 't' {
					t.Fatalf("kind %c", v.Kind)
				}
			}
		}
		_, _ = skipHeader(data)
	})
}

func TestMergedTupleHoldsItsKey(t *testing.T) {
	tuple := message.AppendTuple(nil, []message.Value{{Kind: 't', Data: []byte("k")}, {Kind: 'u'}, {Kind: 'n'}})
	if n := binary.BigEndian.Uint16(tuple); n != 3 {
		t.Fatalf("%d columns", n)
	}
	values, err := message.Columns(tuple, nil)
	if err != nil || string(values[0].Data) != "k" || values[1].Kind != 'u' || values[2].Kind != 'n' {
		t.Fatalf("read back as %v: %v", values, err)
	}
}
