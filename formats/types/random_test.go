package types

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/streambed/streambed/test/postgres"
)

// randomCases make values of a type out of random numbers in Postgres.
var randomCases = []struct{ sql, expression string }{
	{"numeric(38,10)", "round(((random() - 0.5) * 10::numeric ^ (random() * 28)::int)::numeric, (random() * 10)::int)"},
	{"numeric(50,20)", "round(((random() - 0.5) * 10::numeric ^ (random() * 28)::int)::numeric, (random() * 20)::int)"},
	{"numeric", "round(((random() - 0.5) * 10::numeric ^ ((random() - 0.5) * 50)::int)::numeric, (random() * 30)::int)"},
	{"float8", "(random() - 0.5) * 10 ^ ((random() - 0.5) * 600)"},
	{"float4", "(random() - 0.5) * 10 ^ ((random() - 0.5) * 70)"},
	{"interval", "make_interval(((random() - 0.5) * 40)::int, ((random() - 0.5) * 40)::int, 0, ((random() - 0.5) * 40)::int, ((random() - 0.5) * 40)::int, 0, round(((random() - 0.5) * 10000)::numeric, (random() * 6)::int)::float8)"},
	{"timetz", "(time '00:00' + random() * interval '1 day') at time zone make_interval(0, 0, 0, 0, 0, 0, ((random() - 0.5) * 80000)::int)"},
	{"timetz", "(date_trunc('second', time '00:00' + random() * interval '1 day')::time) at time zone make_interval(0, 0, 0, 0, ((random() - 0.5) * 20)::int)"},
	{"date", "date '2000-01-01' + ((random() - 0.5) * 2 * 10 ^ (random() * 6.3))::int"},
	{"timestamp", "timestamp '2000-01-01' + (random() - 0.5) * 10 ^ (random() * 8) * interval '1 hour'"},
	{"timestamptz", "timestamptz '2000-01-01' + (random() - 0.5) * 10 ^ (random() * 8) * interval '1 hour'"},
	{"time", "time '00:00' + random() * interval '1 day'"},
	{"inet", `(select array_to_string(array_agg(case when random() < 0.5 then '0' when random() < 0.2 then 'ffff' else to_hex((random() * 65535)::int) end), ':')
		from generate_series(1, 8) where i > 0)::inet`},
	{"inet", `set_masklen((trunc(random() * 256) || '.' || trunc(random() * 256) || '.' || trunc(random() * 256) || '.' || trunc(random() * 256))::inet, (random() * 32)::int)`},
	{"cidr", `network(set_masklen((select array_to_string(array_agg(case when random() < 0.5 then '0' else to_hex((random() * 65535)::int) end), ':')
		from generate_series(1, 8) where i > 0)::inet, (random() * 128)::int))`},
	{"bytea", "decode(md5(random()::text), 'hex')"},
	{"uuid", "gen_random_uuid()"},
	{"varbit", "(random() * 1e9)::int8::bit(40)::varbit"},
	{"int8", "((random() - 0.5) * 10 ^ (random() * 18.9))::int8"},
	{"text[]", `array[chr(32 + (random() * 100)::int) || chr(32 + (random() * 100)::int), chr(34), chr(92), case when random() < 0.3 then null else 'NULL' end, '']`},
	{"numeric(20,5)[]", "array[(random() * 1e9)::numeric, null, (random() - 0.5)::numeric]"},
}

func TestRandomValuesDecodeAlikeInBothFormats(t *testing.T) {
	conn := postgres.ForTest(t).Database(t).Connect(t)
	run(t, conn, "SET TimeZone='UTC'; SET DateStyle='ISO'; SET IntervalStyle='iso_8601'; SET extra_float_digits=3; SELECT setseed(0.5)")
	for n, c := range randomCases {
		t.Run(fmt.Sprintf("%d %s", n, c.sql), func(t *testing.T) {
			pg := describeColumn(t, conn, c.sql)
			lake := Lake(pg, Options{}, false)
			d := codec(t, pg, lake, Options{}, false)
			run(t, conn, fmt.Sprintf("CREATE TEMP TABLE made AS SELECT i, (%s)::%s AS v FROM generate_series(1, 400) i", c.expression, c.sql))
			defer run(t, conn, "DROP TABLE made")
			texts := fetch(t, conn, "SELECT v, i FROM made ORDER BY i", false)
			binaries := fetch(t, conn, "SELECT v, i FROM made ORDER BY i", true)
			one, two := builder(lake), builder(lake)
			for i := range texts {
				if err := d.Append(one, false, texts[i][0]); err != nil {
					t.Fatal(err)
				}
				if err := d.Append(two, true, binaries[i][0]); err != nil {
					t.Fatal(err)
				}
			}
			a, b := one.NewArray(), two.NewArray()
			for i := range texts {
				if got, was := b.ValueStr(i), a.ValueStr(i); got != was {
					t.Errorf("%s decodes to %s, and its binary form to %s", texts[i][0], was, got)
				}
				if s, ok := b.(*array.String); ok && s.Value(i) != string(texts[i][0]) {
					t.Errorf("%s is kept as %s", texts[i][0], s.Value(i))
				}
				sameKeys(t, d, lake, texts[i][0], binaries[i][0], a, i)
			}
			if !array.Equal(a, b) {
				t.Error("text and binary give different arrays")
			}
		})
	}
}
