package values

import (
	"strconv"
	"unicode/utf8"

	bindings "github.com/duckdb/duckdb-go-bindings"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/queryd/pgtext"
)

// Text gives the encoder of a type's text format.
func Text(t *duck.Type, style Style) Encoder {
	switch t.ID {
	case bindings.TypeBoolean:
		return func(dst []byte, v *duck.Vector, row int) []byte { return pgtext.AppendBool(dst, duck.At[bool](v, row)) }
	case bindings.TypeTinyInt:
		return integer[int8]
	case bindings.TypeSmallInt:
		return integer[int16]
	case bindings.TypeInteger:
		return integer[int32]
	case bindings.TypeBigInt:
		return integer[int64]
	case bindings.TypeUTinyInt:
		return unsigned[uint8]
	case bindings.TypeUSmallInt:
		return unsigned[uint16]
	case bindings.TypeUInteger:
		return unsigned[uint32]
	case bindings.TypeUBigInt:
		return unsigned[uint64]
	case bindings.TypeHugeInt:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return pgtext.AppendDecimal(dst, duck.At[pgtext.Int128](v, row), 0)
		}
	case bindings.TypeUHugeInt:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			n := duck.At[pgtext.Int128](v, row)
			return pgtext.AppendUnsigned(dst, uint64(n.High), n.Low)
		}
	case bindings.TypeDecimal:
		read, scale := decimal(t), t.Scale
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return pgtext.AppendDecimal(dst, read(v, row), scale)
		}
	case bindings.TypeFloat:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return pgtext.AppendFloat4(dst, duck.At[float32](v, row))
		}
	case bindings.TypeDouble:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return pgtext.AppendFloat8(dst, duck.At[float64](v, row))
		}
	case bindings.TypeBlob:
		return func(dst []byte, v *duck.Vector, row int) []byte { return pgtext.AppendBytea(dst, v.Bytes(row)) }
	case bindings.TypeUUID:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return pgtext.AppendUUID(dst, pgtext.UUIDBytes(duck.At[pgtext.Int128](v, row)))
		}
	case bindings.TypeEnum:
		return enum(t)
	case bindings.TypeBit:
		return func(dst []byte, v *duck.Vector, row int) []byte { return appendBits(dst, v.Bytes(row)) }
	case bindings.TypeList, bindings.TypeArray:
		return listText(t, style)
	case bindings.TypeStruct:
		return structText(t, style)
	case bindings.TypeMap:
		return mapText(t, style)
	}
	if e := timeText(t.ID, style); e != nil {
		return e
	}
	return func(dst []byte, v *duck.Vector, row int) []byte { return append(dst, v.Bytes(row)...) }
}

// TextAs gives the text encoder of a column whose Postgres type is known from the source (FromSource).
func TextAs(t *duck.Type, as Type, style Style) Encoder {
	if t.ID == bindings.TypeDecimal && as.Typmod < 0 {
		read, scale := decimal(t), t.Scale
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return trimZeros(pgtext.AppendDecimal(dst, read(v, row), scale), scale)
		}
	}
	if as.OID == OIDBpchar && as.Typmod >= 4 {
		return padded(int(as.Typmod - 4))
	}
	if as.OID == types.OIDInt2Vector || as.OID == types.OIDOIDVector {
		return vectorText(Text(&t.Children[0], style))
	}
	return Text(t, style)
}

// padded writes a char(n), which a scan gives without the blanks that fill it.
func padded(n int) Encoder {
	return func(dst []byte, v *duck.Vector, row int) []byte {
		b := v.Bytes(row)
		dst = append(dst, b...)
		for i := utf8.RuneCount(b); i < n; i++ {
			dst = append(dst, ' ')
		}
		return dst
	}
}

// vectorText writes an int2vector or oidvector: numbers with spaces between.
func vectorText(element Encoder) Encoder {
	return func(dst []byte, v *duck.Vector, row int) []byte {
		from, to := v.Entries(row)
		for i := from; i < to; i++ {
			if i > from {
				dst = append(dst, ' ')
			}
			dst = element(dst, &v.Children[0], i)
		}
		return dst
	}
}

// trimZeros takes the zeros at the end of a decimal fraction away: the scale of a numeric without one is not the source's.
func trimZeros(b []byte, scale int) []byte {
	if scale == 0 {
		return b
	}
	n := len(b)
	for b[n-1] == '0' {
		n--
	}
	if b[n-1] == '.' {
		n--
	}
	return b[:n]
}

type signedInt interface {
	~int8 | ~int16 | ~int32 | ~int64
}
type unsignedInt interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

func integer[T signedInt](dst []byte, v *duck.Vector, row int) []byte {
	return strconv.AppendInt(dst, int64(duck.At[T](v, row)), 10)
}

func unsigned[T unsignedInt](dst []byte, v *duck.Vector, row int) []byte {
	return strconv.AppendUint(dst, uint64(duck.At[T](v, row)), 10)
}

func timeText(id duck.TypeID, style Style) Encoder {
	read := micros(id)
	switch id {
	case bindings.TypeDate:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return pgtext.AppendDate(dst, duck.At[int32](v, row))
		}
	case bindings.TypeTime, bindings.TypeTimeNS:
		return func(dst []byte, v *duck.Vector, row int) []byte { return pgtext.AppendTime(dst, read(v, row)) }
	case bindings.TypeTimeTZ:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			m, offset := timeTZ(duck.At[uint64](v, row))
			return pgtext.AppendTimeTZ(dst, m, offset)
		}
	case bindings.TypeTimestamp, bindings.TypeTimestampS, bindings.TypeTimestampMS, bindings.TypeTimestampNS:
		return func(dst []byte, v *duck.Vector, row int) []byte { return pgtext.AppendTimestamp(dst, read(v, row)) }
	case bindings.TypeTimestampTZ:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return pgtext.AppendTimestampTZ(dst, read(v, row), style.Zone)
		}
	case bindings.TypeInterval:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			i := duck.At[interval](v, row)
			return pgtext.AppendInterval(dst, i.months, i.days, i.micros, style.Interval)
		}
	}
	return nil
}

func enum(t *duck.Type) Encoder {
	names := t.Names
	switch t.Internal {
	case bindings.TypeUTinyInt:
		return func(dst []byte, v *duck.Vector, row int) []byte { return append(dst, names[duck.At[uint8](v, row)]...) }
	case bindings.TypeUSmallInt:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return append(dst, names[duck.At[uint16](v, row)]...)
		}
	}
	return func(dst []byte, v *duck.Vector, row int) []byte {
		return append(dst, names[duck.At[uint32](v, row)]...)
	}
}

// appendBits writes DuckDB's bit string, whose first byte counts the padding bits, as zeros and ones.
func appendBits(dst, b []byte) []byte {
	if len(b) == 0 {
		return dst
	}
	for i := int(b[0]); i < (len(b)-1)*8; i++ {
		dst = append(dst, '0'+b[1+i/8]>>(7-i%8)&1)
	}
	return dst
}

func listText(t *duck.Type, style Style) Encoder {
	child := &t.Children[0]
	element := Text(child, style)
	nested := child.ID == bindings.TypeList || child.ID == bindings.TypeArray
	var scratch []byte
	return func(dst []byte, v *duck.Vector, row int) []byte {
		from, to := v.Entries(row)
		elements := &v.Children[0]
		dst = append(dst, '{')
		for i := from; i < to; i++ {
			if i > from {
				dst = append(dst, ',')
			}
			switch {
			case elements.Null(i):
				dst = append(dst, "NULL"...)
			case nested:
				dst = element(dst, elements, i)
			default:
				scratch = element(scratch[:0], elements, i)
				dst = pgtext.AppendArrayElement(dst, scratch)
			}
		}
		return append(dst, '}')
	}
}

func structText(t *duck.Type, style Style) Encoder {
	fields := make([]Encoder, len(t.Children))
	for i := range t.Children {
		fields[i] = Text(&t.Children[i], style)
	}
	var scratch []byte
	return func(dst []byte, v *duck.Vector, row int) []byte {
		dst = append(dst, '(')
		for i, field := range fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			if c := &v.Children[i]; !c.Null(row) {
				scratch = field(scratch[:0], c, row)
				dst = pgtext.AppendRecordField(dst, scratch)
			}
		}
		return append(dst, ')')
	}
}

// mapText writes a map as an hstore.
func mapText(t *duck.Type, style Style) Encoder {
	key, value := Text(&t.Children[0], style), Text(&t.Children[1], style)
	var scratch []byte
	return func(dst []byte, v *duck.Vector, row int) []byte {
		from, to := v.Entries(row)
		for i := from; i < to; i++ {
			if i > from {
				dst = append(dst, ", "...)
			}
			scratch = key(scratch[:0], &v.Children[0], i)
			dst = append(pgtext.AppendHstoreText(dst, scratch), "=>"...)
			if v.Children[1].Null(i) {
				dst = append(dst, "NULL"...)
				continue
			}
			scratch = value(scratch[:0], &v.Children[1], i)
			dst = pgtext.AppendHstoreText(dst, scratch)
		}
		return dst
	}
}
