package types

import (
	"encoding/binary"
	"math"
	"strconv"
)

// The renderers append the text that Postgres itself prints for a binary value.

func renderChar(dst, src []byte) ([]byte, error) {
	if len(src) != 1 {
		return dst, errMalformed
	}
	switch c := src[0]; {
	case c == 0:
		return dst, nil
	case c < 0x80:
		return append(dst, c), nil
	default:
		return append(dst, '\\', '0'+c>>6, '0'+c>>3&7, '0'+c&7), nil
	}
}

// renderInterval prints IntervalStyle iso_8601.
func renderInterval(dst, src []byte) ([]byte, error) {
	if len(src) != 16 {
		return dst, errMalformed
	}
	us := int64(binary.BigEndian.Uint64(src))
	days := int64(int32(binary.BigEndian.Uint32(src[8:])))
	months := int64(int32(binary.BigEndian.Uint32(src[12:])))
	switch { // from Postgres 17 on
	case us == math.MaxInt64 && days == math.MaxInt32 && months == math.MaxInt32:
		return append(dst, "infinity"...), nil
	case us == math.MinInt64 && days == math.MinInt32 && months == math.MinInt32:
		return append(dst, "-infinity"...), nil
	}
	if us == 0 && days == 0 && months == 0 {
		return append(dst, "PT0S"...), nil
	}
	dst = append(dst, 'P')
	dst = appendPart(dst, months/12, 'Y')
	dst = appendPart(dst, months%12, 'M')
	dst = appendPart(dst, days, 'D')
	if us == 0 {
		return dst, nil
	}
	dst = append(dst, 'T')
	dst = appendPart(dst, us/(3600*second), 'H')
	dst = appendPart(dst, us/(60*second)%60, 'M')
	us %= 60 * second
	if us == 0 {
		return dst, nil
	}
	if us < 0 {
		dst = append(dst, '-')
		us = -us
	}
	dst = strconv.AppendInt(dst, us/second, 10)
	dst = appendFraction(dst, us%second)
	return append(dst, 'S'), nil
}

func appendPart(dst []byte, n int64, unit byte) []byte {
	if n == 0 {
		return dst
	}
	return append(strconv.AppendInt(dst, n, 10), unit)
}

// appendFraction appends microseconds as .ffffff without zeros at the end.
func appendFraction(dst []byte, us int64) []byte {
	if us == 0 {
		return dst
	}
	dst = append(dst, '.')
	for unit := second / 10; us > 0; unit /= 10 {
		dst = append(dst, byte('0'+us/unit))
		us %= unit
	}
	return dst
}

func appendTwo(dst []byte, n int64) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }

func renderTimeTZ(dst, src []byte) ([]byte, error) {
	if len(src) != 12 {
		return dst, errMalformed
	}
	us := int64(binary.BigEndian.Uint64(src))
	west := int64(int32(binary.BigEndian.Uint32(src[8:])))
	if us < 0 || us > day || west <= -86400 || west >= 86400 {
		return dst, errMalformed
	}
	dst = appendTwo(dst, us/(3600*second))
	dst = appendTwo(append(dst, ':'), us/(60*second)%60)
	dst = appendTwo(append(dst, ':'), us/second%60)
	dst = appendFraction(dst, us%second)
	if west > 0 {
		dst = append(dst, '-')
	} else {
		dst, west = append(dst, '+'), -west
	}
	dst = appendTwo(dst, west/3600)
	if west%3600 != 0 {
		dst = appendTwo(append(dst, ':'), west/60%60)
	}
	if west%60 != 0 {
		dst = appendTwo(append(dst, ':'), west%60)
	}
	return dst, nil
}

func renderBits(dst, src []byte) ([]byte, error) {
	if len(src) < 4 {
		return dst, errMalformed
	}
	n := int64(int32(binary.BigEndian.Uint32(src)))
	src = src[4:]
	if n < 0 || int64(len(src)) != (n+7)/8 {
		return dst, errMalformed
	}
	for i := range n {
		dst = append(dst, '0'+src[i/8]>>(7-i%8)&1)
	}
	return dst, nil
}

func renderMacaddr(dst, src []byte) ([]byte, error) {
	if len(src) != 6 && len(src) != 8 {
		return dst, errMalformed
	}
	const digits = "0123456789abcdef"
	for i, c := range src {
		if i > 0 {
			dst = append(dst, ':')
		}
		dst = append(dst, digits[c>>4], digits[c&15])
	}
	return dst, nil
}

// renderInet prints inet and cidr: family (2 IPv4, 3 IPv6), bits of the netmask, whether it is a cidr, length, address.
func renderInet(dst, src []byte, cidr bool) ([]byte, error) {
	if len(src) < 4 || len(src) != 4+int(src[3]) {
		return dst, errMalformed
	}
	mask, address := src[1], src[4:]
	switch {
	case src[0] == 2 && len(address) == 4 && mask <= 32:
		dst = appendIPv4(dst, address)
	case src[0] == 3 && len(address) == 16 && mask <= 128:
		dst = appendIPv6(dst, address)
	default:
		return dst, errMalformed
	}
	if cidr || int(mask) != 8*len(address) {
		dst = strconv.AppendUint(append(dst, '/'), uint64(mask), 10)
	}
	return dst, nil
}

func appendIPv4(dst, a []byte) []byte {
	for i, c := range a {
		if i > 0 {
			dst = append(dst, '.')
		}
		dst = strconv.AppendUint(dst, uint64(c), 10)
	}
	return dst
}

// appendIPv6 shortens the first of the longest runs of at least two zero words, and writes addresses that embed an IPv4
// address with its dots, as Postgres does.
func appendIPv6(dst, a []byte) []byte {
	var words [8]uint16
	for i := range words {
		words[i] = binary.BigEndian.Uint16(a[2*i:])
	}
	base, length := -1, 1
	for i := 0; i < 8; i++ {
		j := i
		for j < 8 && words[j] == 0 {
			j++
		}
		if j-i > length {
			base, length = i, j-i
		}
		i = max(i, j-1)
	}
	if base < 0 {
		length = 0
	}
	for i := 0; i < 8; i++ {
		if base >= 0 && i >= base && i < base+length {
			if i == base {
				dst = append(dst, ':')
			}
			continue
		}
		if i > 0 {
			dst = append(dst, ':')
		}
		if i == 6 && base == 0 && (length == 6 || length == 7 && words[7] != 1 || length == 5 && words[5] == 0xffff) {
			return appendIPv4(dst, a[12:])
		}
		dst = strconv.AppendUint(dst, uint64(words[i]), 16)
	}
	if base >= 0 && base+length == 8 {
		dst = append(dst, ':')
	}
	return dst
}
