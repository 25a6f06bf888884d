package oracle

import (
	"context"
	"fmt"
	"strings"
)

// alter makes one random schema change, in a transaction with changes of rows before and after it.
func (s *session) alter(ctx context.Context) error {
	if s.random.IntN(8) == 0 {
		return s.create(ctx)
	}
	t, ok := s.model.pick(s.random, func(t *table) bool { return !t.fixed })
	if !ok {
		return nil
	}
	s.model.alter(t.name, func(t *table) { t.altered++ })
	sql := s.alteration(&t)
	if strings.HasPrefix(sql, "VACUUM") {
		_, err := s.exec(ctx, sql)
		return err
	}
	if _, err := s.exec(ctx, "BEGIN"); err != nil {
		return err
	}
	if s.random.IntN(2) == 0 {
		if err := s.step(ctx, change(s.random, &t)); err != nil {
			return err
		}
	}
	refused, err := s.exec(ctx, "SAVEPOINT d; "+sql)
	if err != nil {
		return err
	}
	if refused {
		if _, err := s.exec(ctx, "ROLLBACK TO d"); err != nil {
			return err
		}
	} else if s.random.IntN(2) == 0 {
		if columns, err := columnsOf(context.WithoutCancel(ctx), s.conn, t.name); err != nil {
			return err
		} else if len(columns) > 0 {
			t.columns = columns
			if err := s.step(ctx, change(s.random, &t)); err != nil {
				return err
			}
		}
	}
	verb := "COMMIT"
	if s.random.IntN(8) == 0 {
		verb = "ROLLBACK"
	}
	if _, err := s.exec(ctx, verb); err != nil {
		return err
	}
	s.model.alter(t.name, func(t *table) { t.altered++ })
	return s.model.look(context.WithoutCancel(ctx), s.conn, t.name)
}

// alteration gives the statements of a change to a table.
func (s *session) alteration(t *table) string {
	r := s.random
	others := t.others()
	fresh := fmt.Sprintf("c%d_%d", s.number, s.next)
	s.next++
	kind := added[r.IntN(len(added))]
	table := "ALTER TABLE " + t.name + " "
	if len(others) == 0 {
		return table + "ADD COLUMN " + fresh + " " + kind
	}
	old := others[r.IntN(len(others))]
	name := ident(old.name)
	switch r.IntN(16) {
	case 0, 1:
		return table + "ADD COLUMN " + fresh + " " + kind
	case 2, 3:
		return table + "ADD COLUMN " + fresh + " " + kind + " DEFAULT " + literal(r, kind)
	case 4:
		volatile := []string{"double precision DEFAULT random()", "uuid DEFAULT gen_random_uuid()", "text DEFAULT clock_timestamp()::text", "bigserial"}
		return table + "ADD COLUMN " + fresh + " " + volatile[r.IntN(len(volatile))]
	case 5, 6:
		if len(others) > 1 {
			return table + "DROP COLUMN " + name
		}
	case 7:
		return table + "RENAME COLUMN " + name + " TO " + fresh
	case 8: // dropped and added again, of the same type or another
		if r.IntN(2) == 0 {
			kind = old.kind
		}
		return fmt.Sprintf("%[1]sDROP COLUMN %[2]s; %[1]sADD COLUMN %[2]s %[3]s", table, name, kind)
	case 9, 10:
		return s.retype(t, old)
	case 11:
		if !t.partitioned {
			return "VACUUM FULL " + t.name
		}
	case 12:
		if t.shape == keyed && !t.partitioned && t.name != "k_index" {
			return table + "REPLICA IDENTITY " + []string{"FULL", "DEFAULT"}[r.IntN(2)]
		}
	case 13: // two names change places
		if len(others) > 1 {
			other := ident(others[(r.IntN(len(others)-1)+1)%len(others)].name)
			if other != name {
				return fmt.Sprintf("%[1]sRENAME COLUMN %[2]s TO %[4]s; %[1]sRENAME COLUMN %[3]s TO %[2]s; %[1]sRENAME COLUMN %[4]s TO %[3]s", table, name, other, fresh)
			}
		}
	case 14: // nothing that concerns the lake; a row of defaults must stay possible
		return fmt.Sprintf("COMMENT ON TABLE %[1]s IS 'x'; ALTER TABLE %[1]s ALTER COLUMN %[2]s DROP DEFAULT, ALTER COLUMN %[2]s DROP NOT NULL; ANALYZE %[1]s", t.name, name)
	}
	return fmt.Sprintf("CREATE INDEX ON %s (%s) WHERE false", t.name, name)
}

// retype changes a column's type: widened, kept with other values, or to another one.
func (s *session) retype(t *table, c column) string {
	to := map[string]string{"integer": "bigint", "smallint": "integer", "real": "double precision", "numeric(12,3)": "numeric(16,3)", "character varying(20)": "text"}[c.kind]
	alter := fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE ", t.name, ident(c.name))
	switch n := s.random.IntN(4); {
	case to != "" && n < 2:
		return alter + to
	case c.kind == "integer" && n == 2:
		return alter + "integer USING " + ident(c.name) + " / 2"
	case c.kind == "text" && n == 2:
		return alter + "text USING upper(" + ident(c.name) + ")"
	}
	return fmt.Sprintf("ALTER TABLE %[1]s ALTER COLUMN %[2]s DROP DEFAULT; %[3]stext USING %[2]s::text", t.name, ident(c.name), alter)
}

// create makes a new table, or drops one that was made so, or makes it anew under its name.
func (s *session) create(ctx context.Context) error {
	made, some := s.model.pick(s.random, func(t *table) bool { return strings.HasPrefix(t.name, "made_") })
	name, sql := fmt.Sprintf("made_%d_%d", s.number, s.next), ""
	s.next++
	again := some && s.random.IntN(3) > 0
	if again {
		name, sql = made.name, "DROP TABLE "+made.name+";"
	}
	t := &table{name: name, key: []string{"id"}}
	if !again || s.random.IntN(2) == 0 {
		switch s.random.IntN(4) {
		case 0:
			t.key, t.shape = nil, bare
			sql += fmt.Sprintf("CREATE TABLE %[1]s (id int, v text); ALTER TABLE %[1]s REPLICA IDENTITY FULL", name)
		case 1:
			t.key, t.shape = nil, appended
			sql += fmt.Sprintf("CREATE TABLE %[1]s (id int, v text)", name)
		default:
			sql += fmt.Sprintf("CREATE TABLE %[1]s (v text, id %[2]s PRIMARY KEY)", name, []string{"int", "uuid", "text"}[s.random.IntN(3)])
		}
		sql += fmt.Sprintf("; ALTER TABLE %s ADD COLUMN w %s", name, added[s.random.IntN(len(added))])
	}
	if again {
		s.model.alter(name, func(t *table) { t.altered++ })
	}
	refused, err := s.exec(ctx, sql)
	if err != nil || refused {
		return err
	}
	t.altered = 1
	s.model.add(t)
	return s.model.look(context.WithoutCancel(ctx), s.conn, name)
}
