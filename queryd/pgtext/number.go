package pgtext

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// AppendFloat8 writes the shortest decimal that reads back as the same double, as Postgres lays it out.
func AppendFloat8(dst []byte, f float64) []byte { return appendFloat(dst, f, 64, 15) }

// AppendFloat4 does the same for single precision.
func AppendFloat4(dst []byte, f float32) []byte { return appendFloat(dst, float64(f), 32, 6) }

// appendFloat uses the exponent form from 10^plain on and below 10^-4.
func appendFloat(dst []byte, f float64, size, plain int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	case f == 0:
		if math.Signbit(f) {
			dst = append(dst, '-')
		}
		return append(dst, '0')
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'e', -1, size)
	exponent := 0
	for i := len(dst) - 1; i > start; i-- {
		if dst[i] == 'e' {
			exponent, _ = strconv.Atoi(string(dst[i+1:]))
			break
		}
	}
	if exponent >= -4 && exponent < plain {
		return strconv.AppendFloat(dst[:start], f, 'f', -1, size)
	}
	// Postgres' algorithm does not accept a decimal that lies exactly between two floats, though it would be rounded to
	// this one; Go's does. Only whole numbers beyond the mantissa's precision can have one.
	for precision := len(dst) - start - len("d.e+dd"); halfway(dst[start:], f, size); precision++ {
		dst = strconv.AppendFloat(dst[:start], f, 'e', max(precision, 1), size)
	}
	return dst
}

// halfway tells whether the decimal is the exact middle between f and a neighbour.
func halfway(decimal []byte, f float64, size int) bool {
	mantissa := 53
	if size == 32 {
		mantissa = 24
	}
	if math.Abs(f) < math.Ldexp(1, mantissa) {
		return false
	}
	d, _, err := big.ParseFloat(string(decimal), 10, 2000, big.ToNearestEven)
	if err != nil {
		return false
	}
	gap := new(big.Float).Sub(d, big.NewFloat(f))
	_, exponent := math.Frexp(f)
	half := new(big.Float).SetMantExp(big.NewFloat(1), exponent-mantissa-1)
	return gap.Abs(gap).Cmp(half) == 0 ||
		// Below a power of two the neighbour is half as far.
		gap.Cmp(new(big.Float).SetMantExp(half, -1)) == 0 && isPowerOfTwo(f) && d.Cmp(big.NewFloat(math.Abs(f))) < 0
}

func isPowerOfTwo(f float64) bool {
	m, _ := math.Frexp(math.Abs(f))
	return m == 0.5
}

// Int128 is a two's complement integer of 128 bits, laid out as DuckDB's HUGEINT.
type Int128 struct {
	Low  uint64
	High int64
}

// abs gives the magnitude.
func (n Int128) abs() (high, low uint64, negative bool) {
	if n.High >= 0 {
		return uint64(n.High), n.Low, false
	}
	low, borrow := bits.Sub64(0, n.Low, 0)
	high, _ = bits.Sub64(0, uint64(n.High), borrow)
	return high, low, true
}

const ten19 = 10_000_000_000_000_000_000

// appendDigits writes a magnitude of 128 bits.
func appendDigits(dst []byte, high, low uint64) []byte {
	if high == 0 {
		return strconv.AppendUint(dst, low, 10)
	}
	// Two divisions by 10^19 leave at most one digit pair above.
	q1, r := bits.Div64(high%ten19, low, ten19)
	q0 := high / ten19
	if q0 > 0 || q1 >= ten19 {
		top, rest := bits.Div64(q0, q1, ten19)
		dst = strconv.AppendUint(dst, top, 10)
		dst = appendPadded(dst, rest)
	} else {
		dst = strconv.AppendUint(dst, q1, 10)
	}
	return appendPadded(dst, r)
}

func appendPadded(dst []byte, n uint64) []byte {
	for limit := uint64(ten19 / 10); limit > 1 && n < limit; limit /= 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendUint(dst, n, 10)
}

// AppendDecimal writes n * 10^-scale with exactly scale digits after the point.
func AppendDecimal(dst []byte, n Int128, scale int) []byte {
	high, low, negative := n.abs()
	if negative {
		dst = append(dst, '-')
	}
	return appendScaled(dst, high, low, scale)
}

// AppendUnsigned writes an unsigned integer of 128 bits.
func AppendUnsigned(dst []byte, high, low uint64) []byte { return appendDigits(dst, high, low) }

func appendScaled(dst []byte, high, low uint64, scale int) []byte {
	start := len(dst)
	dst = appendDigits(dst, high, low)
	if scale <= 0 {
		return dst
	}
	if missing := scale + 1 - (len(dst) - start); missing > 0 {
		for range missing {
			dst = append(dst, '0')
		}
		copy(dst[start+missing:], dst[start:len(dst)-missing])
		for i := range missing {
			dst[start+i] = '0'
		}
	}
	dst = append(dst, 0)
	point := len(dst) - 1 - scale
	copy(dst[point+1:], dst[point:len(dst)-1])
	dst[point] = '.'
	return dst
}

// Big gives the number as a big.Int.
func (n Int128) Big() *big.Int {
	high, low, negative := n.abs()
	b := new(big.Int).SetUint64(high)
	b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(low))
	if negative {
		b.Neg(b)
	}
	return b
}
