package pgtext

import "encoding/hex"

// AppendBool writes t or f.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 't')
	}
	return append(dst, 'f')
}

// AppendBytea writes bytes in hex style.
func AppendBytea(dst, b []byte) []byte { return hex.AppendEncode(append(dst, '\\', 'x'), b) }

// UUIDBytes gives the bytes of a UUID as DuckDB keeps it: a HUGEINT with the top bit flipped so that order is right.
func UUIDBytes(n Int128) (b [16]byte) {
	high := uint64(n.High) ^ 1<<63
	for i := range 8 {
		b[i] = byte(high >> (56 - 8*i))
		b[8+i] = byte(n.Low >> (56 - 8*i))
	}
	return b
}

// AppendUUID writes a UUID's text.
func AppendUUID(dst []byte, b [16]byte) []byte {
	for i, part := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}

// AppendArrayElement writes an element's text inside an array, quoted where Postgres quotes.
func AppendArrayElement(dst, text []byte) []byte {
	quote := len(text) == 0 || isNull(text)
	for _, c := range text {
		switch c {
		case '"', '\\', '{', '}', ',', ' ', '\t', '\n', '\r', '\v', '\f':
			quote = true
		}
	}
	if !quote {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	for _, c := range text {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

func isNull(b []byte) bool {
	return len(b) == 4 && b[0]|0x20 == 'n' && b[1]|0x20 == 'u' && b[2]|0x20 == 'l' && b[3]|0x20 == 'l'
}

// AppendRecordField writes a field's text inside a composite value, quoted where Postgres quotes.
func AppendRecordField(dst, text []byte) []byte {
	quote := len(text) == 0
	for _, c := range text {
		switch c {
		case '"', '\\', '(', ')', ',', ' ', '\t', '\n', '\r', '\v', '\f':
			quote = true
		}
	}
	if !quote {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	for _, c := range text {
		if c == '"' || c == '\\' {
			dst = append(dst, c)
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

// AppendHstoreText writes a key or value of an hstore.
func AppendHstoreText(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, c := range text {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}
