package message

import "encoding/binary"

// AppendTuple appends TupleData of the given values to dst.
func AppendTuple(dst []byte, values []Value) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(values)))
	for _, v := range values {
		dst = append(dst, v.Kind)
		if v.Kind == 't' || v.Kind == 'b' {
			dst = binary.BigEndian.AppendUint32(dst, uint32(len(v.Data)))
			dst = append(dst, v.Data...)
		}
	}
	return dst
}
