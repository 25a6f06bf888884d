package types

import (
	"encoding/binary"
)

// decode appends the value's cell and those of its children to s.cells. On error they are in no defined state.
func (d *node) decode(s *scratch, bin bool, src []byte) error {
	at := len(s.cells)
	s.cells = append(s.cells, cell{})
	var n int
	var err error
	switch {
	case !d.lake.Nested():
		return d.scalar(&s.cells[at], bin, src, s)
	case d.form == formArray && bin:
		n, err = d.arrayBinary(s, src)
	case d.form == formArray:
		n, err = d.arrayText(s, src)
	case d.form == formComposite && bin:
		n, err = d.compositeBinary(s, src)
	case d.form == formComposite:
		n, err = d.compositeText(s, src)
	case d.form == formHstore && bin:
		n, err = hstoreBinary(s, src)
	case d.form == formHstore:
		n, err = hstoreText(s, src)
	case bin:
		n, err = vectorBinary(s, src)
	default:
		n, err = vectorText(s, src)
	}
	if n < 0 { // the value as a whole does not fit
		clear(s.cells[at+1:])
		s.cells = s.cells[:at+1]
		s.cells[at].null = true
		return err
	}
	s.cells[at].n = n
	return err
}

func (s *scratch) null() { s.cells = append(s.cells, cell{null: true}) }

// reader takes big-endian values off the front of src.
type reader struct {
	src []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.src) {
		r.bad = true
		return nil
	}
	taken := r.src[:n:n]
	r.src = r.src[n:]
	return taken
}

func (r *reader) int32() int {
	b := r.take(4)
	if b == nil {
		return 0
	}
	return int(int32(binary.BigEndian.Uint32(b)))
}

// value takes a length and as many bytes; null for length -1.
func (r *reader) value() (src []byte, null bool) {
	n := r.int32()
	if n == -1 {
		return nil, true
	}
	return r.take(n), false
}

// child decodes the next value with its length.
func (r *reader) child(d *node, s *scratch) error {
	src, null := r.value()
	switch {
	case r.bad:
		return errMalformed
	case null:
		s.null()
		return nil
	}
	return d.decode(s, true, src)
}

// end gives an error when anything was missing or is left.
func (r *reader) end() error {
	if r.bad || len(r.src) > 0 {
		return errMalformed
	}
	return nil
}

func (d *node) arrayBinary(s *scratch, src []byte) (int, error) {
	r := reader{src: src}
	dimensions := r.int32()
	r.int32() // whether there are NULLs
	r.int32() // the element's type
	switch {
	case r.bad, dimensions < 0, dimensions > 6:
		return 0, errMalformed
	case dimensions == 0:
		return 0, r.end()
	case dimensions > 1:
		s.mark(tooManyDimensions)
		return -1, nil
	}
	n, lower := r.int32(), r.int32()
	if r.bad || n < 0 || n > len(r.src)/4 {
		return 0, errMalformed
	}
	if lower != 1 {
		s.mark(otherSubscripts)
	}
	for range n {
		if err := r.child(&d.children[0], s); err != nil {
			return 0, err
		}
	}
	return n, r.end()
}

func (d *node) compositeBinary(s *scratch, src []byte) (int, error) {
	r := reader{src: src}
	if n := r.int32(); r.bad || n != len(d.children) {
		return 0, errMalformed
	}
	for i := range d.children {
		r.int32() // the attribute's type
		if err := r.child(&d.children[i], s); err != nil {
			return 0, err
		}
	}
	return len(d.children), r.end()
}

func hstoreBinary(s *scratch, src []byte) (int, error) {
	r := reader{src: src}
	n := r.int32()
	if r.bad || n < 0 || n > len(r.src)/8 {
		return 0, errMalformed
	}
	for range n {
		key, null := r.value()
		if r.bad || null || !s.text(key) {
			return 0, errMalformed
		}
		value, null := r.value()
		switch {
		case r.bad:
			return 0, errMalformed
		case null:
			s.null()
		default:
			s.text(value)
		}
	}
	return n, r.end()
}

// text appends a string's cell; it reports false, and appends NULL, when it is not UTF-8.
func (s *scratch) text(src []byte) bool {
	var v cell
	setText(&v, src, s)
	s.cells = append(s.cells, v)
	return !v.null
}

func vectorBinary(s *scratch, src []byte) (int, error) {
	if len(src) < 4 {
		return 0, errMalformed
	}
	n := int(binary.BigEndian.Uint16(src))
	src = src[4:] // two bytes are unused
	if len(src) != 4*n {
		return 0, errMalformed
	}
	float := node{form: formFloat4, lake: Type{Kind: Float}}
	for i := range n {
		s.cells = append(s.cells, cell{})
		if err := float.scalarBinary(&s.cells[len(s.cells)-1], src[4*i:4*i+4], s); err != nil {
			return 0, err
		}
	}
	return n, nil
}
