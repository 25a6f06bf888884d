package values

import (
	"encoding/binary"
	"math/big"

	bindings "github.com/duckdb/duckdb-go-bindings"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/queryd/pgtext"
)

// BinaryAs is TextAs for the binary format.
func BinaryAs(t *duck.Type, as Type, style Style) Encoder {
	if as.OID == OIDJSONB {
		return func(dst []byte, v *duck.Vector, row int) []byte { return append(append(dst, 1), v.Bytes(row)...) }
	}
	if as.OID == OIDBpchar {
		return TextAs(t, as, style)
	}
	if t.ID == bindings.TypeDecimal && as.Typmod < 0 {
		read, scale := decimal(t), t.Scale
		return func(dst []byte, v *duck.Vector, row int) []byte {
			n, digits := pgtext.TrimZeros(read(v, row).Big(), scale)
			return pgtext.AppendBinaryNumeric(dst, n, digits)
		}
	}
	return Binary(t, style)
}

// Binary gives the encoder of a type's binary format.
func Binary(t *duck.Type, style Style) Encoder {
	be := binary.BigEndian
	switch Of(t).OID {
	case OIDBool:
		return func(dst []byte, v *duck.Vector, row int) []byte { return append(dst, duck.At[byte](v, row)) }
	case OIDInt2, OIDInt4, OIDInt8, OIDOid, OIDRegclass, OIDRegtype:
		return binaryInteger(t)
	case OIDFloat4:
		return func(dst []byte, v *duck.Vector, row int) []byte { return be.AppendUint32(dst, duck.At[uint32](v, row)) }
	case OIDFloat8:
		return func(dst []byte, v *duck.Vector, row int) []byte { return be.AppendUint64(dst, duck.At[uint64](v, row)) }
	case OIDBytea:
		return func(dst []byte, v *duck.Vector, row int) []byte { return append(dst, v.Bytes(row)...) }
	case OIDUUID:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			b := pgtext.UUIDBytes(duck.At[pgtext.Int128](v, row))
			return append(dst, b[:]...)
		}
	case OIDNumeric:
		return binaryNumeric(t)
	case OIDVarbit:
		return func(dst []byte, v *duck.Vector, row int) []byte { return appendBinaryBits(dst, v.Bytes(row)) }
	case OIDRecord:
		return binaryRecord(t, style)
	}
	switch t.ID {
	case bindings.TypeList, bindings.TypeArray:
		return binaryArray(t, style)
	}
	if e := binaryTime(t.ID); e != nil {
		return e
	}
	return Text(t, style)
}

func binaryInteger(t *duck.Type) Encoder {
	be := binary.BigEndian
	switch t.ID {
	case bindings.TypeTinyInt:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return be.AppendUint16(dst, uint16(duck.At[int8](v, row)))
		}
	case bindings.TypeUTinyInt:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return be.AppendUint16(dst, uint16(duck.At[uint8](v, row)))
		}
	case bindings.TypeSmallInt:
		return func(dst []byte, v *duck.Vector, row int) []byte { return be.AppendUint16(dst, duck.At[uint16](v, row)) }
	case bindings.TypeUSmallInt:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return be.AppendUint32(dst, uint32(duck.At[uint16](v, row)))
		}
	case bindings.TypeBigInt:
		return func(dst []byte, v *duck.Vector, row int) []byte { return be.AppendUint64(dst, duck.At[uint64](v, row)) }
	}
	return func(dst []byte, v *duck.Vector, row int) []byte { return be.AppendUint32(dst, duck.At[uint32](v, row)) }
}

func binaryNumeric(t *duck.Type) Encoder {
	switch t.ID {
	case bindings.TypeUBigInt:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return pgtext.AppendBinaryNumeric(dst, new(big.Int).SetUint64(duck.At[uint64](v, row)), 0)
		}
	case bindings.TypeUHugeInt:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			n := duck.At[pgtext.Int128](v, row)
			b := new(big.Int).SetUint64(uint64(n.High))
			b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(n.Low))
			return pgtext.AppendBinaryNumeric(dst, b, 0)
		}
	case bindings.TypeHugeInt:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return pgtext.AppendBinaryNumeric(dst, duck.At[pgtext.Int128](v, row).Big(), 0)
		}
	}
	read, scale := decimal(t), t.Scale
	return func(dst []byte, v *duck.Vector, row int) []byte {
		return pgtext.AppendBinaryNumeric(dst, read(v, row).Big(), scale)
	}
}

func binaryTime(id duck.TypeID) Encoder {
	be := binary.BigEndian
	read := micros(id)
	switch id {
	case bindings.TypeDate:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return be.AppendUint32(dst, uint32(pgtext.BinaryDate(duck.At[int32](v, row))))
		}
	case bindings.TypeTime, bindings.TypeTimeNS:
		return func(dst []byte, v *duck.Vector, row int) []byte { return be.AppendUint64(dst, uint64(read(v, row))) }
	case bindings.TypeTimeTZ:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			m, offset := timeTZ(duck.At[uint64](v, row))
			return be.AppendUint32(be.AppendUint64(dst, uint64(m)), uint32(-offset))
		}
	case bindings.TypeTimestamp, bindings.TypeTimestampS, bindings.TypeTimestampMS, bindings.TypeTimestampNS, bindings.TypeTimestampTZ:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			return be.AppendUint64(dst, uint64(pgtext.BinaryTimestamp(read(v, row))))
		}
	case bindings.TypeInterval:
		return func(dst []byte, v *duck.Vector, row int) []byte {
			i := duck.At[interval](v, row)
			return pgtext.AppendBinaryInterval(dst, i.months, i.days, i.micros)
		}
	}
	return nil
}

func appendBinaryBits(dst, b []byte) []byte {
	if len(b) == 0 {
		return binary.BigEndian.AppendUint32(dst, 0)
	}
	n := (len(b)-1)*8 - int(b[0])
	dst = binary.BigEndian.AppendUint32(dst, uint32(n))
	out := make([]byte, (n+7)/8)
	for i := range n {
		from := int(b[0]) + i
		out[i/8] |= b[1+from/8] >> (7 - from%8) & 1 << (7 - i%8)
	}
	return append(dst, out...)
}

func binaryRecord(t *duck.Type, style Style) Encoder {
	be := binary.BigEndian
	fields, oids := make([]Encoder, len(t.Children)), make([]uint32, len(t.Children))
	for i := range t.Children {
		fields[i], oids[i] = Binary(&t.Children[i], style), Of(&t.Children[i]).OID
	}
	return func(dst []byte, v *duck.Vector, row int) []byte {
		dst = be.AppendUint32(dst, uint32(len(fields)))
		for i, field := range fields {
			dst = be.AppendUint32(dst, oids[i])
			dst = AppendSized(dst, &v.Children[i], row, field)
		}
		return dst
	}
}

// binaryArray writes an array of one or more dimensions. A list of lists of different lengths is no array in Postgres;
// its inner lists are then shown as the longest rectangle cannot be, so the shape of the first ones is told and a
// client that counts will complain rather than read wrong values.
func binaryArray(t *duck.Type, style Style) Encoder {
	be := binary.BigEndian
	leaf, depth := t, 0
	for leaf.ID == bindings.TypeList || leaf.ID == bindings.TypeArray {
		leaf = &leaf.Children[0]
		depth++
	}
	element, oid := Binary(leaf, style), Of(leaf).OID
	null := false
	var walk func(dst []byte, v *duck.Vector, row, level int) []byte
	walk = func(dst []byte, v *duck.Vector, row, level int) []byte {
		from, to := v.Entries(row)
		for i := from; i < to; i++ {
			if level+1 < depth {
				dst = walk(dst, &v.Children[0], i, level+1)
			} else {
				null = null || v.Children[0].Null(i)
				dst = AppendSized(dst, &v.Children[0], i, element)
			}
		}
		return dst
	}
	return func(dst []byte, v *duck.Vector, row int) []byte {
		var dimensions []int
		inner, at := v, row
		for range depth {
			from, to := inner.Entries(at)
			dimensions = append(dimensions, to-from)
			if to == from {
				dimensions = nil
				break
			}
			inner, at = &inner.Children[0], from
		}
		dst = be.AppendUint32(dst, uint32(len(dimensions)))
		flags := len(dst)
		dst = be.AppendUint32(dst, 0)
		dst = be.AppendUint32(dst, oid)
		for _, n := range dimensions {
			dst = be.AppendUint32(dst, uint32(n))
			dst = be.AppendUint32(dst, 1)
		}
		if dimensions == nil {
			return dst
		}
		null = false
		dst = walk(dst, v, row, 0)
		if null {
			dst[flags+3] = 1
		}
		return dst
	}
}
