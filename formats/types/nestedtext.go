package types

import "bytes"

// arrayText decodes Postgres' text form of an array: [lower:upper]={a,"b c",NULL}.
func (d *node) arrayText(s *scratch, src []byte) (int, error) {
	if len(src) > 0 && src[0] == '[' {
		bounds, rest, ok := bytes.Cut(src, []byte("="))
		if !ok || bounds[len(bounds)-1] != ']' {
			return 0, errMalformed
		}
		if bytes.Contains(bounds, []byte("][")) {
			s.mark(tooManyDimensions)
			return -1, nil
		}
		if !bytes.HasPrefix(bounds, []byte("[1:")) {
			s.mark(otherSubscripts)
		}
		src = rest
	}
	if len(src) < 2 || src[0] != '{' || src[len(src)-1] != '}' {
		return 0, errMalformed
	}
	src = src[1 : len(src)-1]
	if len(src) == 0 {
		return 0, nil
	}
	if src[0] == '{' {
		s.mark(tooManyDimensions)
		return -1, nil
	}
	n := 0
	for {
		element, quoted, rest, ok := cutElement(s, src, d.delim)
		if !ok || len(element) == 0 && !quoted {
			return 0, errMalformed
		}
		if !quoted && string(element) == "NULL" {
			s.null()
		} else if err := d.children[0].decode(s, false, element); err != nil {
			return 0, err
		}
		n++
		if rest == nil {
			return n, nil
		}
		src = rest
	}
}

// cutElement takes an array's next element, without its quotes. rest is what follows the delimiter, nil at the end.
func cutElement(s *scratch, src []byte, delim byte) (element []byte, quoted bool, rest []byte, ok bool) {
	if len(src) > 0 && src[0] == '"' {
		element, rest, ok = cutQuoted(s, src[1:])
		switch {
		case !ok:
			return nil, true, nil, false
		case len(rest) == 0:
			return element, true, nil, true
		case rest[0] != delim:
			return nil, true, nil, false
		}
		return element, true, rest[1:], true
	}
	for i, c := range src {
		switch c {
		case delim:
			return src[:i], false, src[i+1:], true
		case '"', '\\', '{', '}':
			return nil, false, nil, false // Postgres quotes these
		}
	}
	return src, false, nil, true
}

// cutQuoted takes text up to the closing quote; \ takes the next character as it is. src begins after the opening one.
func cutQuoted(s *scratch, src []byte) (text, rest []byte, ok bool) {
	end := bytes.IndexAny(src, `"\`)
	if end < 0 {
		return nil, nil, false
	}
	if src[end] == '"' {
		return src[:end:end], src[end+1:], true
	}
	from := len(s.buf)
	s.buf = append(s.buf, src[:end]...)
	for i := end; i < len(src); i++ {
		switch c := src[i]; {
		case c == '"':
			return s.buf[from:len(s.buf):len(s.buf)], src[i+1:], true
		case c == '\\':
			if i++; i == len(src) {
				return nil, nil, false
			}
			s.buf = append(s.buf, src[i])
		default:
			s.buf = append(s.buf, c)
		}
	}
	return nil, nil, false
}

// compositeText decodes Postgres' text form of a row: (1,"a ""b""",) in which nothing is NULL.
func (d *node) compositeText(s *scratch, src []byte) (int, error) {
	if len(src) < 2 || src[0] != '(' || src[len(src)-1] != ')' {
		return 0, errMalformed
	}
	src = src[1 : len(src)-1]
	for i := range d.children {
		attribute, null, rest, ok := cutAttribute(s, src)
		if !ok || (rest == nil) != (i == len(d.children)-1) {
			return 0, errMalformed
		}
		if null {
			s.null()
		} else if err := d.children[i].decode(s, false, attribute); err != nil {
			return 0, err
		}
		src = rest
	}
	return len(d.children), nil
}

// cutAttribute takes a row's next attribute. rest is what follows the comma, nil at the end.
func cutAttribute(s *scratch, src []byte) (attribute []byte, null bool, rest []byte, ok bool) {
	end := bytes.IndexAny(src, `,"\`)
	switch {
	case end < 0:
		return src, len(src) == 0, nil, true
	case src[end] == ',':
		return src[:end:end], end == 0, src[end+1:], true
	}
	from, quoted := len(s.buf), false
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case c == '"' && quoted && i+1 < len(src) && src[i+1] == '"':
			s.buf = append(s.buf, '"')
			i++
		case c == '"':
			quoted = !quoted
		case c == '\\':
			if i++; i == len(src) {
				return nil, false, nil, false
			}
			s.buf = append(s.buf, src[i])
		case c == ',' && !quoted:
			return s.buf[from:len(s.buf):len(s.buf)], false, src[i+1:], true
		default:
			s.buf = append(s.buf, c)
		}
	}
	return s.buf[from:len(s.buf):len(s.buf)], false, nil, !quoted
}

// hstoreText decodes "key"=>"value", "other"=>NULL.
func hstoreText(s *scratch, src []byte) (int, error) {
	for n := 0; ; n++ {
		if len(src) == 0 && n == 0 {
			return 0, nil
		}
		if len(src) == 0 || src[0] != '"' {
			return 0, errMalformed
		}
		key, rest, ok := cutQuoted(s, src[1:])
		if !ok || !bytes.HasPrefix(rest, []byte("=>")) || !s.text(key) {
			return 0, errMalformed
		}
		src = rest[2:]
		switch {
		case bytes.HasPrefix(src, []byte("NULL")):
			s.null()
			src = src[4:]
		case len(src) > 0 && src[0] == '"':
			value, rest, ok := cutQuoted(s, src[1:])
			if !ok {
				return 0, errMalformed
			}
			s.text(value)
			src = rest
		default:
			return 0, errMalformed
		}
		if len(src) == 0 {
			return n + 1, nil
		}
		if !bytes.HasPrefix(src, []byte(", ")) {
			return 0, errMalformed
		}
		src = src[2:]
	}
}

// vectorText decodes pgvector's [1,2.5,3].
func vectorText(s *scratch, src []byte) (int, error) {
	if len(src) < 2 || src[0] != '[' || src[len(src)-1] != ']' {
		return 0, errMalformed
	}
	src = src[1 : len(src)-1]
	float := node{form: formFloat4, lake: Type{Kind: Float}}
	for n := 0; ; n++ {
		if len(src) == 0 && n == 0 {
			return 0, nil
		}
		number, rest, more := bytes.Cut(src, []byte(","))
		s.cells = append(s.cells, cell{})
		if err := float.parseFloat(&s.cells[len(s.cells)-1], number); err != nil {
			return 0, err
		}
		if !more {
			return n + 1, nil
		}
		src = rest
	}
}
