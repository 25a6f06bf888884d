package pgtext

import (
	"errors"
	"strings"
)

// Array is a Postgres array read from its text form.
type Array struct {
	Elements []ArrayElement
}

// ArrayElement is NULL, a text, or an inner array.
type ArrayElement struct {
	Null  bool
	Text  string
	Inner *Array
}

// ParseArray reads Postgres' text form of an array; a leading "[1:2]=" of bounds is skipped.
func ParseArray(s string) (*Array, error) {
	if strings.HasPrefix(s, "[") {
		if _, rest, ok := strings.Cut(s, "="); ok {
			s = rest
		}
	}
	p := &arrayParser{s: strings.TrimSpace(s)}
	a, err := p.array(0)
	if err == nil && p.at != len(p.s) {
		err = errMalformedArray
	}
	return a, err
}

var errMalformedArray = errors.New("malformed array literal")

// maxDepth is Postgres' own limit of dimensions.
const maxDepth = 6

type arrayParser struct {
	s  string
	at int
}

func (p *arrayParser) space() {
	for p.at < len(p.s) && strings.IndexByte(" \t\n\r\v\f", p.s[p.at]) >= 0 {
		p.at++
	}
}

func (p *arrayParser) array(depth int) (*Array, error) {
	if depth == maxDepth || p.at >= len(p.s) || p.s[p.at] != '{' {
		return nil, errMalformedArray
	}
	p.at++
	a := &Array{}
	p.space()
	if p.at < len(p.s) && p.s[p.at] == '}' {
		p.at++
		return a, nil
	}
	for {
		p.space()
		e, err := p.element(depth)
		if err != nil {
			return nil, err
		}
		a.Elements = append(a.Elements, e)
		p.space()
		if p.at >= len(p.s) {
			return nil, errMalformedArray
		}
		p.at++
		switch p.s[p.at-1] {
		case ',':
		case '}':
			return a, nil
		default:
			return nil, errMalformedArray
		}
	}
}

func (p *arrayParser) element(depth int) (ArrayElement, error) {
	if p.at < len(p.s) && p.s[p.at] == '{' {
		inner, err := p.array(depth + 1)
		return ArrayElement{Inner: inner}, err
	}
	var b strings.Builder
	if p.at < len(p.s) && p.s[p.at] == '"' {
		for p.at++; p.at < len(p.s) && p.s[p.at] != '"'; p.at++ {
			if p.s[p.at] == '\\' {
				p.at++
			}
			if p.at < len(p.s) {
				b.WriteByte(p.s[p.at])
			}
		}
		if p.at >= len(p.s) {
			return ArrayElement{}, errMalformedArray
		}
		p.at++
		return ArrayElement{Text: b.String()}, nil
	}
	escaped := false
	for p.at < len(p.s) && strings.IndexByte(",{}\"", p.s[p.at]) < 0 {
		if p.s[p.at] == '\\' {
			p.at++
			escaped = true
			if p.at == len(p.s) {
				return ArrayElement{}, errMalformedArray
			}
		}
		b.WriteByte(p.s[p.at])
		p.at++
	}
	text := strings.TrimRight(b.String(), " \t\n\r\v\f")
	if text == "" {
		return ArrayElement{}, errMalformedArray
	}
	return ArrayElement{Text: text, Null: !escaped && strings.EqualFold(text, "null")}, nil
}
