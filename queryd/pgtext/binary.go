package pgtext

import (
	"encoding/binary"
	"math"
	"math/big"
	"strings"
)

// Postgres counts dates and times from 2000-01-01.
const (
	epochDays   = 10_957
	epochMicros = int64(epochDays) * microsPerDay
)

// BinaryDate turns days since 1970 into the binary format's number.
func BinaryDate(days int32) int32 {
	switch days {
	case DateInfinity:
		return math.MaxInt32
	case DateNegInfinity:
		return math.MinInt32
	}
	return days - epochDays
}

// BinaryTimestamp turns microseconds since 1970 into the binary format's number.
func BinaryTimestamp(micros int64) int64 {
	switch micros {
	case TimestampInfinity:
		return math.MaxInt64
	case TimestampNegInfinity:
		return math.MinInt64
	}
	return micros - epochMicros
}

// AppendBinaryInterval writes an interval's 16 bytes.
func AppendBinaryInterval(dst []byte, months, days int32, micros int64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(micros))
	dst = binary.BigEndian.AppendUint32(dst, uint32(days))
	return binary.BigEndian.AppendUint32(dst, uint32(months))
}

// AppendBinaryNumeric writes n * 10^-scale in numeric's binary format: digits to the base 10,000.
func AppendBinaryNumeric(dst []byte, n *big.Int, scale int) []byte {
	text := new(big.Int).Abs(n).String()
	// Pad so that the point falls between two groups of four digits.
	for len(text) <= scale {
		text = "0" + text
	}
	whole, fraction := text[:len(text)-scale], text[len(text)-scale:]
	for len(whole)%4 != 0 {
		whole = "0" + whole
	}
	for len(fraction)%4 != 0 {
		fraction += "0"
	}
	digits := make([]uint16, 0, (len(whole)+len(fraction))/4)
	for _, part := range []string{whole, fraction} {
		for i := 0; i < len(part); i += 4 {
			digits = append(digits, uint16(part[i]-'0')*1000+uint16(part[i+1]-'0')*100+uint16(part[i+2]-'0')*10+uint16(part[i+3]-'0'))
		}
	}
	weight := len(whole)/4 - 1
	for len(digits) > 0 && digits[0] == 0 {
		digits = digits[1:]
		weight--
	}
	for len(digits) > 0 && digits[len(digits)-1] == 0 {
		digits = digits[:len(digits)-1]
	}
	var sign uint16
	if n.Sign() < 0 {
		sign = 0x4000
	}
	if len(digits) == 0 {
		weight = 0
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(digits)))
	dst = binary.BigEndian.AppendUint16(dst, uint16(int16(weight)))
	dst = binary.BigEndian.AppendUint16(dst, sign)
	dst = binary.BigEndian.AppendUint16(dst, uint16(scale))
	for _, d := range digits {
		dst = binary.BigEndian.AppendUint16(dst, d)
	}
	return dst
}

// TrimZeros takes the zeros at the end of the fraction of n * 10^-scale away.
func TrimZeros(n *big.Int, scale int) (*big.Int, int) {
	text := n.String()
	drop := min(scale, len(text)-len(strings.TrimRight(text, "0")))
	if n.Sign() == 0 {
		drop = scale
	}
	if drop == 0 {
		return n, scale
	}
	return new(big.Int).Quo(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(drop)), nil)), scale - drop
}
