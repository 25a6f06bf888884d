package verify

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/source"
)

// firstUserOID is the first oid of an object that no server comes with.
const firstUserOID = 16384

// keyCasts gives the source types of the key's columns, for asking the source for rows by key; nil when the table has no
// key, or one of types whose values we cannot write or whose comparison is not the server's own.
func (s *shape) keyCasts() []string {
	if !s.keyed {
		return nil
	}
	var casts []string
	for _, k := range s.schema.Key {
		c := &s.schema.Columns[k]
		if c.Source.OID >= firstUserOID || c.Type.Nested() || c.Type.Kind == types.Float || c.Type.Kind == types.Double {
			return nil
		}
		casts = append(casts, "pg_catalog."+source.Quote(c.Source.Name))
	}
	return casts
}

// keyText writes a key's values in Postgres' text form; ok is false for one that cannot be.
func (s *shape) keyText(rec arrow.RecordBatch, row int) (values []string, ok bool) {
	if s.casts == nil {
		return nil, false
	}
	for _, k := range s.schema.Key {
		text, ok := text(s.fields[k].Type, rec.Column(k), row)
		if !ok {
			return nil, false
		}
		values = append(values, text)
	}
	return values, true
}

func text(t types.Type, a arrow.Array, row int) (string, bool) {
	if a.IsNull(row) {
		return "", false
	}
	switch a := a.(type) {
	case *array.Boolean:
		return strconv.FormatBool(a.Value(row)), true
	case *array.Int32:
		return strconv.Itoa(int(a.Value(row))), true
	case *array.Int64:
		return strconv.FormatInt(a.Value(row), 10), true
	case *array.Decimal128:
		return a.Value(row).ToString(int32(t.Scale)), true
	case *array.String:
		return a.Value(row), true
	case *array.Binary:
		return `\x` + hex.EncodeToString(a.Value(row)), true
	case *array.Date32:
		return a.Value(row).ToTime().Format("2006-01-02"), true
	case *array.Time64:
		return time.UnixMicro(int64(a.Value(row))).UTC().Format("15:04:05.000000"), true
	case *array.Timestamp:
		return time.UnixMicro(int64(a.Value(row))).UTC().Format("2006-01-02 15:04:05.000000-07"), true
	case array.ExtensionArray:
		if b, ok := a.Storage().(*array.FixedSizeBinary); ok && t.Kind == types.UUID {
			return hex.EncodeToString(b.Value(row)), true
		}
	}
	return "", false
}

// textArray writes an array of strings as Postgres reads it.
func textArray(values []string) []byte {
	var b strings.Builder
	b.WriteByte('{')
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		b.WriteString(arrayEscapes.Replace(v))
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return []byte(b.String())
}

var arrayEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// mostShown is how many bytes of a value are shown.
const mostShown = 200

// show gives a value for people. Of a long one it gives the beginning, and a digest that tells it from others.
func show(t types.Type, a arrow.Array, row int) string {
	if a.IsNull(row) {
		return "NULL"
	}
	s, ok := text(t, a, row)
	if !ok {
		s = a.ValueStr(row)
	}
	if len(s) > mostShown {
		all := sum([]byte(s))
		s = fmt.Sprintf("%s... (%d bytes, sha256 %x...)", strings.ToValidUTF8(s[:mostShown], ""), len(s), all[:4])
	}
	return s
}

// shown gives all values of a row for people.
func shown(fields []types.Field, rec arrow.RecordBatch, row int) []string {
	values := make([]string, len(fields))
	for i, f := range fields {
		values[i] = show(f.Type, rec.Column(i), row)
	}
	return values
}
