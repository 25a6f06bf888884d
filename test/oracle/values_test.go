package oracle

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// odd are values, as Postgres reads them, that programs get wrong, by the name that format_type gives the type.
var odd = map[string][]string{
	"integer":                     {"0", "-1", "2147483647", "-2147483648", "42"},
	"bigint":                      {"0", "9223372036854775807", "-9223372036854775808", "7"},
	"smallint":                    {"0", "-32768", "32767"},
	"boolean":                     {"t", "f"},
	"real":                        {"0", "-0", "1.5", "NaN", "Infinity", "1e-40", "3.4e38"},
	"double precision":            {"0", "-0", "0.1", "NaN", "-Infinity", "1e308", "5e-324"},
	"numeric(12,3)":               {"0", "0.001", "-999999999.999", "1.5", "1.500"},
	"numeric(16,3)":               {"0", "0.001", "9999999999999.999", "1.5"},
	"numeric":                     {"0", "1e-7", "0.000000000000000001", "12345678901234567890.123456789", "NaN", "-1.10"},
	"uuid":                        {"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "123e4567-e89b-12d3-a456-426614174000"},
	"bytea":                       {"", `\x00`, `\xdeadbeef00`, `\x27225c`},
	"date":                        {"1970-01-01", "0001-01-01", "9999-12-31", "infinity", "2024-02-29", "0044-03-15 BC"},
	"time without time zone":      {"00:00", "23:59:59.999999", "24:00:00", "12:34:56.5"},
	"timestamp without time zone": {"1969-12-31 23:59:59.999999", "2024-03-31 02:30:00", "-infinity", "9999-12-31 23:59:59.999999"},
	"timestamp with time zone":    {"1970-01-01 00:00:00+00", "2024-10-27 01:30:00.000001+05:45", "infinity", "0001-01-01 00:00:00+00"},
	"interval":                    {"1 mon -1 day 00:00:01.5", "0", "-178000000 years", "PT-0.000001S"},
	"jsonb":                       {`{}`, `null`, `{"a": [1, 2.50, "x"], "é": null}`, `"text"`, `[]`},
	"json":                        {`{ "a" : 1,  "a" : 2 }`, `null`},
	"text[]":                      {`{}`, `{a,NULL,"NULL","",b c,"quote\"d"}`, `{{a,b},{c,d}}`, `{é}`},
	"integer[]":                   {`{}`, `{1,NULL,3}`, `{2147483647}`},
	"numeric[]":                   {`{1.5,NULL}`, `{}`},
	"inet":                        {"10.0.0.1", "::1/64"},
	"mood":                        {"sad", "ok", "it's"},
	"pair":                        {`(1,)`, `(,"x ""y""")`, `(5,z)`},
	"int4range":                   {"empty", "[1,5)", "(,3)"},
}

var oddTexts = []string{"", " ", "NULL", `\N`, "it's", `"`, "é\u0301", "a\nb\tc", "\U0001F600", "0", "unchanged-toast-datum"}

// added are types of columns that come while the pipeline runs.
var added = []string{"integer", "bigint", "text", "numeric(12,3)", "numeric", "double precision", "real", "boolean", "uuid", "bytea", "date",
	"timestamp with time zone", "timestamp without time zone", "jsonb", "text[]", "integer[]", "interval", "character varying(20)", "smallint",
	"mood", "inet", "time without time zone", "json", "int4range", "pair", "numeric[]"}

// quoted makes an SQL literal.
func quoted(s string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
}

// literal gives an SQL expression of a random value of a type; a large text now and then, which is stored out of line.
func literal(random *rand.Rand, kind string) string {
	if random.IntN(6) == 0 {
		return "NULL"
	}
	if values := odd[kind]; values != nil {
		if kind == "integer" && random.IntN(2) == 0 {
			return fmt.Sprint(random.IntN(1000))
		}
		return quoted(values[random.IntN(len(values))])
	}
	if kind == "text" && random.IntN(3) == 0 {
		return fmt.Sprintf("repeat(md5('%d'), %d)", random.IntN(1000), 100+random.IntN(400))
	}
	if random.IntN(2) == 0 {
		return quoted(oddTexts[random.IntN(len(oddTexts))])
	}
	return quoted(fmt.Sprintf("v%d", random.IntN(100)))
}

// keyLiteral gives a value for a key's column from a small domain, so that keys come back and meet.
func keyLiteral(random *rand.Rand, kind string) string {
	n := random.IntN(40)
	switch kind {
	case "integer", "bigint":
		return fmt.Sprint(1 + n)
	case "uuid":
		return fmt.Sprintf("md5('%d')::uuid", n)
	case "numeric":
		// Equal numbers with other scales are one key in Postgres.
		return []string{"'1'", "'1.0'", "'1.00'", "'-0.5'", "'1e20'", "'1e-7'", "'0'", "'0.0'", "'NaN'", fmt.Sprint(n), fmt.Sprint(n)}[random.IntN(11)]
	case "date":
		return fmt.Sprintf("date '2024-01-01' + %d", n*9)
	}
	keys := append([]string{"A", "a", "b", fmt.Sprint("k", n), fmt.Sprint("k", n/2)}, oddTexts...)
	return quoted(keys[random.IntN(len(keys))])
}
