package queryd

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/queryd/pgtext"
	"github.com/streambed/streambed/queryd/rewrite"
	"github.com/streambed/streambed/queryd/values"
)

// parameter is a statement's parameter: its type (0 when not known yet) and, when bound, its value as text.
type parameter struct {
	oid  uint32
	null bool
	text string
}

// decodeParameter reads a bound value in the given format (0 text, 1 binary) into Postgres' text form.
func decodeParameter(oid uint32, format int16, raw []byte) (parameter, error) {
	p := parameter{oid: oid}
	if raw == nil {
		p.null = true
		return p, nil
	}
	if format == 0 {
		p.text = string(raw)
		if !utf8.Valid(raw) || strings.ContainsRune(p.text, 0) {
			return p, failf("22021", "a parameter is not valid UTF8")
		}
		return p, nil
	}
	switch oid {
	case values.OIDText, values.OIDVarchar, values.OIDBpchar, values.OIDName, values.OIDJSON, values.OIDXML, values.OIDUnknown, 0:
		return decodeParameter(oid, 0, raw)
	case values.OIDBytea:
		p.text = `\x` + hex.EncodeToString(raw)
		return p, nil
	}
	text, err := binaryToText(oid, raw)
	if err != nil {
		return p, failf("22P03", "incorrect binary data for a parameter of type %d: %s", oid, err)
	}
	p.text = text
	return p, nil
}

// binaryToText goes through pgx's codecs.
func binaryToText(oid uint32, raw []byte) (text string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	m := pgtype.NewMap()
	t, ok := m.TypeForOID(oid)
	if !ok {
		return "", fmt.Errorf("its binary format is not known: send text")
	}
	v, err := t.Codec.DecodeValue(m, oid, pgtype.BinaryFormatCode, raw)
	if err != nil {
		return "", err
	}
	if oid == values.OIDJSON || oid == values.OIDJSONB {
		return string(raw[1:]), nil
	}
	out, err := m.Encode(oid, pgtype.TextFormatCode, v, nil)
	return string(out), err
}

// constant makes the expression that stands for the parameter.
func (p *parameter) constant() (rewrite.Node, error) {
	if p.null {
		return rewrite.Null(typeNode(p.oid)), nil
	}
	if element := values.Element(p.oid); element != 0 {
		a, err := pgtext.ParseArray(p.text)
		if err != nil {
			return nil, failf("22P02", "malformed array literal: %q", p.text)
		}
		return listConstant(a, element)
	}
	switch p.oid {
	case values.OIDText, values.OIDVarchar, values.OIDUnknown, 0:
		return rewrite.Text(p.text), nil
	case values.OIDBpchar:
		return rewrite.Text(strings.TrimRight(p.text, " ")), nil
	case values.OIDBytea:
		h, err := byteaHex(p.text)
		if err != nil {
			return nil, err
		}
		return rewrite.Call("from_hex", rewrite.Text(h)), nil
	case values.OIDNumeric:
		return numericConstant(p.text)
	case values.OIDInterval:
		if strings.HasPrefix(strings.TrimSpace(p.text), "P") {
			return rewrite.Call(duck.IntervalFunction, rewrite.Text(strings.TrimSpace(p.text))), nil
		}
	}
	return rewrite.Cast(rewrite.Text(p.text), typeNode(p.oid)), nil
}

func listConstant(a *pgtext.Array, element uint32) (rewrite.Node, error) {
	items := make([]rewrite.Node, len(a.Elements))
	for i, e := range a.Elements {
		var err error
		if e.Inner != nil {
			items[i], err = listConstant(e.Inner, element)
		} else {
			p := parameter{oid: element, null: e.Null, text: e.Text}
			items[i], err = p.constant()
		}
		if err != nil {
			return nil, err
		}
	}
	list := rewrite.Call("list_value", items...)
	if len(items) == 0 {
		list = rewrite.Cast(list, rewrite.ListType(typeNode(element)))
	}
	return list, nil
}

// byteaHex gives the hex digits of a bytea's text, in hex or escape form.
func byteaHex(text string) (string, error) {
	if digits, ok := strings.CutPrefix(text, `\x`); ok {
		if _, err := hex.DecodeString(digits); err != nil {
			return "", failf("22P02", "invalid hexadecimal data in a bytea parameter")
		}
		return digits, nil
	}
	var raw []byte
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '\\':
			raw = append(raw, text[i])
		case strings.HasPrefix(text[i+1:], `\`):
			raw = append(raw, '\\')
			i++
		case i+3 < len(text) && isOctal(text[i+1:i+4]):
			raw = append(raw, (text[i+1]-'0')<<6|(text[i+2]-'0')<<3|text[i+3]-'0')
			i += 3
		default:
			return "", failf("22P02", "invalid input syntax for type bytea")
		}
	}
	return hex.EncodeToString(raw), nil
}

func isOctal(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '7' {
			return false
		}
	}
	return s[0] <= '3'
}

// numericConstant casts a number to the narrowest DECIMAL that holds it exactly; NaN, infinities and exponents become
// DOUBLE.
func numericConstant(text string) (rewrite.Node, error) {
	s := strings.TrimSpace(text)
	whole, fraction, _ := strings.Cut(strings.TrimLeft(s, "+-"), ".")
	whole = strings.TrimLeft(whole, "0")
	for _, c := range []byte(whole + fraction) {
		if c < '0' || c > '9' {
			return rewrite.Cast(rewrite.Text(s), rewrite.SimpleType("DOUBLE")), nil
		}
	}
	if width := len(whole) + len(fraction); width <= 38 {
		return rewrite.Cast(rewrite.Text(s), rewrite.DecimalType(max(width, 1), len(fraction))), nil
	}
	return nil, failf("22003", "a numeric parameter has more than the 38 digits that this server computes with")
}
