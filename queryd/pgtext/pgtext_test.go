package pgtext

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// oracle asks a real Postgres for the text of many values at once: build gives the SQL of value i.
func oracle(t *testing.T, db *postgres.Database, setup string, expressions []string) []string {
	t.Helper()
	var got []string
	const batch = 500
	for from := 0; from < len(expressions); from += batch {
		part := expressions[from:min(from+batch, len(expressions))]
		for _, row := range db.Query(t, setup+"SELECT v FROM (VALUES "+rows(part)+") x(i, v) ORDER BY i") {
			got = append(got, row[0])
		}
	}
	return got
}

func rows(expressions []string) string {
	var b strings.Builder
	for i, e := range expressions {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "(%d, (%s)::text)", i, e)
	}
	return b.String()
}

func compare(t *testing.T, expressions, want, got []string) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d values, Postgres gives %d", len(got), len(want))
	}
	for i := range want {
		if want[i] != got[i] {
			t.Errorf("%s: %q, Postgres prints %q", expressions[i], got[i], want[i])
		}
	}
}

func TestValuesPrintAsPostgresPrintsThem(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	r := rand.New(rand.NewPCG(1, 2))
	zones := []string{"UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "Australia/Lord_Howe", "Africa/Monrovia"}
	for _, zone := range zones {
		t.Run(zone, func(t *testing.T) {
			location, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			var expressions, got []string
			for range 600 {
				micros := r.Int64N(400*365*microsPerDay) - 200*365*microsPerDay
				if r.IntN(3) == 0 {
					micros = micros / microsPerSecond * microsPerSecond
				}
				expressions = append(expressions, fmt.Sprintf("'1970-01-01 00:00:00+00'::timestamptz + make_interval(secs => %d) + interval '%d microseconds'", micros/microsPerSecond, micros%microsPerSecond))
				got = append(got, string(AppendTimestampTZ(nil, micros, location)))
			}
			compare(t, expressions, oracle(t, db, "SET timezone = '"+zone+"';", expressions), got)
		})
	}
	t.Run("dates", func(t *testing.T) {
		var expressions, got []string
		for i := range 2000 {
			days := int32(r.IntN(6_000_000) - 2_400_000)
			if i < 800 {
				days = int32(i*913 - 719_528)
			}
			expressions = append(expressions, fmt.Sprintf("date '1970-01-01' + (%d)", days))
			got = append(got, string(AppendDate(nil, days)))
		}
		compare(t, expressions, oracle(t, db, "", expressions), got)
	})
	t.Run("timestamps", func(t *testing.T) {
		var expressions, got []string
		for range 1000 {
			days, micros := r.Int64N(5_000_000)-2_400_000, r.Int64N(microsPerDay)
			expressions = append(expressions, fmt.Sprintf("(date '1970-01-01' + (%d))::timestamp + interval '%d microseconds'", days, micros))
			got = append(got, string(AppendTimestamp(nil, days*microsPerDay+micros)))
			expressions = append(expressions, fmt.Sprintf("time '00:00' + interval '%d microseconds'", micros))
			got = append(got, string(AppendTime(nil, micros)))
		}
		expressions = append(expressions, "time '24:00'", "'infinity'::timestamp", "'-infinity'::timestamptz", "'infinity'::date")
		got = append(got, string(AppendTime(nil, microsPerDay)), string(AppendTimestamp(nil, TimestampInfinity)), string(AppendTimestampTZ(nil, TimestampNegInfinity, time.UTC)), string(AppendDate(nil, DateInfinity)))
		compare(t, expressions, oracle(t, db, "", expressions), got)
	})
	for style, name := range map[IntervalStyle]string{IntervalPostgres: "postgres", IntervalISO: "iso_8601"} {
		t.Run("intervals "+name, func(t *testing.T) {
			var expressions, got []string
			for i := range 1000 {
				var months, days int32
				var micros int64
				if i&1 != 0 {
					months = int32(r.IntN(100) - 50)
				}
				if i&2 != 0 {
					days = int32(r.IntN(100) - 50)
				}
				if i&4 != 0 {
					micros = r.Int64N(1_000_000_000_000) - 500_000_000_000
				}
				if i&8 != 0 {
					micros = micros / microsPerSecond * microsPerSecond
				}
				expressions = append(expressions, fmt.Sprintf("make_interval(months => %d, days => %d) + interval '%d microseconds'", months, days, micros))
				got = append(got, string(AppendInterval(nil, months, days, micros, style)))
			}
			compare(t, expressions, oracle(t, db, "SET intervalstyle = '"+name+"';", expressions), got)
		})
	}
	t.Run("floats", func(t *testing.T) {
		var expressions, got []string
		for i := range 6000 {
			f := math.Float64frombits(r.Uint64())
			if i%2 == 0 {
				f = (r.Float64() - 0.5) * math.Pow(10, float64(r.IntN(40)-20))
			}
			if i%5 == 0 {
				f = math.Pow(10, float64(i/5%40-20))
			}
			if math.IsNaN(f) || math.IsInf(f, 0) {
				continue
			}
			expressions = append(expressions, fmt.Sprintf("'%.20e'::float8", f))
			got = append(got, string(AppendFloat8(nil, f)))
			if g := float32(f); !math.IsInf(float64(g), 0) && (math.Abs(f) > 1e-37) {
				expressions = append(expressions, fmt.Sprintf("'%.12e'::float4", g))
				got = append(got, string(AppendFloat4(nil, g)))
			}
		}
		expressions = append(expressions, "'NaN'::float8", "'-Infinity'::float4", "'-0'::float8", "'infinity'::float8")
		got = append(got, string(AppendFloat8(nil, math.NaN())), string(AppendFloat4(nil, float32(math.Inf(-1)))), string(AppendFloat8(nil, math.Copysign(0, -1))), string(AppendFloat8(nil, math.Inf(1))))
		compare(t, expressions, oracle(t, db, "", expressions), got)
	})
	t.Run("quoting", func(t *testing.T) {
		var expressions, got []string
		for _, s := range []string{"", "a", "a b", `a"b`, `a\b`, "NULL", "null", "nuLL", "nulls", "{", "a,b", "(", ")", "tab\t", "é", "'", ";", "\n", "=>"} {
			literal := "'" + strings.ReplaceAll(s, "'", "''") + "'"
			expressions = append(expressions, "array["+literal+"]", "row("+literal+", null, 1)")
			got = append(got, "{"+string(AppendArrayElement(nil, []byte(s)))+"}", "("+string(AppendRecordField(nil, []byte(s)))+",,1)")
		}
		compare(t, expressions, oracle(t, db, "", expressions), got)
	})
}

func TestDecimalsOf128BitsPrintExactly(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		n := Int128{Low: r.Uint64() >> r.IntN(64), High: int64(r.Uint64()) >> r.IntN(64)}
		if r.IntN(3) == 0 {
			n.High = int64(n.Low) >> 63
		}
		scale := r.IntN(39)
		want := n.Big().String()
		if scale > 0 {
			sign := ""
			if want[0] == '-' {
				sign, want = "-", want[1:]
			}
			for len(want) <= scale {
				want = "0" + want
			}
			want = sign + want[:len(want)-scale] + "." + want[len(want)-scale:]
		}
		if got := string(AppendDecimal([]byte("x"), n, scale)); got != "x"+want {
			t.Fatalf("%v scale %d: %s, not %s", n, scale, got, want)
		}
	}
	if got := string(AppendDecimal(nil, Int128{High: math.MinInt64}, 0)); got != "-170141183460469231731687303715884105728" {
		t.Fatal(got)
	}
}

func TestBinaryNumericIsWhatPostgresSends(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	r := rand.New(rand.NewPCG(5, 6))
	var expressions, got []string
	for i := range 500 {
		n, scale := new(big.Int).SetInt64(r.Int64()>>r.IntN(63)), r.IntN(20)
		if i%2 == 0 {
			n.Neg(n)
		}
		text := AppendDecimal(nil, Int128{Low: uint64(n.Int64()), High: n.Int64() >> 63}, scale)
		expressions = append(expressions, fmt.Sprintf("encode(numeric_send('%s'::numeric), 'hex')", text))
		got = append(got, fmt.Sprintf("%x", AppendBinaryNumeric(nil, n, scale)))
	}
	compare(t, expressions, oracle(t, db, "", expressions), got)
}
