package config

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// units are the size units by their lower-case names.
var units = map[string]float64{
	"": 1, "b": 1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

// ParseSize reads a size in bytes: "64MiB", "10GB", "1.5GiB", "4096".
func ParseSize(text string) (int64, error) {
	trimmed := strings.TrimSpace(text)
	split := strings.IndexFunc(trimmed, func(r rune) bool { return !(r >= '0' && r <= '9' || r == '.') })
	if split < 0 {
		split = len(trimmed)
	}
	number, unit := trimmed[:split], strings.ToLower(strings.TrimSpace(trimmed[split:]))
	factor, known := units[unit]
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size; write a number and a unit, such as 64MiB or 1GB", text)
	}
	if !known {
		switch unit {
		case "k", "m", "g", "t":
			u := strings.ToUpper(unit)
			return 0, fmt.Errorf("%q has an ambiguous unit; write %s%siB (powers of 1024) or %s%sB (powers of 1000)", text, number, u, number, u)
		}
		return 0, fmt.Errorf("%q has an unknown unit; use B, KiB, MiB, GiB, TiB, KB, MB, GB or TB", text)
	}
	bytes := value * factor
	if bytes >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is too large a size", text)
	}
	return int64(bytes), nil
}

// FormatSize writes a size the way ParseSize reads it, in the largest binary unit that holds it without a fraction.
func FormatSize(bytes int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= u.size && bytes%u.size == 0 {
			return strconv.FormatInt(bytes/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(bytes, 10) + "B"
}

// ParseDuration reads Go's durations ("200ms", "1h30m") and whole days ("7d").
func ParseDuration(text string) (time.Duration, error) {
	trimmed := strings.TrimSpace(text)
	if days, ok := strings.CutSuffix(trimmed, "d"); ok {
		if n, err := strconv.ParseInt(days, 10, 32); err == nil {
			if n > int64(math.MaxInt64/(24*time.Hour)) || n < 0 {
				return 0, fmt.Errorf("%q is out of range for a duration", text)
			}
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	if _, err := strconv.ParseFloat(trimmed, 64); err == nil && trimmed != "0" {
		return 0, fmt.Errorf("%q has no unit; write %ss, %sms, or another of ms, s, m, h, d", text, trimmed, trimmed)
	}
	d, err := time.ParseDuration(trimmed)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration; write a number and a unit, such as 200ms, 2s, 15m, 24h or 7d", text)
	}
	return d, nil
}

// parseListen reads host:port; "" and "off" mean not to listen at all.
func parseListen(text string) (string, error) {
	if text == "" || text == "off" {
		return "", nil
	}
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", fmt.Errorf("%q is not an address to listen on; write host:port, such as 127.0.0.1:8080, or off", text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%q has no port between 0 and 65535; write host:port, such as 127.0.0.1:8080", text)
	} else if n == 0 {
		return text, nil
	}
	return text, nil
}

// Loopback reports whether an address as in Query.Listen can be reached from this machine only.
func Loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// ParseNumeric reads the lake type of numeric columns without precision: "string" or "decimal(38,18)".
func ParseNumeric(text string) (Numeric, error) {
	bad := fmt.Errorf("%q is not a type for numeric; write string, or decimal(p,s) with 1 <= p <= 38 and 0 <= s <= p", text)
	t := strings.ToLower(strings.Join(strings.Fields(text), ""))
	if t == "string" {
		return Numeric{String: true}, nil
	}
	inner, ok := strings.CutPrefix(t, "decimal(")
	if !ok {
		return Numeric{}, bad
	}
	inner, ok = strings.CutSuffix(inner, ")")
	if !ok {
		return Numeric{}, bad
	}
	p, s, ok := strings.Cut(inner, ",")
	if !ok {
		return Numeric{}, bad
	}
	precision, err1 := strconv.Atoi(p)
	scale, err2 := strconv.Atoi(s)
	if err1 != nil || err2 != nil || precision < 1 || precision > 38 || scale < 0 || scale > precision {
		return Numeric{}, bad
	}
	return Numeric{Precision: precision, Scale: scale}, nil
}

// parsePipeline checks a pipeline's name: slot streambed_<name> and publication streambed_<name>_append must be valid
// Postgres names of at most 63 bytes.
func parsePipeline(text string) (string, error) {
	const longest = 63 - len("streambed_") - len("_append")
	if text == "" {
		return "", fmt.Errorf("the pipeline needs a name; remove the key to use streambed")
	}
	if len(text) > longest {
		return "", fmt.Errorf("%q is longer than %d bytes; slot and publication carry the name, choose a shorter one", text, longest)
	}
	return text, onlyNameRunes(text)
}

// parseSlot checks a replication slot's name against Postgres' rule; "" means the default.
func parseSlot(text string) (string, error) {
	if len(text) > 63 {
		return "", fmt.Errorf("%q is longer than the 63 bytes Postgres allows for a slot", text)
	}
	return text, onlyNameRunes(text)
}

func onlyNameRunes(text string) error {
	for _, r := range text {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_') {
			return fmt.Errorf("%q holds %q; Postgres allows a slot's name only lower-case letters, digits and underscores", text, r)
		}
	}
	return nil
}

// parsePublication checks a publication's name; "" means the default.
func parsePublication(text string) (string, error) {
	const longest = 63 - len("_append")
	if len(text) > longest {
		return "", fmt.Errorf("%q is longer than %d bytes, which a publication and its _append sibling may have", text, longest)
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return "", fmt.Errorf("%q holds a control character", text)
	}
	return text, nil
}
