package types

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/streambed/streambed/test/postgres"
)

// serverCase is one source type with values that a real Postgres sends in both formats.
type serverCase struct {
	sql string // the type
	// values are SQL expressions; each is cast to the type.
	values []string
	// exact is an SQL expression over v that Postgres computes and plain prints of the decoded value; "" compares with
	// Postgres' text.
	exact string
	// textOnly tells that there is no binary decoding.
	textOnly bool
	// bent is the number of values that do not fit.
	bent int64
	want string // the lake type
}

const (
	exactTime      = "extract(epoch from v)::numeric * 1000000"
	exactTimestamp = `trunc(extract(epoch from case when v < '0001-01-01' then '0001-01-01'
		when v > '9999-12-31 23:59:59.999999' then '9999-12-31 23:59:59.999999' else v end)::numeric * 1000000)`
	exactDate = "greatest(least(v, date '9999-12-31'), date '0001-01-01') - date '1970-01-01'"
)

var serverCases = []serverCase{
	{sql: "bool", values: []string{"true", "false"}, exact: "v::text", want: "boolean"},
	{sql: "int2", values: []string{"0", "-32768", "32767"}, want: "int"},
	{sql: "int4", values: []string{"0", "-1", "'-2147483648'", "2147483647"}, want: "int"},
	{sql: "int8", values: []string{"0", "-1", "'-9223372036854775808'", "9223372036854775807"}, want: "long"},
	{sql: "oid", values: []string{"0", "4294967295"}, want: "long"},
	{sql: "float4", values: []string{"0", "'-0'", "1.5", "3.4028235e38", "1e-45", "0.1", "'NaN'", "'Infinity'", "'-Infinity'"},
		exact: "encode(float8send(v::float8), 'hex')", want: "float"},
	{sql: "float8", values: []string{"0", "'-0'", "0.1", "1.7976931348623157e308", "5e-324", "1e20", "1e-7", "'NaN'", "'Infinity'", "'-Infinity'"},
		exact: "encode(float8send(v), 'hex')", want: "double"},
	{sql: "numeric(10,2)", values: []string{"0", "1.5", "-1.55", "99999999.99", "-99999999.99", "0.01", "10000"}, exact: "v * 100", want: "decimal(10,2)"},
	{sql: "numeric(5,-2)", values: []string{"0", "12345", "-9999900"}, exact: "v", want: "decimal(7,0)"},
	{sql: "numeric(2,5)", values: []string{"0", "0.00099", "-0.00001"}, exact: "v * 100000", want: "decimal(5,5)"},
	{sql: "numeric(38,38)", values: []string{"0.12345678901234567890123456789012345678", "-0.99999999999999999999999999999999999999", "0"}, exact: "v * 1e38", want: "decimal(38,38)"},
	{sql: "numeric(38,0)", values: []string{"99999999999999999999999999999999999999", "-10000000000000000000", "1e37", "18446744073709551616"}, exact: "v", want: "decimal(38,0)"},
	{sql: "numeric(39,5)", values: []string{"1234567890123456789012345678901234.5", "'NaN'", "-0.00001"}, want: "string"},
	{sql: "numeric", values: []string{"0", "0.000000000000000001", "-12345678901234567890.123456789012345678", "1e19", "10.5000"}, exact: "v * 1e18", want: "decimal(38,18)"},
	{sql: "numeric", values: []string{"'NaN'", "'Infinity'", "'-Infinity'", "1e20", "-1e130000", "1e-16000", "123.4567890123456789015"}, exact: "case when v = 1e-16000 then 0 when abs(v) < 1e20 then 123456789012345678902 end", bent: 7, want: "decimal(38,18)"},
	{sql: "text", values: []string{"''", "'a'", "'äß😀'", "e'\\t\\\\\"{},()'", "'NULL'"}, want: "string"},
	{sql: "varchar(5)", values: []string{"''", "'abcde'"}, want: "string"},
	{sql: "bpchar(5)", values: []string{"''", "'abc'"}, want: "string"},
	{sql: "name", values: []string{"'abc'"}, want: "string"},
	{sql: `"char"`, values: []string{"'a'", "''", "'\\377'", "'\\303'"}, want: "string"},
	{sql: "citext", values: []string{"'aBc'"}, want: "string"},
	{sql: "mood", values: []string{"'happy'", "'very \"sad\", {really}'"}, want: "string"},
	{sql: "xml", values: []string{"'<a>b</a>'", "'<?xml version=\"1.0\" standalone=\"yes\"?><ä/>'"}, want: "string"},
	{sql: "inet", values: []string{"'1.2.3.4'", "'1.2.3.4/8'", "'::'", "'::1'", "'::ffff:1.2.3.4'", "'::1.2.3.4'", "'1:0:0:2:0:0:0:3'", "'1:0:2:3:4:5:6:7'",
		"'fe80::1/64'", "'1::'", "'0:0:1::'", "'::2:0:0:0:1'", "'1:2:3:4:5:6:7:8/127'", "'::ffff:0:0'", "'::1:0:0'", "'::fffe:1.2.3.4'"}, want: "string"},
	{sql: "cidr", values: []string{"'10.0.0.0/8'", "'1.2.3.4/32'", "'2001:db8::/32'", "'::/0'"}, want: "string"},
	{sql: "macaddr", values: []string{"'08:00:2b:01:02:ff'"}, want: "string"},
	{sql: "macaddr8", values: []string{"'08:00:2b:01:02:ff:ab:00'"}, want: "string"},
	{sql: "bit(11)", values: []string{"b'10110000111'", "b'00000000000'"}, want: "string"},
	{sql: "varbit", values: []string{"b''", "b'1'", "b'101100001'"}, want: "string"},
	{sql: "int4range", values: []string{"'[1,5)'", "'empty'"}, textOnly: true, want: "string"},
	{sql: "int4multirange", values: []string{"'{[1,5),[7,9)}'"}, textOnly: true, want: "string"},
	{sql: "tsvector", values: []string{"'a:1 b:2'"}, textOnly: true, want: "string"},
	{sql: "money", values: []string{"12.5"}, textOnly: true, want: "string"},
	{sql: "pg_lsn", values: []string{"'16/B374D848'"}, textOnly: true, want: "string"},
	{sql: "int2vector", values: []string{"'1 2 3'"}, textOnly: true, want: "string"},
	{sql: "timetz", values: []string{"'00:00:00+00'", "'23:59:59.123456-11:30'", "'24:00:00+15:59:59'", "'01:02:03.5-00:00:01'", "'12:00:00.000001+05:45'"}, want: "string"},
	{sql: "interval", values: []string{"'0'", "'1 year 2 months 3 days 04:05:06.789'", "'-1 year'", "'-1 month 3 days'", "'-00:00:00.000001'", "'25:00:00'",
		"'-25:01:01.5'", "'1 mon -1 day -00:01'", "'00:00:10'", "'178956970 years 7 months'", "'-178956970 years -8 months'", "'2147483647 days'", "'-2562047788 hours -54.775807 s'", "'13 months'", "'-0.1 s'"}, want: "interval"},
	{sql: "json", values: []string{`'{"a": [1, 2 ], "b":null}'`, "'1'"}, want: "json"},
	{sql: "jsonb", values: []string{`'{"b": [1, 2 ], "a":"\u00e4"}'`, "'null'"}, want: "json"},
	{sql: "uuid", values: []string{"'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "'123e4567-e89b-12d3-a456-426614174000'"}, want: "uuid"},
	{sql: "bytea", values: []string{"''", `'\x00ff5c'`, "'abc'", `'\x5c78'`}, exact: "encode(v, 'hex')", want: "binary"},
	{sql: "date", values: []string{"'1970-01-01'", "'2000-02-29'", "'1900-02-28'", "'0001-01-01'", "'9999-12-31'"}, exact: exactDate, want: "date"},
	{sql: "date", values: []string{"'infinity'", "'-infinity'", "'0001-12-31 BC'", "'4713-01-01 BC'", "'10000-01-01'", "'5874897-12-31'"}, exact: exactDate, bent: 6, want: "date"},
	{sql: "time", values: []string{"'00:00:00'", "'23:59:59.999999'", "'12:34:56.7'"}, exact: exactTime, want: "time"},
	{sql: "time", values: []string{"'24:00:00'"}, exact: "86399999999", bent: 1, want: "time"},
	{sql: "time(0)", values: []string{"'12:34:56'"}, exact: exactTime, want: "time"},
	{sql: "timestamp", values: []string{"'1970-01-01'", "'1999-12-31 23:59:59.999999'", "'0001-01-01'", "'9999-12-31 23:59:59.999999'", "'1582-10-15 12:00:00.5'"}, exact: exactTimestamp, want: "timestamp"},
	{sql: "timestamp", values: []string{"'infinity'", "'-infinity'", "'0001-12-31 23:59:59.999999 BC'", "'10000-01-01'", "'294276-12-31 23:59:59.999999'", "'4713-01-01 BC'"}, exact: exactTimestamp, bent: 6, want: "timestamp"},
	{sql: "timestamptz", values: []string{"'1970-01-01+00'", "'1969-12-31 23:59:59.999999+05:30'", "'2024-02-29 12:00:00-08'", "'0001-01-01+00'"}, exact: exactTimestamp, want: "timestamptz"},
	{sql: "timestamptz", values: []string{"'infinity'", "'-infinity'", "'294276-12-31 23:59:59.999999+00'", "'0044-03-15 BC'"}, exact: exactTimestamp, bent: 4, want: "timestamptz"},
	{sql: "int4[]", values: []string{"'{}'", "'{1,NULL,-3}'", "'{NULL}'"}, want: "list<int>"},
	{sql: "text[]", values: []string{"'{}'", `'{a,"b c","",NULL,"NULL","x\"y\\\\z","{},"}'`, `array['null','nUll']`}, want: "list<string>"},
	{sql: "numeric(6,3)[]", values: []string{"'{1.5,-2.125,NULL}'"}, want: "list<decimal(6,3)>", exact: "'{1.500,-2.125,NULL}'::text"},
	{sql: "timestamp[]", values: []string{`'{"2024-01-01 00:00:00",NULL}'`}, want: "list<timestamp>", exact: "'{1704067200000000,NULL}'::text"},
	{sql: "timestamptz[]", values: []string{`'{infinity,"2024-01-01 00:00:00+00"}'`}, bent: 1, want: "list<timestamptz>", exact: "'{253402300799999999,1704067200000000}'::text"},
	{sql: "uuid[]", values: []string{"'{123e4567-e89b-12d3-a456-426614174000,NULL}'"}, want: "list<uuid>"},
	{sql: "bytea[]", values: []string{`array['\x00ff'::bytea, null, '']`}, want: "list<binary>", exact: `'{00ff,NULL,""}'::text`},
	{sql: "bool[]", values: []string{"'{t,f,NULL}'"}, want: "list<boolean>", exact: "'{true,false,NULL}'::text"},
	{sql: "float8[]", values: []string{"'{1.5,NaN,-Infinity}'"}, want: "list<double>", exact: "'{3ff8000000000000,7ff8000000000000,fff0000000000000}'::text"},
	{sql: "jsonb[]", values: []string{`array['{"a": "b, \"c\""}'::jsonb, null]`}, want: "list<json>"},
	{sql: "interval[]", values: []string{"array['1 day'::interval, '2 mons 3 s']"}, want: "list<interval>"},
	{sql: "mood[]", values: []string{`array['happy'::mood, 'very "sad", {really}']`}, want: "list<string>"},
	{sql: "inet[]", values: []string{"array['1.2.3.4'::inet, '::1/64']"}, want: "list<string>"},
	{sql: "box[]", values: []string{"array['(1,1),(0,0)'::box, null, '(2,2),(1,1)']"}, textOnly: true, want: "list<string>", exact: `'{"(1,1),(0,0)",NULL,"(2,2),(1,1)"}'::text`},
	{sql: "int4range[]", values: []string{"array['[1,5)'::int4range]"}, textOnly: true, want: "list<string>"},
	{sql: "int4[]", values: []string{"'{{1,2},{3,4}}'", "'[0:0][0:1]={{1,2}}'"}, exact: "null::text", bent: 2, want: "list<int>"},
	{sql: "int4[]", values: []string{"'[0:1]={1,2}'", "'[-5:-4]={1,2}'"}, exact: "'{1,2}'::text", bent: 2, want: "list<int>"},
	{sql: "positive", values: []string{"1", "7"}, want: "int"},
	{sql: "price", values: []string{"1.5", "-2"}, exact: "v * 100", want: "decimal(12,2)"},
	{sql: "price[]", values: []string{"array[1.5::price, null]"}, exact: "'{1.50,NULL}'::text", want: "list<decimal(12,2)>"},
	{sql: "tags", values: []string{"'{a,b}'"}, want: "list<string>"},
	{sql: "pair", values: []string{"(1,'x')", "(null,null)", `(2,'a "b", (c) \d')`, "(3,'')"}, want: "struct<n: int, t: string>"},
	{sql: "pair[]", values: []string{`array[row(1,'x')::pair, null, row(null,'a "b",\')::pair]`}, want: "list<struct<n: int, t: string>>"},
	{sql: "nest", values: []string{`row(row(1,'x y'), array['a','b "c"'], 1.25, '2024-01-01')`, "row(null,null,null,null)", `row(row(null,'"'), '{}', 'NaN', 'infinity')`},
		exact: `case when (v).at is null then v::text when (v).at = 'infinity' then '("(,"""""""")",{},,253402300799999999)' else '("(1,""x y"")","{a,""b \\""c\\""""}",1.25,1704067200000000)' end`,
		bent:  1, want: "struct<p: struct<n: int, t: string>, tags: list<string>, amount: decimal(10,2), at: timestamptz>"},
	{sql: "hstore", values: []string{"''", `'a=>1, "b c"=>NULL'`, `hstore('q"\', '\"')`, `'"NULL"=>"NULL"'`}, want: "map<string, string>"},
	{sql: "hstore[]", values: []string{`array['a=>1'::hstore, null]`}, want: "list<map<string, string>>"},
}

const serverTypes = `
	CREATE EXTENSION hstore; CREATE EXTENSION citext;
	CREATE TYPE mood AS ENUM ('happy', 'very "sad", {really}');
	CREATE DOMAIN positive AS int4 CHECK (value > 0);
	CREATE DOMAIN price AS numeric(12,2);
	CREATE DOMAIN tags AS text[];
	CREATE TYPE pair AS (n int4, t text);
	CREATE TYPE nest AS (p pair, tags text[], amount numeric(10,2), at timestamptz);
`

func TestBothFormatsOfARealPostgresDecodeAlike(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	db.Exec(t, serverTypes)
	conn := db.Connect(t)
	run(t, conn, "SET TimeZone='UTC'; SET DateStyle='ISO'; SET IntervalStyle='iso_8601'; SET extra_float_digits=3")
	for i, c := range serverCases {
		t.Run(fmt.Sprintf("%d %s", i, c.sql), func(t *testing.T) { c.check(t, conn) })
	}
}

func TestTextDoesNotDependOnByteaOutput(t *testing.T) {
	conn := postgres.ForTest(t).Database(t).Connect(t)
	run(t, conn, "SET bytea_output='escape'")
	escaped := serverCase{sql: "bytea", values: []string{"''", `'\x00ff5c7e7f'`, "'abc'", `'\x5c78'`, `'\x22'`}, exact: "encode(v, 'hex')", want: "binary"}
	escaped.check(t, conn)
	array := serverCase{sql: "bytea[]", values: []string{`array['\x00ff5c'::bytea, '', '\x5c78']`}, want: "list<binary>", exact: `'{00ff5c,"",5c78}'::text`}
	array.check(t, conn)
}

func TestTimestampsWithAnyOffsetDecodeAlike(t *testing.T) {
	conn := postgres.ForTest(t).Database(t).Connect(t)
	for _, zone := range []string{"Asia/Kolkata", "America/New_York", "Europe/Amsterdam", "UTC"} {
		run(t, conn, "SET DateStyle='ISO'; SET TimeZone='"+zone+"'")
		c := serverCase{sql: "timestamptz", want: "timestamptz", exact: "extract(epoch from v) * 1000000",
			values: []string{"'2024-07-01 12:00:00+00'", "'1910-01-01 00:00:00.5+00'", "'1850-06-01 12:34:56+00'"}}
		c.check(t, conn)
	}
}

func (c *serverCase) check(t *testing.T, conn *pgconn.PgConn) {
	pg := describeColumn(t, conn, c.sql)
	formatted := query(t, conn, fmt.Sprintf("SELECT format_type(%d, %d)", pg.OID, pg.Typmod))[0][0]
	if SourceName(pg) != formatted {
		t.Errorf("the type's name is %s and not %s", formatted, SourceName(pg))
	}
	if c.want != Lake(pg, Options{}, false).String() {
		t.Fatalf("the lake type of %s is %s, not %s", SourceName(pg), Lake(pg, Options{}, false), c.want)
	}
	lake := Lake(pg, Options{}, false)
	codec, err := NewCodec(pg, lake, Options{}, false)
	if err != nil {
		t.Fatal(err)
	}
	if codec.Binary() == c.textOnly {
		t.Fatalf("Binary() is %v", codec.Binary())
	}
	exact := c.exact
	if exact == "" {
		exact = "format('%s', v)" // the type's own output function; casts to text differ for bpchar and inet
	}
	var rows []string
	for i, v := range c.values {
		rows = append(rows, fmt.Sprintf("(%d, (%s)::%s)", i, v, c.sql))
	}
	query := fmt.Sprintf("SELECT v, (%s)::text FROM (VALUES %s) AS x(i, v) ORDER BY i", exact, strings.Join(rows, ","))
	texts := fetch(t, conn, query, false)
	decoded := c.decode(t, codec, lake, false, texts)
	defer decoded.Release()
	if codec.Bent() != c.bent {
		t.Errorf("%d values are bent, not %d (%s)", codec.Bent(), c.bent, codec.BentSample())
	}
	if c.textOnly {
		return
	}
	binaries := fetch(t, conn, query, true)
	other := c.decode(t, codec, lake, true, binaries)
	defer other.Release()
	if codec.Bent() != 2*c.bent {
		t.Errorf("%d binary values are bent, not %d", codec.Bent()-c.bent, c.bent)
	}
	if !array.ApproxEqual(decoded, other, array.WithNaNsEqual(true), array.WithAbsTolerance(0)) {
		t.Errorf("text gives %s and binary %s", decoded, other)
	}
	for i := range texts {
		sameKeys(t, codec, lake, texts[i][0], binaries[i][0], decoded, i)
	}
}

// decode appends all values and compares them with what Postgres says they are.
func (c *serverCase) decode(t *testing.T, codec *Codec, lake Type, binary bool, rows [][][]byte) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, lake.Arrow())
	defer b.Release()
	for i, row := range rows {
		if err := codec.Append(b, binary, row[0]); err != nil {
			t.Fatalf("%s (binary %v): %v", c.values[i], binary, err)
		}
	}
	a := b.NewArray()
	for i, row := range rows {
		got, null := plain(lake, a, i)
		if null != (row[1] == nil) || got != trimmed(lake, string(row[1])) {
			t.Errorf("%s (binary %v) decodes to %q, and Postgres says %q", c.values[i], binary, got, row[1])
		}
	}
	return a
}

// trimmed drops the decimal places of a number that Postgres computed for a decimal or a count.
func trimmed(lake Type, s string) string {
	switch lake.Kind {
	case Decimal, Time, Timestamp, TimestampTZ:
		s, _, _ = strings.Cut(s, ".")
	}
	return s
}

func sameKeys(t *testing.T, codec *Codec, lake Type, text, binary []byte, a arrow.Array, row int) {
	t.Helper()
	fromText, err := codec.AppendKey(nil, false, text)
	if err != nil {
		t.Fatal(err)
	}
	fromBinary, err := codec.AppendKey(nil, true, binary)
	if err != nil {
		t.Fatal(err)
	}
	fromArray, err := AppendKeyValue(nil, lake, a, row)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(fromText, fromBinary) || !bytes.Equal(fromText, fromArray) {
		t.Errorf("the keys of %q differ: %x from text, %x from binary, %x from Arrow", text, fromText, fromBinary, fromArray)
	}
}

// plain prints a decoded value as Postgres would, but for counts of days and microseconds and unscaled decimals outside
// of nested types.
func plain(t Type, a arrow.Array, row int) (string, bool) {
	if a.IsNull(row) {
		return "", true
	}
	switch a := a.(type) {
	case *array.Boolean:
		return strconv.FormatBool(a.Value(row)), false
	case *array.Float32:
		return fmt.Sprintf("%016x", math.Float64bits(float64(a.Value(row)))), false
	case *array.Float64:
		return fmt.Sprintf("%016x", math.Float64bits(a.Value(row))), false
	case *array.Decimal128:
		return a.Value(row).BigInt().String(), false
	case *array.Date32:
		return strconv.Itoa(int(a.Value(row))), false
	case *array.Time64:
		return strconv.FormatInt(int64(a.Value(row)), 10), false
	case *array.Timestamp:
		return strconv.FormatInt(int64(a.Value(row)), 10), false
	case *array.Binary:
		return fmt.Sprintf("%x", a.Value(row)), false
	case *extensions.UUIDArray:
		return a.Value(row).String(), false
	case *array.Struct:
		var parts []string
		for i, f := range t.Fields {
			parts = append(parts, nestedPlain(f.Type, a.Field(i), row, `,()"\`, "", `""`))
		}
		return "(" + strings.Join(parts, ",") + ")", false
	case *array.Map:
		from, to := a.ValueOffsets(row)
		var parts []string
		quoted := strings.NewReplacer(`"`, `\"`, `\`, `\\`)
		for i := int(from); i < int(to); i++ {
			value := "NULL"
			if !a.Items().IsNull(i) {
				value = `"` + quoted.Replace(a.Items().(*array.String).Value(i)) + `"`
			}
			parts = append(parts, `"`+quoted.Replace(a.Keys().(*array.String).Value(i))+`"=>`+value)
		}
		return strings.Join(parts, ", "), false
	case *array.List:
		from, to := a.ValueOffsets(row)
		var parts []string
		for i := int(from); i < int(to); i++ {
			parts = append(parts, nestedPlain(t.Fields[0].Type, a.ListValues(), int(i), `,{}"\`, "NULL", `\"`))
		}
		return "{" + strings.Join(parts, ",") + "}", false
	}
	return a.ValueStr(row), false
}

func nestedPlain(t Type, a arrow.Array, row int, special, none, quote string) string {
	if d, ok := a.(*array.Decimal128); ok && !a.IsNull(row) {
		return d.Value(row).ToString(int32(t.Scale))
	}
	s, null := plain(t, a, row)
	switch {
	case null:
		return none
	case s == "" || none == "NULL" && strings.EqualFold(s, "null") || strings.ContainsAny(s, special+" "):
		return `"` + strings.NewReplacer(`"`, quote, `\`, `\\`).Replace(s) + `"`
	}
	return s
}

func run(t *testing.T, conn *pgconn.PgConn, sql string) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// fetch runs a query; binary asks for the first column in binary, all others come as text.
func fetch(t *testing.T, conn *pgconn.PgConn, sql string, binary bool) [][][]byte {
	t.Helper()
	format := int16(0)
	if binary {
		format = 1
	}
	result := conn.ExecParams(context.Background(), sql, nil, nil, nil, []int16{format, 0}).Read()
	if result.Err != nil {
		t.Fatalf("%s: %v", sql, result.Err)
	}
	return result.Rows
}

// describeColumn gives the source type of a column declared with it.
func describeColumn(t *testing.T, conn *pgconn.PgConn, sql string) Postgres {
	t.Helper()
	run(t, conn, "CREATE TEMP TABLE described (v "+sql+")")
	defer run(t, conn, "DROP TABLE described")
	row := query(t, conn, "SELECT atttypid, atttypmod FROM pg_attribute WHERE attrelid = 'described'::regclass AND attname = 'v'")[0]
	return describe(t, conn, row[0], number(t, row[1]))
}

func query(t *testing.T, conn *pgconn.PgConn, sql string) [][]string {
	t.Helper()
	results, err := conn.Exec(context.Background(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var rows [][]string
	for _, r := range results[0].Rows {
		var row []string
		for _, v := range r {
			row = append(row, string(v))
		}
		rows = append(rows, row)
	}
	return rows
}

func number(t *testing.T, s string) int32 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}

func describe(t *testing.T, conn *pgconn.PgConn, oid string, typmod int32) Postgres {
	t.Helper()
	row := query(t, conn, `SELECT typname, nspname, typtype, typcategory, typelem, typbasetype, typtypmod, typrelid
		FROM pg_type t JOIN pg_namespace n ON n.oid = typnamespace WHERE t.oid = `+oid)[0]
	id, err := strconv.ParseUint(oid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	pg := Postgres{OID: uint32(id), Typmod: typmod, Name: row[0], Schema: row[1], Class: row[2][0]}
	if row[3] == "A" && row[4] != "0" {
		element := describe(t, conn, row[4], -1)
		pg.Element = &element
	}
	if row[5] != "0" {
		base := describe(t, conn, row[5], number(t, row[6]))
		pg.Base = &base
	}
	if row[2] == "c" {
		for _, a := range query(t, conn, `SELECT attname, atttypid, atttypmod FROM pg_attribute
			WHERE attrelid = `+row[7]+` AND attnum > 0 AND NOT attisdropped ORDER BY attnum`) {
			pg.Attributes = append(pg.Attributes, Attribute{Name: a[0], Type: describe(t, conn, a[1], number(t, a[2]))})
		}
	}
	return pg
}
