package endtoend

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// tpchTables are TPC-H's eight tables as its specification has them.
const tpchTables = `
CREATE TABLE region(r_regionkey int PRIMARY KEY, r_name char(25) NOT NULL, r_comment varchar(152));
CREATE TABLE nation(n_nationkey int PRIMARY KEY, n_name char(25) NOT NULL, n_regionkey int NOT NULL, n_comment varchar(152));
CREATE TABLE supplier(s_suppkey int PRIMARY KEY, s_name char(25) NOT NULL, s_address varchar(40) NOT NULL, s_nationkey int NOT NULL, s_phone char(15) NOT NULL, s_acctbal decimal(15,2) NOT NULL, s_comment varchar(101) NOT NULL);
CREATE TABLE customer(c_custkey int PRIMARY KEY, c_name varchar(25) NOT NULL, c_address varchar(40) NOT NULL, c_nationkey int NOT NULL, c_phone char(15) NOT NULL, c_acctbal decimal(15,2) NOT NULL, c_mktsegment char(10) NOT NULL, c_comment varchar(117) NOT NULL);
CREATE TABLE part(p_partkey int PRIMARY KEY, p_name varchar(55) NOT NULL, p_mfgr char(25) NOT NULL, p_brand char(10) NOT NULL, p_type varchar(25) NOT NULL, p_size int NOT NULL, p_container char(10) NOT NULL, p_retailprice decimal(15,2) NOT NULL, p_comment varchar(23) NOT NULL);
CREATE TABLE partsupp(ps_partkey int, ps_suppkey int, ps_availqty int NOT NULL, ps_supplycost decimal(15,2) NOT NULL, ps_comment varchar(199) NOT NULL, PRIMARY KEY (ps_partkey, ps_suppkey));
CREATE TABLE orders(o_orderkey int PRIMARY KEY, o_custkey int NOT NULL, o_orderstatus char(1) NOT NULL, o_totalprice decimal(15,2) NOT NULL, o_orderdate date NOT NULL, o_orderpriority char(15) NOT NULL, o_clerk char(15) NOT NULL, o_shippriority int NOT NULL, o_comment varchar(79) NOT NULL);
CREATE TABLE lineitem(l_orderkey int, l_partkey int NOT NULL, l_suppkey int NOT NULL, l_linenumber int, l_quantity decimal(15,2) NOT NULL, l_extendedprice decimal(15,2) NOT NULL, l_discount decimal(15,2) NOT NULL, l_tax decimal(15,2) NOT NULL, l_returnflag char(1) NOT NULL, l_linestatus char(1) NOT NULL,
	l_shipdate date NOT NULL, l_commitdate date NOT NULL, l_receiptdate date NOT NULL, l_shipinstruct char(25) NOT NULL, l_shipmode char(10) NOT NULL, l_comment varchar(44) NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber));
`

// Where TPC-H's values come from.
var (
	regions = strings.Fields("AFRICA AMERICA ASIA EUROPE MIDDLE_EAST")
	nations = strings.Fields(`ALGERIA:0 ARGENTINA:1 BRAZIL:1 CANADA:1 EGYPT:4 ETHIOPIA:0 FRANCE:3 GERMANY:3 INDIA:2 INDONESIA:2 IRAN:4 IRAQ:4 JAPAN:2 JORDAN:4 KENYA:0
		MOROCCO:0 MOZAMBIQUE:0 PERU:1 CHINA:2 ROMANIA:3 SAUDI_ARABIA:4 VIETNAM:2 RUSSIA:3 UNITED_KINGDOM:3 UNITED_STATES:1`)
	segments     = strings.Fields("AUTOMOBILE BUILDING FURNITURE HOUSEHOLD MACHINERY")
	priorities   = strings.Fields("1-URGENT 2-HIGH 3-MEDIUM 4-NOT_SPECIFIED 5-LOW")
	instructions = strings.Fields("DELIVER_IN_PERSON COLLECT_COD NONE TAKE_BACK_RETURN")
	shipModes    = strings.Fields("REG_AIR AIR RAIL SHIP TRUCK MAIL FOB AIR_REG")
	typeWords    = [3][]string{strings.Fields("STANDARD SMALL MEDIUM LARGE ECONOMY PROMO"), strings.Fields("ANODIZED BURNISHED PLATED POLISHED BRUSHED"), strings.Fields("TIN NICKEL BRASS STEEL COPPER")}
	boxWords     = [2][]string{strings.Fields("SM LG MED JUMBO WRAP"), strings.Fields("CASE BOX BAG JAR PKG PACK CAN DRUM")}
	colours      = strings.Fields(`almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood chartreuse chiffon chocolate coral cornflower cream cyan dark deep dim
		dodger drab firebrick floral forest frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki lace lavender lawn lemon light lime linen magenta maroon medium`)
	commentWords = strings.Fields(`furiously quick accounts sleep special packages requests haggle Customer deposits Complaints carefully final pinto beans regular ideas express theodolites`)
)

// tpch makes TPC-H's rows: the same ones every time, in the proportions of the specification, so that every query finds
// some.
type tpch struct {
	*rand.Rand
	scale float64
}

func newTPCH(scale float64) *tpch { return &tpch{rand.New(rand.NewPCG(1992, 12)), scale} }

func (g *tpch) rows(base int) int { return max(1, int(float64(base)*g.scale)) }

func (g *tpch) pick(words []string) string {
	return strings.ReplaceAll(words[g.IntN(len(words))], "_", " ")
}

func (g *tpch) between(from, to int) int { return from + g.IntN(to-from+1) }

// money gives an amount of cents with its point.
func money(cents int) string {
	sign := ""
	if cents < 0 {
		sign, cents = "-", -cents
	}
	return fmt.Sprintf("%s%d.%02d", sign, cents/100, cents%100)
}

func (g *tpch) comment(most int) string {
	words := make([]string, g.between(3, 8))
	for i := range words {
		words[i] = g.pick(commentWords)
	}
	text := strings.Join(words, " ")
	return text[:min(len(text), most)]
}

func (g *tpch) phone(nation int) string {
	return fmt.Sprintf("%d-%03d-%03d-%04d", 10+nation, g.between(100, 999), g.between(100, 999), g.between(1000, 9999))
}

func (g *tpch) phrase(words ...[]string) string {
	parts := make([]string, len(words))
	for i, w := range words {
		parts[i] = g.pick(w)
	}
	return strings.Join(parts, " ")
}

// retailPrice is a part's price in cents, by the specification's formula.
func retailPrice(part int) int { return 90000 + part/10%20001 + 100*(part%1000) }

// supplierOf is the i-th of a part's four suppliers.
func (g *tpch) supplierOf(part, i int) int {
	suppliers := g.rows(10_000)
	return (part+i*(suppliers/4+(part-1)/suppliers))%suppliers + 1
}

// base gives all tables but orders and their lines.
func (g *tpch) base() map[string][][]any {
	t := map[string][][]any{}
	add := func(table string, row ...any) { t[table] = append(t[table], row) }
	for i, name := range regions {
		add("region", i, strings.ReplaceAll(name, "_", " "), g.comment(100))
	}
	for i, name := range nations {
		name, region, _ := strings.Cut(name, ":")
		add("nation", i, strings.ReplaceAll(name, "_", " "), int(region[0]-'0'), g.comment(100))
	}
	for i := 1; i <= g.rows(10_000); i++ {
		nation := g.IntN(25)
		add("supplier", i, fmt.Sprintf("Supplier#%09d", i), g.comment(40), nation, g.phone(nation), money(g.between(-99999, 999999)), g.comment(100))
	}
	for i := 1; i <= g.rows(150_000); i++ {
		nation := g.IntN(25)
		add("customer", i, fmt.Sprintf("Customer#%09d", i), g.comment(40), nation, g.phone(nation), money(g.between(-99999, 999999)), g.pick(segments), g.comment(116))
	}
	for i := 1; i <= g.rows(200_000); i++ {
		maker := g.between(1, 5)
		add("part", i, g.phrase(colours, colours, colours, colours, colours), fmt.Sprintf("Manufacturer#%d", maker), fmt.Sprintf("Brand#%d%d", maker, g.between(1, 5)),
			g.phrase(typeWords[:]...), g.between(1, 50), g.phrase(boxWords[:]...), money(retailPrice(i)), g.comment(22))
		for k := range 4 {
			add("partsupp", i, g.supplierOf(i, k), g.between(1, 9999), money(g.between(100, 100000)), g.comment(150))
		}
	}
	return t
}

// orders gives the orders and their lines.
func (g *tpch) orders() map[string][][]any {
	t := map[string][][]any{}
	first, today := time.Date(1992, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1995, 6, 17, 0, 0, 0, 0, time.UTC)
	parts, customers := g.rows(200_000), g.rows(150_000)
	for i := range g.rows(1_500_000) {
		key := i/8*32 + i%8 + 1 // sparse, as specified
		customer := g.between(1, customers)
		for customer%3 == 0 && customers > 3 { // a third of the customers never order
			customer = g.between(1, customers)
		}
		ordered := first.AddDate(0, 0, g.IntN(2406))
		total, open := 0, 0
		lines := g.between(1, 7)
		large := i%3000 == 5 // large enough for query 18, at any scale
		if large {
			lines = 7
		}
		for line := 1; line <= lines; line++ {
			part, quantity, discount, tax := g.between(1, parts), g.between(1, 50), g.IntN(11), g.IntN(9)
			if large {
				quantity = 45
			}
			price := quantity * retailPrice(part)
			shipped := ordered.AddDate(0, 0, g.between(1, 121))
			received := shipped.AddDate(0, 0, g.between(1, 30))
			returned, status := "N", "O"
			if !received.After(today) {
				returned = []string{"R", "A"}[g.IntN(2)]
			}
			if !shipped.After(today) {
				status = "F"
			} else {
				open++
			}
			total += price * (100 - discount) / 100 * (100 + tax) / 100
			t["lineitem"] = append(t["lineitem"], []any{key, part, g.supplierOf(part, g.IntN(4)), line, money(quantity * 100), money(price), money(discount), money(tax), returned, status,
				shipped, ordered.AddDate(0, 0, g.between(30, 90)), received, g.pick(instructions), g.pick(shipModes), g.comment(43)})
		}
		status := "P"
		switch open {
		case 0:
			status = "F"
		case lines:
			status = "O"
		}
		t["orders"] = append(t["orders"], []any{key, customer, status, money(total), ordered, g.pick(priorities), fmt.Sprintf("Clerk#%09d", g.between(1, 1000)), 0, g.comment(78)})
	}
	return t
}

// load writes rows to the source, each table in one transaction.
func load(t *testing.T, conn *pgx.Conn, tables map[string][][]any) {
	t.Helper()
	for name, rows := range tables {
		var columns []string
		got, err := conn.Query(t.Context(), "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 ORDER BY attnum", name)
		if err == nil {
			columns, err = pgx.CollectRows(got, pgx.RowTo[string])
		}
		if err == nil {
			_, err = conn.CopyFrom(t.Context(), pgx.Identifier{name}, columns, pgx.CopyFromRows(rows))
		}
		if err != nil {
			t.Fatalf("loading %s: %v", name, err)
		}
	}
}
