// Package pgtext writes values as Postgres does, in its text and binary formats, from plain Go numbers and bytes.
package pgtext

import (
	"math"
	"strconv"
	"time"
)

// DuckDB's infinities: the ends of the range stand for them.
const (
	DateInfinity         = math.MaxInt32
	DateNegInfinity      = -math.MaxInt32
	TimestampInfinity    = math.MaxInt64
	TimestampNegInfinity = -math.MaxInt64
)

const (
	microsPerSecond = 1_000_000
	microsPerDay    = 86_400 * microsPerSecond
)

// civil turns days since 1970-01-01 into a date of the proleptic Gregorian calendar; year 0 is 1 BC.
func civil(days int64) (year int64, month, day int) {
	days += 719_468 // days from 0000-03-01
	era := floorDiv(days, 146_097)
	d := days - era*146_097
	y := (d - d/1_460 + d/36_524 - d/146_096) / 365
	doy := d - (365*y + y/4 - y/100)
	m := (5*doy + 2) / 153
	day = int(doy - (153*m+2)/5 + 1)
	month = int(m + 3)
	year = y + era*400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func appendTwo(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }

// appendDay writes the date without its BC, which stands at the very end.
func appendDay(dst []byte, days int64) (out []byte, bc bool) {
	year, month, day := civil(days)
	if year <= 0 {
		year, bc = 1-year, true
	}
	for limit := int64(1000); limit > 1 && year < limit; limit /= 10 {
		dst = append(dst, '0')
	}
	dst = strconv.AppendInt(dst, year, 10)
	dst = append(dst, '-')
	dst = appendTwo(dst, month)
	dst = append(dst, '-')
	return appendTwo(dst, day), bc
}

// AppendDate writes days since 1970-01-01 in ISO style.
func AppendDate(dst []byte, days int32) []byte {
	switch days {
	case DateInfinity:
		return append(dst, "infinity"...)
	case DateNegInfinity:
		return append(dst, "-infinity"...)
	}
	dst, bc := appendDay(dst, int64(days))
	if bc {
		dst = append(dst, " BC"...)
	}
	return dst
}

// AppendTime writes microseconds since midnight.
func AppendTime(dst []byte, micros int64) []byte {
	seconds := micros / microsPerSecond
	dst = appendTwo(dst, int(seconds/3600))
	dst = append(dst, ':')
	dst = appendTwo(dst, int(seconds/60%60))
	dst = append(dst, ':')
	dst = appendTwo(dst, int(seconds%60))
	return appendFraction(dst, micros%microsPerSecond)
}

// appendFraction writes a point and up to six digits, zeros at the end left out; nothing for 0.
func appendFraction(dst []byte, micros int64) []byte {
	if micros == 0 {
		return dst
	}
	dst = append(dst, '.')
	for unit := int64(100_000); micros > 0; unit /= 10 {
		dst = append(dst, byte('0'+micros/unit))
		micros %= unit
	}
	return dst
}

// AppendTimestamp writes microseconds since 1970-01-01 00:00:00 in ISO style, without a zone.
func AppendTimestamp(dst []byte, micros int64) []byte {
	switch micros {
	case TimestampInfinity:
		return append(dst, "infinity"...)
	case TimestampNegInfinity:
		return append(dst, "-infinity"...)
	}
	dst, bc := appendMoment(dst, micros)
	if bc {
		dst = append(dst, " BC"...)
	}
	return dst
}

func appendMoment(dst []byte, micros int64) ([]byte, bool) {
	days := floorDiv(micros, microsPerDay)
	dst, bc := appendDay(dst, days)
	dst = append(dst, ' ')
	return AppendTime(dst, micros-days*microsPerDay), bc
}

// AppendTimestampTZ writes microseconds since 1970-01-01 00:00:00 UTC as the zone's clock shows them, with its offset.
func AppendTimestampTZ(dst []byte, micros int64, zone *time.Location) []byte {
	switch micros {
	case TimestampInfinity:
		return append(dst, "infinity"...)
	case TimestampNegInfinity:
		return append(dst, "-infinity"...)
	}
	offset := 0
	if zone != time.UTC && zone != nil {
		_, offset = time.Unix(floorDiv(micros, microsPerSecond), 0).In(zone).Zone()
	}
	dst, bc := appendMoment(dst, micros+int64(offset)*microsPerSecond)
	dst = appendOffset(dst, offset)
	if bc {
		dst = append(dst, " BC"...)
	}
	return dst
}

// appendOffset writes seconds east of UTC as Postgres does: minutes and seconds only where there are some.
func appendOffset(dst []byte, seconds int) []byte {
	if seconds < 0 {
		dst, seconds = append(dst, '-'), -seconds
	} else {
		dst = append(dst, '+')
	}
	dst = appendTwo(dst, seconds/3600)
	if seconds%3600 != 0 {
		dst = append(dst, ':')
		dst = appendTwo(dst, seconds/60%60)
	}
	if seconds%60 != 0 {
		dst = append(dst, ':')
		dst = appendTwo(dst, seconds%60)
	}
	return dst
}

// AppendTimeTZ writes microseconds since midnight with an offset in seconds east of UTC.
func AppendTimeTZ(dst []byte, micros int64, offset int) []byte {
	return appendOffset(AppendTime(dst, micros), offset)
}
