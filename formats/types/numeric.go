package types

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// Signs in the binary form of numeric.
const (
	numericPositive = 0x0000
	numericNegative = 0x4000
	numericNaN      = 0xC000
	numericPlusInf  = 0xD000
	numericMinusInf = 0xF000
)

var powers = [20]uint64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
}

// magnitude builds the unscaled absolute value of a decimal, up to 128 bits.
type magnitude struct {
	hi, lo   uint64
	overflow bool
}

// push multiplies by 10^digits and adds n, which is less than that; digits is at most 19.
func (m *magnitude) push(digits int, n uint64) {
	factor := powers[digits]
	if m.hi == 0 {
		hi, lo := bits.Mul64(m.lo, factor)
		lo, carry := bits.Add64(lo, n, 0)
		m.hi, m.lo = hi+carry, lo // hi < 2^64-1, for it is the high half of a product
		return
	}
	over, high := bits.Mul64(m.hi, factor)
	carryHigh, lo := bits.Mul64(m.lo, factor)
	lo, carry := bits.Add64(lo, n, 0)
	high, carry = bits.Add64(high, carryHigh, carry)
	m.hi, m.lo = high, lo
	m.overflow = m.overflow || over != 0 || carry != 0
}

// pad multiplies by 10^digits.
func (m *magnitude) pad(digits int) {
	for ; digits > 0 && !m.overflow && m.hi|m.lo != 0; digits -= 19 {
		m.push(min(digits, 19), 0)
	}
}

// powerOfTen gives 10^n, n <= 38.
func powerOfTen(n int) (hi, lo uint64) {
	if n <= 19 {
		return 0, powers[n]
	}
	return bits.Mul64(powers[19], powers[n-19])
}

// finish rounds half-even and stores the signed value in v, or NULL where it is too large. half compares what was cut
// off with half of the last place: -1, 0, 1; exact tells that nothing was.
func (d *node) finish(v *cell, m *magnitude, negative, exact bool, half int, s *scratch) {
	if !exact {
		if half > 0 || half == 0 && m.lo&1 == 1 {
			var carry uint64
			m.lo, carry = bits.Add64(m.lo, 1, 0)
			m.hi += carry // a value near 2^128 is too large in any case, and checked below by overflow or by size
			m.overflow = m.overflow || carry == 1 && m.hi == 0
		}
	}
	hi, lo := powerOfTen(d.lake.Precision)
	if m.overflow || m.hi > hi || m.hi == hi && m.lo >= lo {
		s.mark(tooLarge)
		v.null = true
		return
	}
	if !exact {
		s.mark(tooPrecise)
	}
	v.hi, v.lo = m.hi, m.lo
	if negative {
		var borrow uint64
		v.lo, borrow = bits.Sub64(0, v.lo, 0)
		v.hi, _ = bits.Sub64(0, v.hi, borrow)
	}
}

// special stores NULL for the values of numeric that no decimal holds.
func special(v *cell, why reason, s *scratch) {
	s.mark(why)
	v.null = true
}

// decimalText decodes numeric's text form, [-]digits[.digits], NaN or [-]Infinity.
func (d *node) decimalText(v *cell, src []byte, s *scratch) error {
	switch string(src) {
	case "NaN":
		special(v, notANumber, s)
		return nil
	case "Infinity", "-Infinity":
		special(v, infinite, s)
		return nil
	}
	negative := len(src) > 0 && src[0] == '-'
	if negative {
		src = src[1:]
	}
	var m magnitude
	whole := 0
	for whole < len(src) && src[whole] != '.' {
		whole++
	}
	fraction := src[whole:]
	src = src[:whole]
	if len(fraction) > 0 {
		fraction = fraction[1:]
	}
	if len(src)+len(fraction) == 0 {
		return errMalformed
	}
	kept := min(len(fraction), d.lake.Scale)
	if !m.digits(src) || !m.digits(fraction[:kept]) {
		return errMalformed
	}
	m.pad(d.lake.Scale - kept)
	cut := fraction[kept:]
	exact, half := true, -1
	for i, c := range cut {
		if c < '0' || c > '9' {
			return errMalformed
		}
		if c != '0' {
			exact = false
		}
		switch {
		case i == 0 && c > '5':
			half = 1
		case i == 0 && c == '5':
			half = 0
		case half == 0 && c != '0':
			half = 1
		}
	}
	d.finish(v, &m, negative, exact, half, s)
	return nil
}

// digits pushes decimal digits; it reports false when there is anything else.
func (m *magnitude) digits(src []byte) bool {
	for len(src) > 0 {
		var n uint64
		run := src[:min(len(src), 19)]
		for _, c := range run {
			c -= '0'
			if c > 9 {
				return false
			}
			n = n*10 + uint64(c)
		}
		if !m.overflow {
			m.push(len(run), n)
		}
		src = src[len(run):]
	}
	return true
}

// numericHeader is the fixed part of numeric's binary form: base-10000 digits follow, the first worth 10000^weight.
type numericHeader struct {
	digits []byte // two bytes each
	weight int
	sign   uint16
	scale  int // digits shown after the decimal point
}

func parseNumeric(src []byte) (h numericHeader, err error) {
	if len(src) < 8 {
		return h, errMalformed
	}
	count := int(binary.BigEndian.Uint16(src))
	h.weight = int(int16(binary.BigEndian.Uint16(src[2:])))
	h.sign = binary.BigEndian.Uint16(src[4:])
	h.scale = int(binary.BigEndian.Uint16(src[6:]))
	h.digits = src[8:]
	if len(h.digits) != 2*count || h.scale > 0x3fff {
		return h, errMalformed
	}
	for i := range count {
		if h.digit(i) > 9999 {
			return h, errMalformed
		}
	}
	switch h.sign {
	case numericPositive, numericNegative, numericNaN, numericPlusInf, numericMinusInf:
		return h, nil
	}
	return h, errMalformed
}

func (h *numericHeader) count() int { return len(h.digits) / 2 }

// digit gives the base-10000 digit at i; those outside are zero.
func (h *numericHeader) digit(i int) uint64 {
	if i < 0 || i >= h.count() {
		return 0
	}
	return uint64(binary.BigEndian.Uint16(h.digits[2*i:]))
}

// decimalBinary decodes numeric's binary form.
func (d *node) decimalBinary(v *cell, src []byte, s *scratch) error {
	h, err := parseNumeric(src)
	if err != nil {
		return err
	}
	switch h.sign {
	case numericNaN:
		special(v, notANumber, s)
		return nil
	case numericPlusInf, numericMinusInf:
		special(v, infinite, s)
		return nil
	}
	var m magnitude
	for i := range h.weight + 1 {
		m.push(4, h.digit(i))
		if m.overflow || i >= h.count() && m.hi|m.lo == 0 {
			break
		}
	}
	// The digits after the point: whole groups first, then a part of one, then what is cut off.
	next := h.weight + 1
	scale := d.lake.Scale
	for ; scale >= 4 && !m.overflow; scale -= 4 {
		m.push(4, h.digit(next))
		next++
	}
	exact, half := true, -1
	if !m.overflow {
		unit := powers[4-scale]
		group := h.digit(next)
		if scale > 0 {
			m.push(scale, group/unit)
		}
		rest := group % unit
		sticky := false
		for i := max(next+1, 0); i < h.count(); i++ {
			sticky = sticky || h.digit(i) != 0
		}
		exact = rest == 0 && !sticky
		switch {
		case 2*rest > unit, 2*rest == unit && sticky:
			half = 1
		case 2*rest == unit:
			half = 0
		}
	}
	d.finish(v, &m, h.sign == numericNegative, exact, half, s)
	return nil
}

// renderNumeric appends the text form of a binary numeric, as numeric_out prints it.
func renderNumeric(dst, src []byte) ([]byte, error) {
	h, err := parseNumeric(src)
	if err != nil {
		return dst, err
	}
	switch h.sign {
	case numericNaN:
		return append(dst, "NaN"...), nil
	case numericPlusInf:
		return append(dst, "Infinity"...), nil
	case numericMinusInf:
		return append(dst, "-Infinity"...), nil
	case numericNegative:
		dst = append(dst, '-')
	}
	if h.weight < 0 {
		dst = append(dst, '0')
	} else {
		dst = strconv.AppendUint(dst, h.digit(0), 10)
		for i := 1; i <= h.weight; i++ {
			dst = appendFour(dst, h.digit(i))
		}
	}
	if h.scale == 0 {
		return dst, nil
	}
	dst = append(dst, '.')
	from := len(dst)
	for i := h.weight + 1; len(dst)-from < h.scale; i++ {
		dst = appendFour(dst, h.digit(i))
	}
	return dst[:from+h.scale], nil
}

func appendFour(dst []byte, n uint64) []byte {
	return append(dst, byte('0'+n/1000), byte('0'+n/100%10), byte('0'+n/10%10), byte('0'+n%10))
}
