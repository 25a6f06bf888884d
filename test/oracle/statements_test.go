package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

func ident(name string) string { return pgx.Identifier{name}.Sanitize() }

// insert makes a statement that puts one random row into a table, over the one with its key where there is one.
func insert(random *rand.Rand, t *table) string {
	var names, values []string
	for _, c := range t.columns {
		isKey := slices.Contains(t.key, c.name)
		if !isKey && random.IntN(12) == 0 {
			continue // reads its default
		}
		names = append(names, ident(c.name))
		if isKey {
			values = append(values, keyLiteral(random, c.kind))
		} else {
			values = append(values, literal(random, c.kind))
		}
	}
	if len(names) == 0 {
		return "INSERT INTO " + t.name + " DEFAULT VALUES"
	}
	sql := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", t.name, strings.Join(names, ", "), strings.Join(values, ", "))
	if t.shape != keyed {
		return sql
	}
	set := assignments(random, t)
	if set == "" || random.IntN(3) == 0 {
		return sql + " ON CONFLICT DO NOTHING"
	}
	return fmt.Sprintf("%s ON CONFLICT (%s) DO UPDATE SET %s", sql, strings.Join(idents(t.key), ", "), set)
}

func idents(names []string) []string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = ident(n)
	}
	return quoted
}

// assignments sets some of the columns outside the key; the others stay, large ones too.
func assignments(random *rand.Rand, t *table) string {
	var set []string
	others := t.others()
	for _, c := range others {
		if random.IntN(len(others)) == 0 {
			set = append(set, ident(c.name)+" = "+literal(random, c.kind))
		}
	}
	if len(set) == 0 && len(others) > 0 {
		c := others[random.IntN(len(others))]
		set = append(set, ident(c.name)+" = "+literal(random, c.kind))
	}
	return strings.Join(set, ", ")
}

// one is a condition that a random key, or one random row, satisfies.
func one(random *rand.Rand, t *table) string {
	if t.shape != keyed {
		return fmt.Sprintf("ctid = (SELECT ctid FROM %s ORDER BY random() LIMIT 1)", t.name)
	}
	var conditions []string
	for i, k := range t.key {
		if i == 0 || random.IntN(2) == 0 {
			conditions = append(conditions, ident(k)+" = "+keyLiteral(random, t.kind(k)))
		}
	}
	return strings.Join(conditions, " AND ")
}

// change makes a random statement, or several, on a table's rows.
func change(random *rand.Rand, t *table) string {
	if t.shape == appended {
		return insert(random, t)
	}
	switch random.IntN(12) {
	case 0, 1, 2:
		return insert(random, t)
	case 3:
		var all []string
		for range 2 + random.IntN(20) {
			all = append(all, insert(random, t))
		}
		return strings.Join(all, ";")
	case 4, 5, 6:
		if set := assignments(random, t); set != "" {
			return fmt.Sprintf("UPDATE %s SET %s WHERE %s", t.name, set, one(random, t))
		}
	case 7:
		if set := assignments(random, t); set != "" {
			return fmt.Sprintf("UPDATE %s SET %s WHERE random() < 0.3", t.name, set)
		}
	case 8:
		return fmt.Sprintf("DELETE FROM %s WHERE %s", t.name, one(random, t))
	case 9:
		return fmt.Sprintf("DELETE FROM %s WHERE random() < 0.1", t.name)
	case 10:
		if t.shape == keyed { // a key changes
			k := t.key[random.IntN(len(t.key))]
			return fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s", t.name, ident(k), keyLiteral(random, t.kind(k)), one(random, t))
		}
		return strings.Repeat(insert(random, t)+";", 2) // the second may be a twin
	default:
		if t.shape == keyed && len(t.key) == 1 && (t.kind(t.key[0]) == "integer" || t.kind(t.key[0]) == "bigint") { // keys swapped
			a, b := 1+random.IntN(40), 1+random.IntN(40)
			return fmt.Sprintf("UPDATE %[1]s SET %[2]s = -1 WHERE %[2]s = %[3]d; UPDATE %[1]s SET %[2]s = %[3]d WHERE %[2]s = %[4]d; UPDATE %[1]s SET %[2]s = %[4]d WHERE %[2]s = -1",
				t.name, ident(t.key[0]), a, b)
		}
		first := insert(random, t) // the same row twice: twins without a key
		return first + ";" + first
	}
	return insert(random, t)
}

// family is work on the two tables that a foreign key binds.
func family(random *rand.Rand) string {
	id := random.IntN(20)
	switch random.IntN(6) {
	case 0, 1, 2:
		return fmt.Sprintf(`INSERT INTO child VALUES (%d, %d, %s) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
			INSERT INTO parent VALUES (%d, 'p') ON CONFLICT (id) DO NOTHING`, random.IntN(60), id, literal(random, "text"), id)
	case 3:
		return fmt.Sprintf("DELETE FROM child WHERE parent = %[1]d; DELETE FROM parent WHERE id = %[1]d", id)
	case 4:
		return fmt.Sprintf("UPDATE parent SET v = %s WHERE id = %d", literal(random, "text"), id)
	}
	return fmt.Sprintf("UPDATE child SET parent = NULL WHERE parent = %d", id)
}

// transfer moves an amount between the accounts, notes it in the ledger, and writes a message of the same into the log, by
// which it is known what the lake must hold at which position. The message goes the way of its subtransaction.
func transfer(random *rand.Rand, id int64) string {
	from, to, amount := 1+random.IntN(accounts), 1+random.IntN(accounts), 1+random.IntN(9)
	return fmt.Sprintf(`UPDATE acct_a SET x = x - %[3]d WHERE id = %[1]d; UPDATE acct_b SET x = x + %[3]d WHERE id = %[2]d;
		INSERT INTO ledger VALUES (%[4]d, %[3]d); SELECT pg_logical_emit_message(true, 'oracle', '%[1]d %[2]d %[3]d %[4]d')`, from, to, amount, id)
}
