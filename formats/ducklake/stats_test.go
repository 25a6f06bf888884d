package ducklake

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
)

// FuzzBoundsSurviveTheCatalog turns bounds into the catalog's text and back: the same bytes, or no bound at all.
func FuzzBoundsSurviveTheCatalog(f *testing.F) {
	kinds := []types.Type{{Kind: types.Boolean}, {Kind: types.Int}, {Kind: types.Long}, {Kind: types.Float}, {Kind: types.Double},
		{Kind: types.Decimal, Precision: 38, Scale: 18}, {Kind: types.Decimal, Precision: 9}, {Kind: types.String}, {Kind: types.UUID},
		{Kind: types.Date}, {Kind: types.Time}, {Kind: types.Timestamp}, {Kind: types.TimestampTZ}, {Kind: types.Binary}, {Kind: types.JSON}}
	for kind := range kinds {
		for _, b := range [][]byte{nil, {0}, {1}, {0xff}, {0x7f, 0xff}, {1, 2, 3, 4}, {0xff, 0xff, 0xff, 0xff}, []byte("zürich"), {'a', 0},
			binary.LittleEndian.AppendUint64(nil, math.MaxInt64), binary.LittleEndian.AppendUint64(nil, 1<<63),
			binary.LittleEndian.AppendUint64(nil, math.Float64bits(-1e-300)), bytes.Repeat([]byte{0x80}, 16)} {
			f.Add(kind, b)
		}
	}
	f.Fuzz(func(t *testing.T, kind int, b []byte) {
		if kind < 0 || kind >= len(kinds) {
			return
		}
		of := kinds[kind]
		text, ok := boundText(of, b)
		if !ok {
			return
		}
		back, ok := parseBound(of, text)
		if !ok {
			t.Fatalf("%s: bound %x is stored as %q, which is not read back", of, b, text)
		}
		again, ok := boundText(of, back)
		if !ok || again != text {
			t.Fatalf("%s: bound %x is stored as %q and read back as %q", of, b, text, again)
		}
	})
}

func TestUnknownStatisticsAreLeftOut(t *testing.T) {
	cols := []column{{id: 1, t: types.Type{Kind: types.Long}}, {id: 2, t: types.Type{Kind: types.Double}}, {id: 3, t: types.Type{Kind: types.Double}},
		{id: 4, t: types.Type{Kind: types.List}}, {id: 5, t: types.Type{Kind: types.Int}}}
	one := binary.LittleEndian.AppendUint64(nil, math.Float64bits(1))
	got := fileStats(cols, 3, &formats.FileStats{
		ValueCounts: map[int]int64{1: 3, 2: 3, 3: 3, 4: 3, 5: 7}, NullCounts: map[int]int64{1: 1, 2: 0, 3: 0, 4: 0, 5: 0},
		NaNCounts: map[int]int64{3: 1}, Lower: map[int][]byte{2: one, 3: one}, Upper: map[int][]byte{2: one, 3: one}})
	// Column 2 has doubles of which it is not known whether one is NaN, 4 is nested, 5 counts values that repeat.
	if len(got) != 2 || got[0].column != 1 || got[0].values != int64(2) || got[0].nulls != int64(1) || got[0].lower != nil ||
		got[1].column != 3 || got[1].nan != true || got[1].lower != nil || got[1].upper != nil {
		t.Fatalf("%+v", got)
	}
}
