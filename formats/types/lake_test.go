package types

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

func numericType(precision, scale int32) Postgres {
	return Postgres{OID: OIDNumeric, Name: "numeric", Class: 'b', Typmod: precision<<16 | scale&0x7ff + 4}
}

func base(oid uint32, name string) Postgres {
	return Postgres{OID: oid, Name: name, Class: 'b', Typmod: -1}
}

func arrayOf(pg Postgres) Postgres {
	return Postgres{OID: pg.OID + 100000, Name: "_" + pg.Name, Class: 'b', Typmod: -1, Element: &pg}
}

func TestNumericWithoutPrecisionFollowsTheOptions(t *testing.T) {
	plain := base(OIDNumeric, "numeric")
	text := Options{Numeric: Type{Kind: String}}
	small := Options{Numeric: Type{Kind: Decimal, Precision: 20, Scale: 4}}
	domain := Postgres{OID: 70000, Name: "amount", Class: 'd', Typmod: -1, Base: &plain}
	for _, c := range []struct {
		pg   Postgres
		o    Options
		key  bool
		want string
	}{
		{plain, Options{}, false, "decimal(38,18)"},
		{plain, text, false, "string"},
		{plain, small, false, "decimal(20,4)"},
		{plain, small, true, "string"},
		{domain, small, false, "decimal(20,4)"},
		{domain, Options{}, true, "string"},
		{arrayOf(plain), Options{}, true, "list<string>"},
		{arrayOf(plain), Options{}, false, "list<decimal(38,18)>"},
		{numericType(10, 2), text, true, "decimal(10,2)"},
		{numericType(38, 0), Options{}, false, "decimal(38,0)"},
		{numericType(39, 0), Options{}, false, "string"},
		{numericType(10, -30), Options{}, false, "string"},
		{numericType(10, -28), Options{}, false, "decimal(38,0)"},
		{numericType(3, 38), Options{}, false, "decimal(38,38)"},
		{numericType(3, 39), Options{}, false, "string"},
		{numericType(1000, 999), Options{}, false, "string"},
	} {
		if got := Lake(c.pg, c.o, c.key).String(); got != c.want {
			t.Errorf("%s (key %v) is %s in the lake, not %s", SourceName(c.pg), c.key, got, c.want)
		}
	}
}

func TestUnknownTypesAreStrings(t *testing.T) {
	for _, pg := range []Postgres{
		{}, {OID: 99999, Name: "geometry", Class: 'b', Typmod: -1}, {OID: 99999, Name: "empty", Class: 'c'},
		{OID: 99999, Name: "hstore", Class: 'c'}, {OID: 99999, Name: "r", Class: 'r'}, base(OIDMoney, "money"),
	} {
		if got := Lake(pg, Options{}, false); got.Kind != String {
			t.Errorf("%+v is %s in the lake, not string", pg, got)
		}
		c, err := NewCodec(pg, Type{Kind: String}, Options{}, false)
		if err != nil || c.Binary() {
			t.Errorf("%+v: Binary() is %v, error %v", pg, c.Binary(), err)
		}
	}
}

func TestEveryChildHasAFieldIDOfItsOwn(t *testing.T) {
	element := Type{Kind: Struct, Fields: []Field{
		{Name: "a", Type: Type{Kind: Int}},
		{Name: "b", Type: Type{Kind: List, Fields: []Field{{Name: "element", Type: Type{Kind: String}}}}},
		{Name: "c", Type: Type{Kind: Map, Fields: []Field{{Name: "key", Type: Type{Kind: String}, Required: true}, {Name: "value", Type: Type{Kind: UUID}}}}},
	}}
	before := Type{Kind: List, Fields: []Field{{Name: "element", Type: element}}}
	next := 8
	after := AssignIDs(before, &next)
	if next != 15 {
		t.Errorf("the next free id is %d after 7 children from 8 on", next)
	}
	if before.Fields[0].ID != 0 || element.Fields[0].ID != 0 {
		t.Error("the type that was given was changed")
	}
	if !after.Equal(before) {
		t.Errorf("%s became %s", before, after)
	}
	seen := map[string]bool{}
	var walk func(dt arrow.DataType)
	visit := func(f arrow.Field) {
		at := f.Metadata.FindKey(FieldIDKey)
		if at < 0 || seen[f.Metadata.Values()[at]] {
			t.Errorf("field %s has no field id of its own: %v", f.Name, f.Metadata)
			return
		}
		seen[f.Metadata.Values()[at]] = true
		walk(f.Type)
	}
	walk = func(dt arrow.DataType) {
		switch dt := dt.(type) {
		case *arrow.ListType:
			if !dt.ElemField().Nullable {
				t.Error("a list's element is not optional")
			}
			visit(dt.ElemField())
		case *arrow.MapType:
			visit(dt.KeyField())
			visit(dt.ItemField())
		case *arrow.StructType:
			for _, f := range dt.Fields() {
				visit(f)
			}
		}
	}
	visit(ArrowSchema([]Field{{ID: 1, Name: "column", Type: after}}).Field(0))
	if len(seen) != 8 {
		t.Errorf("%d fields have ids, not 8: %v", len(seen), seen)
	}
}

func TestPromotions(t *testing.T) {
	decimal := func(p, s int) Type { return Type{Kind: Decimal, Precision: p, Scale: s} }
	for _, c := range []struct {
		from, to Type
		want     bool
	}{
		{Type{Kind: Int}, Type{Kind: Long}, true}, {Type{Kind: Long}, Type{Kind: Int}, false},
		{Type{Kind: Float}, Type{Kind: Double}, true}, {Type{Kind: Int}, Type{Kind: String}, false},
		{decimal(9, 2), decimal(20, 2), true}, {decimal(9, 2), decimal(20, 3), false}, {decimal(9, 2), decimal(8, 2), false},
		{Type{Kind: JSON}, Type{Kind: JSON}, true}, {Type{Kind: JSON}, Type{Kind: String}, false},
	} {
		if c.from.Promotes(c.to) != c.want {
			t.Errorf("%s promotes to %s: %v", c.from, c.to, !c.want)
		}
	}
}

func TestCodecsRefuseTypesThatDoNotMatch(t *testing.T) {
	pair := Postgres{OID: 70000, Name: "pair", Class: 'c', Typmod: -1, Attributes: []Attribute{{Name: "a", Type: base(OIDInt4, "int4")}}}
	for _, c := range []struct {
		pg   Postgres
		lake Type
	}{
		{base(OIDText, "text"), Type{Kind: Int}},
		{base(OIDInt8, "int8"), Type{Kind: Int}},
		{base(OIDFloat8, "float8"), Type{Kind: Float}},
		{base(OIDNumeric, "numeric"), Type{Kind: Decimal, Precision: 39, Scale: 1}},
		{base(OIDNumeric, "numeric"), Type{Kind: Decimal, Precision: 3, Scale: 4}},
		{base(OIDTimestamp, "timestamp"), Type{Kind: TimestampTZ}},
		{arrayOf(base(OIDText, "text")), Type{Kind: List, Fields: []Field{{Name: "element", Type: Type{Kind: UUID}}}}},
		{pair, Type{Kind: Struct, Fields: []Field{{Name: "a", Type: Type{Kind: Int}}, {Name: "b", Type: Type{Kind: Int}}}}},
		{pair, Type{Kind: Map}}, {base(OIDText, "text"), Type{}},
	} {
		if _, err := NewCodec(c.pg, c.lake, Options{}, false); err == nil {
			t.Errorf("a codec from %s to %s was made", SourceName(c.pg), c.lake)
		} else if c.pg.Class == 'b' && c.pg.Element == nil && !strings.Contains(err.Error(), c.pg.Name) && !strings.Contains(err.Error(), SourceName(c.pg)) {
			t.Errorf("the error does not name the type: %v", err)
		}
	}
}
