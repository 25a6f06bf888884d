package types

import (
	"encoding/binary"
	"math"
)

// Dates are days since 1970-01-01, times microseconds since midnight, timestamps microseconds since 1970-01-01 00:00:00.
const (
	firstDay = -719162 // 0001-01-01
	lastDay  = 2932896 // 9999-12-31

	second = int64(1_000_000)
	day    = 86400 * second

	firstMicrosecond = firstDay * day
	lastMicrosecond  = (lastDay+1)*day - 1

	// Postgres counts from 2000-01-01.
	epochDays = 10957
)

// The setters store the nearest end for what is outside the lake's calendar.

func setDate(v *cell, n int64, s *scratch) {
	switch {
	case n < firstDay:
		s.mark(tooEarly)
		n = firstDay
	case n > lastDay:
		s.mark(tooLate)
		n = lastDay
	}
	v.lo = uint64(n)
}

func setTimestamp(v *cell, n int64, s *scratch) {
	switch {
	case n < firstMicrosecond:
		s.mark(tooEarly)
		n = firstMicrosecond
	case n > lastMicrosecond:
		s.mark(tooLate)
		n = lastMicrosecond
	}
	v.lo = uint64(n)
}

func setTime(v *cell, n int64, s *scratch) error {
	switch {
	case n < 0 || n > day:
		return errMalformed
	case n == day:
		s.mark(endOfDay)
		n = day - 1
	}
	v.lo = uint64(n)
	return nil
}

func dateBinary(v *cell, src []byte, s *scratch) error {
	if len(src) != 4 {
		return errMalformed
	}
	n := int32(binary.BigEndian.Uint32(src))
	if infinity(v, n == math.MinInt32, n == math.MaxInt32, firstDay, lastDay, s) {
		return nil
	}
	setDate(v, int64(n)+epochDays, s)
	return nil
}

func timeBinary(v *cell, src []byte, s *scratch) error {
	if len(src) != 8 {
		return errMalformed
	}
	return setTime(v, int64(binary.BigEndian.Uint64(src)), s)
}

func timestampBinary(v *cell, src []byte, s *scratch) error {
	if len(src) != 8 {
		return errMalformed
	}
	n := int64(binary.BigEndian.Uint64(src))
	if infinity(v, n == math.MinInt64, n == math.MaxInt64, firstMicrosecond, lastMicrosecond, s) {
		return nil
	}
	const epoch = epochDays * day
	if n > math.MaxInt64-epoch {
		n = math.MaxInt64 - epoch // late either way
	}
	setTimestamp(v, n+epoch, s)
	return nil
}

// infinity stores the nearest end for an infinite value; the order of values is kept.
func infinity(v *cell, minus, plus bool, first, last int64, s *scratch) bool {
	switch {
	case minus:
		v.lo = uint64(first)
	case plus:
		v.lo = uint64(last)
	default:
		return false
	}
	s.mark(infinite)
	return true
}

func infinityText(v *cell, src []byte, first, last int64, s *scratch) bool {
	return infinity(v, string(src) == "-infinity", string(src) == "infinity", first, last, s)
}

// dateText decodes "YYYY-MM-DD", the year with four or more digits, and " BC" after it for years before 1.
func dateText(v *cell, src []byte, s *scratch) error {
	if infinityText(v, src, firstDay, lastDay, s) {
		return nil
	}
	src, bc := cutBC(src)
	n, rest, ok := parseDate(src, bc)
	if !ok || len(rest) != 0 {
		return errMalformed
	}
	setDate(v, n, s)
	return nil
}

func timeText(v *cell, src []byte, s *scratch) error {
	n, rest, ok := parseTime(src)
	if !ok || len(rest) != 0 {
		return errMalformed
	}
	return setTime(v, n, s)
}

// timestampText decodes "YYYY-MM-DD HH:MM:SS[.ffffff][+HH[:MM[:SS]]][ BC]".
func timestampText(v *cell, src []byte, s *scratch) error {
	if infinityText(v, src, firstMicrosecond, lastMicrosecond, s) {
		return nil
	}
	src, bc := cutBC(src)
	days, rest, ok := parseDate(src, bc)
	if !ok || len(rest) == 0 || rest[0] != ' ' {
		return errMalformed
	}
	n, rest, ok := parseTime(rest[1:])
	if !ok {
		return errMalformed
	}
	zone, ok := parseZone(rest)
	if !ok {
		return errMalformed
	}
	days = min(max(days, firstDay-2), lastDay+2) // so that the product holds; what is cut is bent in any case
	setTimestamp(v, days*day+n-zone, s)
	return nil
}

func cutBC(src []byte) ([]byte, bool) {
	if n := len(src); n > 3 && src[n-1] == 'C' && src[n-2] == 'B' && src[n-3] == ' ' {
		return src[:n-3], true
	}
	return src, false
}

// parseDate reads a date at the beginning of src and gives the days since 1970-01-01.
func parseDate(src []byte, bc bool) (days int64, rest []byte, ok bool) {
	year, n := int64(0), 0
	for n < len(src) && src[n]-'0' <= 9 {
		if n == 7 { // Postgres' years end at 5874897
			return 0, nil, false
		}
		year = year*10 + int64(src[n]-'0')
		n++
	}
	if n < 4 || len(src) < n+6 || src[n] != '-' || src[n+3] != '-' || year == 0 {
		return 0, nil, false
	}
	month, ok1 := twoDigits(src[n+1:])
	d, ok2 := twoDigits(src[n+4:])
	if bc {
		year = 1 - year
	}
	if !ok1 || !ok2 || month < 1 || month > 12 || d < 1 || d > daysIn(year, month) {
		return 0, nil, false
	}
	return daysFromCivil(year, month, d), src[n+6:], true
}

func twoDigits(src []byte) (int64, bool) {
	if len(src) < 2 || src[0]-'0' > 9 || src[1]-'0' > 9 {
		return 0, false
	}
	return int64(src[0]-'0')*10 + int64(src[1]-'0'), true
}

// parseTime reads HH:MM:SS[.ffffff] at the beginning of src and gives microseconds, up to 24:00:00.
func parseTime(src []byte) (n int64, rest []byte, ok bool) {
	if len(src) < 8 || src[2] != ':' || src[5] != ':' {
		return 0, nil, false
	}
	h, ok1 := twoDigits(src)
	m, ok2 := twoDigits(src[3:])
	sec, ok3 := twoDigits(src[6:])
	if !ok1 || !ok2 || !ok3 || h > 24 || m > 59 || sec > 59 {
		return 0, nil, false
	}
	n = (h*3600 + m*60 + sec) * second
	rest = src[8:]
	if len(rest) > 0 && rest[0] == '.' {
		unit := second
		i := 1
		for ; i < len(rest) && rest[i]-'0' <= 9; i++ {
			if unit /= 10; unit == 0 {
				return 0, nil, false
			}
			n += int64(rest[i]-'0') * unit
		}
		if i == 1 {
			return 0, nil, false
		}
		rest = rest[i:]
	}
	return n, rest, n <= day
}

// parseZone reads [+-]HH[:MM[:SS]] to the end of src and gives the microseconds east of UTC; nothing is UTC.
func parseZone(src []byte) (n int64, ok bool) {
	if len(src) == 0 {
		return 0, true
	}
	sign := int64(1)
	switch src[0] {
	case '+':
	case '-':
		sign = -1
	default:
		return 0, false
	}
	src = src[1:]
	for unit := int64(3600); unit > 0; unit /= 60 {
		part, ok := twoDigits(src)
		if !ok {
			return 0, false
		}
		n += part * unit
		if src = src[2:]; len(src) == 0 {
			return sign * n * second, true
		}
		if src[0] != ':' {
			return 0, false
		}
		src = src[1:]
	}
	return 0, false
}

func daysIn(year, month int64) int64 {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// daysFromCivil counts the days from 1970-01-01 to a date of the proleptic Gregorian calendar; year 0 is 1 BC. It
// counts years from March, so that the leap day is the last of its year.
func daysFromCivil(year, month, d int64) int64 {
	if month <= 2 {
		year--
	}
	era := year / 400
	if year < 0 {
		era = (year - 399) / 400
	}
	yearOfEra := year - era*400
	dayOfYear := (153*((month+9)%12)+2)/5 + d - 1
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719468
}
