package ducklake

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
)

// Bounds go between the single-value serialization of formats.FileStats and the text of DuckLake's catalog. What has no
// safe text is left out: a missing bound never prunes, a wrong one hides rows.

const (
	dayMicros = 86_400_000_000
	// The years 1 to 9999, which every reader parses.
	firstDay, lastDay = -719162, 2932896
)

// boundText gives a bound's text. A bound of a narrower type that was promoted is taken, one of a wider type is not.
func boundText(t types.Type, b []byte) (string, bool) {
	if narrow := t.Kind == types.Int || t.Kind == types.Date || t.Kind == types.Float; narrow && len(b) != 4 {
		return "", false
	}
	switch t.Kind {
	case types.Boolean:
		if len(b) == 1 && b[0] <= 1 {
			return strconv.Itoa(int(b[0])), true
		}
	case types.Int, types.Long, types.Date, types.Time, types.Timestamp, types.TimestampTZ:
		n, ok := littleEndian(b)
		if ok {
			return integerText(t, n)
		}
	case types.Float, types.Double:
		switch len(b) {
		case 4:
			return floatText(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		case 8:
			return floatText(math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
	case types.Decimal:
		if len(b) > 0 && len(b) <= 16 {
			return decimalText(fromTwosComplement(b), t.Scale), true
		}
	case types.UUID:
		if u, err := uuid.FromBytes(b); err == nil {
			return u.String(), true
		}
	case types.String:
		// Promise 11: SQLite and the readers' C strings end at a zero byte, which Postgres' text never holds.
		if utf8.Valid(b) && !slices.Contains(b, 0) {
			return string(b), true
		}
	}
	return "", false
}

// parseBound is the inverse of boundText.
func parseBound(t types.Type, text string) ([]byte, bool) {
	switch t.Kind {
	case types.Boolean:
		if text == "0" || text == "1" {
			return []byte{text[0] - '0'}, true
		}
	case types.Int, types.Date:
		n, ok := parseInteger(t, text)
		return binary.LittleEndian.AppendUint32(nil, uint32(n)), ok && n >= math.MinInt32 && n <= math.MaxInt32
	case types.Long, types.Time, types.Timestamp, types.TimestampTZ:
		n, ok := parseInteger(t, text)
		return binary.LittleEndian.AppendUint64(nil, uint64(n)), ok
	case types.Float:
		f, err := strconv.ParseFloat(text, 32)
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(f))), err == nil && f == f
	case types.Double:
		f, err := strconv.ParseFloat(text, 64)
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)), err == nil && f == f
	case types.Decimal:
		return parseDecimal(t, text)
	case types.UUID:
		u, err := uuid.Parse(text)
		return u[:], err == nil
	case types.String:
		return []byte(text), true
	}
	return nil, false
}

func littleEndian(b []byte) (int64, bool) {
	switch len(b) {
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b))), true
	case 8:
		return int64(binary.LittleEndian.Uint64(b)), true
	}
	return 0, false
}

// integerText gives the text of a value that is stored as an integer.
func integerText(t types.Type, n int64) (string, bool) {
	switch t.Kind {
	case types.Date:
		return time.Unix(n*86400, 0).UTC().Format("2006-01-02"), n >= firstDay && n <= lastDay
	case types.Time:
		return time.UnixMicro(n).UTC().Format("15:04:05.000000"), n >= 0 && n < dayMicros
	case types.Timestamp, types.TimestampTZ:
		if n < firstDay*dayMicros || n >= (lastDay+1)*dayMicros {
			return "", false
		}
		text := time.UnixMicro(n).UTC().Format("2006-01-02 15:04:05.000000")
		if t.Kind == types.TimestampTZ {
			text += "+00"
		}
		return text, true
	}
	return strconv.FormatInt(n, 10), true
}

func parseInteger(t types.Type, text string) (int64, bool) {
	layout := ""
	switch t.Kind {
	case types.Date:
		layout = "2006-01-02"
	case types.Time:
		at, err := time.Parse("15:04:05.999999", text)
		return at.UnixMicro() - at.Truncate(24*time.Hour).UnixMicro(), err == nil
	case types.Timestamp, types.TimestampTZ:
		layout = "2006-01-02 15:04:05.999999"
		text = strings.TrimSuffix(text, "+00")
	default:
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	}
	at, err := time.Parse(layout, text)
	if t.Kind == types.Date {
		return at.Unix() / 86400, err == nil
	}
	return at.UnixMicro(), err == nil
}

func floatText(f float64) (string, bool) {
	return strconv.FormatFloat(f, 'g', -1, 64), !math.IsNaN(f) && !math.IsInf(f, 0)
}

func fromTwosComplement(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if b[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}

func decimalText(n *big.Int, scale int) string {
	digits := new(big.Int).Abs(n).String()
	if len(digits) <= scale {
		digits = strings.Repeat("0", scale+1-len(digits)) + digits
	}
	if scale > 0 {
		digits = digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	}
	if n.Sign() < 0 {
		return "-" + digits
	}
	return digits
}

func parseDecimal(t types.Type, text string) ([]byte, bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	if len(fraction) > t.Scale {
		return nil, false
	}
	n, ok := new(big.Int).SetString(whole+fraction+strings.Repeat("0", t.Scale-len(fraction)), 10)
	if !ok || n.BitLen() > 127 {
		return nil, false
	}
	b := n.FillBytes(make([]byte, 16))
	if n.Sign() < 0 {
		b = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), 128)).FillBytes(b)
	}
	for len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80) {
		b = b[1:]
	}
	return b, true
}

// leafStats is one row of ducklake_file_column_stats; nil stands for NULL.
type leafStats struct {
	column                   int64
	size, values, nulls, nan any
	lower, upper             any
}

// fileStats gives the rows of a file's statistics. DuckLake's value_count leaves NULLs out.
func fileStats(cols []column, rows int64, s *formats.FileStats) []leafStats {
	var out []leafStats
	for _, c := range cols {
		id := int(c.id)
		values, ok := s.ValueCounts[id]
		nulls, known := s.NullCounts[id]
		if c.t.Nested() || !ok || !known || values != rows || nulls > values {
			continue // unknown, or of values that repeat
		}
		leaf := leafStats{column: c.id, values: values - nulls, nulls: nulls}
		if size, ok := s.ColumnSizes[id]; ok {
			leaf.size = size
		}
		bounded := true
		if c.t.Kind == types.Float || c.t.Kind == types.Double {
			nans, ok := s.NaNCounts[id]
			if !ok {
				continue
			}
			leaf.nan = nans > 0
			bounded = nans == 0 // NaN is above all numbers
		}
		if bounded {
			if text, ok := boundText(c.t, s.Lower[id]); ok {
				leaf.lower = text
			}
			if text, ok := boundText(c.t, s.Upper[id]); ok {
				leaf.upper = text
			}
		}
		out = append(out, leaf)
	}
	return out
}

// storedStats is the form of formats.FileStats in streambed_files.
type storedStats struct {
	Sizes, Values, Nulls, NaNs map[int]int64
	Lower, Upper               map[int]string
	Offsets                    []int64
	Partition                  string `json:",omitempty"`
}

func storeStats(s *formats.FileStats) storedStats {
	encode := func(m map[int][]byte) map[int]string {
		out := make(map[int]string, len(m))
		for id, b := range m {
			out[id] = hex.EncodeToString(b)
		}
		return out
	}
	return storedStats{Sizes: s.ColumnSizes, Values: s.ValueCounts, Nulls: s.NullCounts, NaNs: s.NaNCounts, Lower: encode(s.Lower),
		Upper: encode(s.Upper), Offsets: s.SplitOffsets}
}

func (s *storedStats) stats() (formats.FileStats, error) {
	var failed error
	decode := func(m map[int]string) map[int][]byte {
		out := make(map[int][]byte, len(m))
		for id, text := range m {
			b, err := hex.DecodeString(text)
			if err != nil {
				failed = err
			}
			out[id] = b
		}
		return out
	}
	return formats.FileStats{ColumnSizes: s.Sizes, ValueCounts: s.Values, NullCounts: s.Nulls, NaNCounts: s.NaNs,
		Lower: decode(s.Lower), Upper: decode(s.Upper), SplitOffsets: s.Offsets}, failed
}
