package pgtext

import "strconv"

// IntervalStyle is the session's IntervalStyle.
type IntervalStyle uint8

// The styles that can be set.
const (
	IntervalPostgres IntervalStyle = iota
	IntervalISO
)

// AppendInterval writes an interval of months, days and microseconds, which Postgres keeps apart.
func AppendInterval(dst []byte, months, days int32, micros int64, style IntervalStyle) []byte {
	if style == IntervalISO {
		return appendISOInterval(dst, months, days, micros)
	}
	zero, before := true, false
	part := func(n int32, unit string) {
		if n == 0 {
			return
		}
		if !zero {
			dst = append(dst, ' ')
		}
		if before && n > 0 {
			dst = append(dst, '+')
		}
		dst = strconv.AppendInt(dst, int64(n), 10)
		dst = append(dst, ' ')
		dst = append(dst, unit...)
		if n != 1 {
			dst = append(dst, 's')
		}
		before, zero = n < 0, false
	}
	part(months/12, "year")
	part(months%12, "mon")
	part(days, "day")
	if !zero && micros == 0 {
		return dst
	}
	if !zero {
		dst = append(dst, ' ')
	}
	if micros < 0 {
		dst = append(dst, '-')
	} else if before {
		dst = append(dst, '+')
	}
	seconds, fraction := magnitude(micros)
	if seconds/3600 < 10 {
		dst = append(dst, '0')
	}
	dst = strconv.AppendUint(dst, seconds/3600, 10)
	dst = append(dst, ':')
	dst = appendTwo(dst, int(seconds/60%60))
	dst = append(dst, ':')
	dst = appendTwo(dst, int(seconds%60))
	return appendFraction(dst, fraction)
}

func magnitude(micros int64) (seconds uint64, fraction int64) {
	m := uint64(micros)
	if micros < 0 {
		m = -m
	}
	return m / microsPerSecond, int64(m % microsPerSecond)
}

func appendISOInterval(dst []byte, months, days int32, micros int64) []byte {
	if months == 0 && days == 0 && micros == 0 {
		return append(dst, "PT0S"...)
	}
	part := func(n int64, unit byte) {
		if n != 0 {
			dst = append(strconv.AppendInt(dst, n, 10), unit)
		}
	}
	dst = append(dst, 'P')
	part(int64(months/12), 'Y')
	part(int64(months%12), 'M')
	part(int64(days), 'D')
	if micros == 0 {
		return dst
	}
	dst = append(dst, 'T')
	part(micros/(3600*microsPerSecond), 'H')
	part(micros/(60*microsPerSecond)%60, 'M')
	if rest := micros % (60 * microsPerSecond); rest != 0 {
		if rest < 0 {
			dst = append(dst, '-')
		}
		seconds, fraction := magnitude(rest)
		dst = strconv.AppendUint(dst, seconds, 10)
		dst = append(appendFraction(dst, fraction), 'S')
	}
	return dst
}
