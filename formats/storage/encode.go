package storage

import "strings"

// EncodeName turns any identifier into a part of a URI: distinct names give distinct parts, also where letters' case
// does not count, and a part holds only a-z, 0-9, '_' and '-', which no reader escapes or unescapes. Every other byte
// becomes '-' and two hexadecimal digits, as does an underscore at the start, which would hide a folder from some
// readers. A name of 63 bytes gives at most 189.
func EncodeName(name string) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' && i > 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('-')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}
