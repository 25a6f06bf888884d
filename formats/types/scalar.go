package types

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// scalar decodes a value of a type without children into v. s takes bytes that have to be made, and the reason when the
// value was bent.
func (d *node) scalar(v *cell, bin bool, src []byte, s *scratch) error {
	if bin {
		return d.scalarBinary(v, src, s)
	}
	return d.scalarText(v, src, s)
}

func (d *node) scalarText(v *cell, src []byte, s *scratch) error {
	switch d.lake.Kind {
	case Boolean:
		switch {
		case len(src) == 1 && src[0] == 't', string(src) == "true":
			v.lo = 1
		case len(src) == 1 && src[0] == 'f', string(src) == "false":
			v.lo = 0
		default:
			return errMalformed
		}
		return nil
	case Int:
		return parseInt(v, src, math.MinInt32, math.MaxInt32)
	case Long:
		return parseInt(v, src, math.MinInt64, math.MaxInt64)
	case Float, Double:
		return d.parseFloat(v, src)
	case Decimal:
		return d.decimalText(v, src, s)
	case UUID:
		return parseUUID(v, src)
	case Binary:
		return parseBytea(v, src, s)
	case Date:
		return dateText(v, src, s)
	case Time:
		return timeText(v, src, s)
	case Timestamp, TimestampTZ:
		return timestampText(v, src, s)
	}
	setText(v, src, s)
	return nil
}

func (d *node) scalarBinary(v *cell, src []byte, s *scratch) error {
	switch d.lake.Kind {
	case String, JSON, Interval:
		return d.textFromBinary(v, src, s)
	}
	switch d.form {
	case formBool:
		if len(src) != 1 || src[0] > 1 {
			return errMalformed
		}
		v.lo = uint64(src[0])
	case formInt2:
		if len(src) != 2 {
			return errMalformed
		}
		v.lo = uint64(int64(int16(binary.BigEndian.Uint16(src))))
	case formInt4:
		if len(src) != 4 {
			return errMalformed
		}
		v.lo = uint64(int64(int32(binary.BigEndian.Uint32(src))))
	case formOID:
		if len(src) != 4 {
			return errMalformed
		}
		v.lo = uint64(binary.BigEndian.Uint32(src))
	case formInt8:
		if len(src) != 8 {
			return errMalformed
		}
		v.lo = binary.BigEndian.Uint64(src)
	case formFloat4:
		if len(src) != 4 {
			return errMalformed
		}
		v.lo = floatBits(float64(math.Float32frombits(binary.BigEndian.Uint32(src))))
	case formFloat8:
		if len(src) != 8 {
			return errMalformed
		}
		v.lo = floatBits(math.Float64frombits(binary.BigEndian.Uint64(src)))
	case formNumeric:
		return d.decimalBinary(v, src, s)
	case formUUID:
		if len(src) != 16 {
			return errMalformed
		}
		v.hi, v.lo = binary.BigEndian.Uint64(src), binary.BigEndian.Uint64(src[8:])
	case formBytea:
		v.b = src
	case formDate:
		return dateBinary(v, src, s)
	case formTime:
		return timeBinary(v, src, s)
	case formTimestamp, formTimestampTZ:
		return timestampBinary(v, src, s)
	default:
		return errMalformed
	}
	return nil
}

// textFromBinary makes Postgres' text form of a binary value.
func (d *node) textFromBinary(v *cell, src []byte, s *scratch) error {
	var err error
	from := len(s.buf)
	switch d.form {
	case formText:
		setText(v, src, s)
		return nil
	case formJSONB:
		if len(src) < 1 || src[0] != 1 {
			return errMalformed
		}
		setText(v, src[1:], s)
		return nil
	case formChar:
		s.buf, err = renderChar(s.buf, src)
	case formNumeric:
		s.buf, err = renderNumeric(s.buf, src)
	case formInterval:
		s.buf, err = renderInterval(s.buf, src)
	case formTimeTZ:
		s.buf, err = renderTimeTZ(s.buf, src)
	case formBits:
		s.buf, err = renderBits(s.buf, src)
	case formMacaddr:
		s.buf, err = renderMacaddr(s.buf, src)
	case formInet:
		s.buf, err = renderInet(s.buf, src, d.cidr)
	default:
		return errMalformed
	}
	v.b = s.buf[from:len(s.buf):len(s.buf)]
	return err
}

// setText takes text as it is. Other readers refuse a file with a string that is not UTF-8 (which a SQL_ASCII database
// may send), so that is a value the lake cannot hold.
func setText(v *cell, src []byte, s *scratch) {
	if !utf8.Valid(src) {
		s.mark(notUTF8)
		v.null = true
		return
	}
	v.b = src
}

// parseInt reads a decimal integer between the bounds.
func parseInt(v *cell, src []byte, least, most int64) error {
	digits := src
	negative := len(src) > 0 && src[0] == '-'
	if negative {
		digits = src[1:]
	}
	if len(digits) == 0 || len(digits) > 19 {
		return errMalformed
	}
	var n uint64
	for _, c := range digits {
		c -= '0'
		if c > 9 {
			return errMalformed
		}
		n = n*10 + uint64(c) // at most 19 digits: no overflow of 64 bits
	}
	switch {
	case negative && n > uint64(math.MaxInt64)+1, !negative && n > uint64(math.MaxInt64):
		return errMalformed
	case negative:
		n = -n
	}
	if int64(n) < least || int64(n) > most {
		return errMalformed
	}
	v.lo = n
	return nil
}

func (d *node) parseFloat(v *cell, src []byte) error {
	bits := 64
	if d.form == formFloat4 || d.form == formVector {
		bits = 32
	}
	// ParseFloat keeps nothing of its argument (its error copies it).
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(src), len(src)), bits)
	if err != nil {
		return errMalformed
	}
	v.lo = floatBits(f)
	return nil
}

// floatBits gives a float's bits, those of every NaN the same as Postgres' own.
func floatBits(f float64) uint64 {
	if f != f {
		return 0x7ff8000000000000
	}
	return math.Float64bits(f)
}

// uuidDigits are the places of the first digit of each byte in a uuid's text.
var uuidDigits = [16]int{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34}

func parseUUID(v *cell, src []byte) error {
	if len(src) != 36 || src[8] != '-' || src[13] != '-' || src[18] != '-' || src[23] != '-' {
		return errMalformed
	}
	var u [16]byte
	for i, at := range uuidDigits {
		high, low := hexDigit(src[at]), hexDigit(src[at+1])
		if high > 15 || low > 15 {
			return errMalformed
		}
		u[i] = high<<4 | low
	}
	v.hi, v.lo = binary.BigEndian.Uint64(u[:]), binary.BigEndian.Uint64(u[8:])
	return nil
}

// hexDigit gives the value of a hexadecimal digit, 255 for anything else.
func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}

// parseBytea reads both of Postgres' text forms of bytea. The escape form doubles every backslash, so it never begins
// as the hexadecimal form does.
func parseBytea(v *cell, src []byte, s *scratch) error {
	from := len(s.buf)
	if bytes.HasPrefix(src, []byte(`\x`)) {
		var err error
		if s.buf, err = hex.AppendDecode(s.buf, src[2:]); err != nil {
			return errMalformed
		}
		v.b = s.buf[from:len(s.buf):len(s.buf)]
		return nil
	}
	for i := 0; i < len(src); {
		switch {
		case src[i] != '\\':
			s.buf = append(s.buf, src[i])
			i++
		case i+1 < len(src) && src[i+1] == '\\':
			s.buf = append(s.buf, '\\')
			i += 2
		case i+3 < len(src) && src[i+1] >= '0' && src[i+1] <= '3' && octal(src[i+2]) && octal(src[i+3]):
			s.buf = append(s.buf, (src[i+1]-'0')<<6|(src[i+2]-'0')<<3|(src[i+3]-'0'))
			i += 4
		default:
			return errMalformed
		}
	}
	v.b = s.buf[from:len(s.buf):len(s.buf)]
	return nil
}

func octal(c byte) bool { return c >= '0' && c <= '7' }
