package types

import "fmt"

// form is how Postgres writes a type's values.
type form uint8

const (
	formOpaque form = iota // text only; the binary form is not understood
	formText               // the binary form is the text form
	formChar
	formBool
	formInt2
	formInt4
	formInt8
	formOID
	formFloat4
	formFloat8
	formNumeric
	formJSONB
	formUUID
	formBytea
	formDate
	formTime
	formTimestamp
	formTimestampTZ
	formInterval
	formTimeTZ
	formBits
	formMacaddr
	formInet
	formArray
	formComposite
	formHstore
	formVector
)

var forms = map[uint32]form{
	OIDBool: formBool, OIDBytea: formBytea, OIDChar: formChar, OIDName: formText, OIDInt8: formInt8, OIDInt2: formInt2,
	OIDInt4: formInt4, OIDText: formText, OIDOID: formOID, OIDJSON: formText, OIDXML: formText, OIDFloat4: formFloat4,
	OIDFloat8: formFloat8, OIDUnknown: formText, OIDBpchar: formText, OIDVarchar: formText, OIDDate: formDate,
	OIDTime: formTime, OIDTimestamp: formTimestamp, OIDTimestampTZ: formTimestampTZ, OIDInterval: formInterval,
	OIDTimeTZ: formTimeTZ, OIDNumeric: formNumeric, OIDUUID: formUUID, OIDJSONB: formJSONB, OIDBit: formBits,
	OIDVarbit: formBits, OIDMacaddr: formMacaddr, OIDMacaddr8: formMacaddr, OIDInet: formInet, OIDCIDR: formInet,
}

func formOf(pg Postgres) form {
	if pg.IsArray() {
		return formArray
	}
	if f, ok := forms[pg.OID]; ok {
		return f
	}
	switch {
	case pg.Class == 'e', pg.Name == "citext" && pg.plain():
		return formText
	case pg.Class == 'c':
		return formComposite
	case pg.Name == "hstore" && pg.plain():
		return formHstore
	case pg.Name == "vector" && pg.plain():
		return formVector
	}
	return formOpaque
}

// node is one place in the tree of a nested type, or the whole of a plain one.
type node struct {
	form     form
	lake     Type
	source   string
	strict   bool
	delim    byte // between the elements of an array, in text
	cidr     bool
	children []node
}

func (d *node) init(pg Postgres, t Type) error {
	d.source = SourceName(pg)
	pg = pg.Resolve()
	d.form, d.lake, d.cidr = formOf(pg), t, pg.OID == OIDCIDR
	if !d.suits() {
		return fmt.Errorf("a %s column cannot be stored as %s", d.source, t)
	}
	switch {
	case t.Kind == List && d.form == formArray:
		element := pg.element()
		d.delim = element.Resolve().delimiter()
		d.children = make([]node, 1)
		return d.children[0].init(element, t.Fields[0].Type)
	case t.Kind == Struct:
		if len(pg.Attributes) != len(t.Fields) {
			return fmt.Errorf("the composite type %s has %d attributes, and its struct in the lake %d fields", d.source, len(pg.Attributes), len(t.Fields))
		}
		d.children = make([]node, len(t.Fields))
		for i := range d.children {
			if err := d.children[i].init(pg.Attributes[i].Type, t.Fields[i].Type); err != nil {
				return err
			}
		}
	}
	return nil
}

// suits reports whether values of the form can be stored as the lake type.
func (d *node) suits() bool {
	t := &d.lake
	switch t.Kind {
	case Boolean:
		return d.form == formBool
	case Int:
		return d.form == formInt2 || d.form == formInt4
	case Long:
		return d.form == formInt2 || d.form == formInt4 || d.form == formInt8 || d.form == formOID
	case Float:
		return d.form == formFloat4
	case Double:
		return d.form == formFloat4 || d.form == formFloat8
	case Decimal:
		return d.form == formNumeric && t.Precision >= 1 && t.Precision <= maxPrecision && t.Scale >= 0 && t.Scale <= t.Precision
	case String:
		return true
	case JSON:
		return d.form == formJSONB || d.form == formText
	case Interval:
		return d.form == formInterval
	case Binary:
		return d.form == formBytea
	case UUID:
		return d.form == formUUID
	case Date:
		return d.form == formDate
	case Time:
		return d.form == formTime
	case Timestamp:
		return d.form == formTimestamp
	case TimestampTZ:
		return d.form == formTimestampTZ
	case List:
		return len(t.Fields) == 1 && (d.form == formArray || d.form == formVector && t.Fields[0].Type.Kind == Float)
	case Struct:
		return d.form == formComposite && len(t.Fields) > 0
	case Map:
		return d.form == formHstore && len(t.Fields) == 2 && t.Fields[0].Type.Kind == String && t.Fields[1].Type.Kind == String
	}
	return false
}

// decodesBinary reports whether binary values can be decoded, at every depth.
func (d *node) decodesBinary() bool {
	if d.lake.Kind == String {
		switch d.form {
		case formText, formJSONB, formChar, formNumeric, formInterval, formTimeTZ, formBits, formMacaddr, formInet:
			return true
		}
		return false // text is what the lake keeps, and only Postgres can make it
	}
	for i := range d.children {
		if !d.children[i].decodesBinary() {
			return false
		}
	}
	return d.form != formOpaque
}

// rendered reports whether the text of binary values has to be made.
func (d *node) rendered() bool {
	return (d.lake.Kind == String || d.lake.Kind == Interval) && d.form != formText && d.form != formJSONB
}
