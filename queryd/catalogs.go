package queryd

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/queryd/catalog"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/queryd/names"
	"github.com/streambed/streambed/queryd/rewrite"
	"github.com/streambed/streambed/queryd/sqltext"
)

// catalogs keeps the catalog's relations as tables of the engine, one set for each set of table definitions that is
// asked about. They change only when a table or column does, so few sets are ever made.
type catalogs struct {
	db        *duck.DB
	templates map[string]rewrite.Node

	mu      sync.Mutex
	next    int
	entries map[string]*catalogSet
	// order are the sets' keys, the longest unused first.
	order []string
}

// catalogSet is one set of catalog relations.
type catalogSet struct {
	schema    string
	catalog   *catalog.Catalog
	relations map[[2]string]*catalog.Relation
	users     int
	once      sync.Once
	err       error
}

// keptCatalogs bounds the sets that are kept while unused.
const keptCatalogs = 4

// setUpCatalog makes what all catalogs share: the macros that name types, and the functions that are expressions.
func newCatalogs(ctx context.Context, db *duck.DB) (*catalogs, error) {
	c := &catalogs{db: db, entries: map[string]*catalogSet{}, templates: map[string]rewrite.Node{}}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	if err := conn.Exec(ctx, typeNameMacro); err != nil {
		return nil, fmt.Errorf("preparing the catalog: %w", err)
	}
	for name, expression := range catalog.Functions() {
		parts, err := sqltext.Split("SELECT " + expression)
		if err != nil {
			return nil, fmt.Errorf("preparing function %s: %w", name, err)
		}
		answer, _, err := conn.Text(ctx, "SELECT json_serialize_sql(?::VARCHAR)::VARCHAR", sqltext.Fold(parts[0]).Text)
		if err != nil {
			return nil, fmt.Errorf("preparing function %s: %w", name, err)
		}
		if c.templates[name], err = rewrite.ParseExpression([]byte(answer)); err != nil {
			return nil, fmt.Errorf("preparing function %s: %w", name, err)
		}
	}
	return c, nil
}

// typeNameMacro writes a type's name as format_type does.
const typeNameMacro = `CREATE MACRO streambed_type_name(n, m) AS
	CASE n WHEN 'int2' THEN 'smallint' WHEN 'int4' THEN 'integer' WHEN 'int8' THEN 'bigint' WHEN 'float4' THEN 'real' WHEN 'float8' THEN 'double precision'
	WHEN 'bool' THEN 'boolean' WHEN 'bpchar' THEN 'character' || CASE WHEN m >= 4 THEN '(' || (m - 4) || ')' ELSE '' END
	WHEN 'varchar' THEN 'character varying' || CASE WHEN m >= 4 THEN '(' || (m - 4) || ')' ELSE '' END
	WHEN 'numeric' THEN 'numeric' || CASE WHEN m >= 4 THEN '(' || ((m - 4) >> 16) || ',' || ((m - 4) & 2047) || ')' ELSE '' END
	WHEN 'timestamp' THEN 'timestamp without time zone' WHEN 'timestamptz' THEN 'timestamp with time zone' WHEN 'time' THEN 'time without time zone'
	WHEN 'timetz' THEN 'time with time zone' WHEN 'varbit' THEN 'bit varying' WHEN 'char' THEN '"char"' ELSE n END`

// acquire gives the catalog of a view's tables; the caller releases it.
func (c *catalogs) acquire(ctx context.Context, n *session, view *formats.View) (*catalogSet, error) {
	key := catalogKey(n, view)
	c.mu.Lock()
	set := c.entries[key]
	if set == nil {
		c.next++
		set = &catalogSet{schema: "streambed_catalog" + strconv.Itoa(c.next)}
		c.entries[key] = set
	}
	set.users++
	c.touch(key)
	drop := c.evict()
	c.mu.Unlock()
	for _, d := range drop {
		c.drop(d)
	}
	set.once.Do(func() { set.err = c.load(context.WithoutCancel(ctx), set, n, view) })
	if set.err != nil {
		c.release(set)
		c.mu.Lock()
		if c.entries[key] == set {
			delete(c.entries, key)
		}
		c.mu.Unlock()
		return nil, set.err
	}
	return set, nil
}

func (c *catalogs) touch(key string) {
	for i, k := range c.order {
		if k == key {
			c.order = append(c.order[:i], c.order[i+1:]...)
			break
		}
	}
	c.order = append(c.order, key)
}

// evict takes out unused sets beyond the bound, oldest first.
func (c *catalogs) evict() (drop []*catalogSet) {
	for i := 0; i < len(c.order) && len(c.entries) > keptCatalogs; {
		set := c.entries[c.order[i]]
		if set != nil && set.users > 0 {
			i++
			continue
		}
		if set != nil {
			delete(c.entries, c.order[i])
			drop = append(drop, set)
		}
		c.order = append(c.order[:i], c.order[i+1:]...)
	}
	return drop
}

func (c *catalogs) release(set *catalogSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set.users--
}

func (c *catalogs) drop(set *catalogSet) {
	ctx := context.Background()
	if conn, err := c.db.Conn(ctx); err == nil {
		_ = conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+set.schema+" CASCADE")
		conn.Release()
	}
}

// catalogKey names what a catalog is made of: the tables with their columns, and whose session it is.
func catalogKey(n *session, view *formats.View) string {
	h := fnv.New128a()
	for i := range view.Tables {
		t := &view.Tables[i]
		encoded, _ := json.Marshal([]any{t.Name, t.Schema, t.SetAside})
		h.Write(encoded)
	}
	return n.database + "\x00" + n.user + "\x00" + string(h.Sum(nil))
}

// load makes the set's tables.
func (c *catalogs) load(ctx context.Context, set *catalogSet, n *session, view *formats.View) error {
	in := catalog.Input{Database: n.database, User: n.user, Views: streambedTables()}
	for i := range view.Tables {
		in.Tables = append(in.Tables, describeTable(&view.Tables[i]))
	}
	for _, name := range sortedSettings() {
		in.Settings = append(in.Settings, [2]string{name, n.settings.begin[name]})
	}
	set.catalog = catalog.Build(in)
	set.relations = map[[2]string]*catalog.Relation{}
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := conn.Exec(ctx, "CREATE SCHEMA "+set.schema); err != nil {
		return err
	}
	for _, r := range set.catalog.Relations {
		set.relations[[2]string{r.Schema, r.Name}] = r
		if err := loadRelation(ctx, conn, set.schema, r); err != nil {
			return fmt.Errorf("making catalog relation %s.%s: %w", r.Schema, r.Name, err)
		}
	}
	return nil
}

// rowsAtOnce bounds the rows of one INSERT.
const rowsAtOnce = 1000

func loadRelation(ctx context.Context, conn *duck.Conn, schema string, r *catalog.Relation) error {
	table := schema + "." + catalogTable(r.Schema, r.Name)
	columns := make([]string, len(r.Columns))
	for i, c := range r.Columns {
		columns[i] = duck.Identifier(names.Encode(c.Name)) + " " + c.DuckType()
	}
	if err := conn.Exec(ctx, "CREATE TABLE "+table+" ("+strings.Join(columns, ", ")+")"); err != nil {
		return err
	}
	for rows := r.Rows; len(rows) > 0; {
		part := rows[:min(rowsAtOnce, len(rows))]
		rows = rows[len(part):]
		var b strings.Builder
		b.WriteString("INSERT INTO " + table + " VALUES ")
		for i, row := range part {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteByte('(')
			for k, v := range row {
				if k > 0 {
					b.WriteString(", ")
				}
				b.WriteString(sqlValue(v))
			}
			b.WriteByte(')')
		}
		if err := conn.Exec(ctx, b.String()); err != nil {
			return err
		}
	}
	r.Rows = nil
	return nil
}

// catalogTable is the engine's name of a catalog relation.
func catalogTable(schema, name string) string { return duck.Identifier(schema + "." + name) }

func sqlValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case string:
		return duck.Literal(v)
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []int64:
		parts := make([]string, len(v))
		for i, n := range v {
			parts[i] = strconv.FormatInt(n, 10)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case []string:
		parts := make([]string, len(v))
		for i, s := range v {
			parts[i] = duck.Literal(s)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	panic(fmt.Sprintf("a catalog row has a value of type %T", v))
}

// describeTable says what the catalog shows of a table.
func describeTable(t *formats.ViewTable) catalog.Table {
	d := catalog.Table{Schema: t.Name.Schema, Name: t.Name.Table, Key: t.Schema.Key}
	if t.Schema.KeyKind != formats.KeyPrimary {
		d.Key = nil
	}
	key := map[int]bool{}
	for _, k := range d.Key {
		key[k] = true
	}
	for i := range t.Schema.Columns {
		c := &t.Schema.Columns[i]
		shown := shownType(c)
		if !catalog.KnownType(shown.OID) {
			shown.OID, shown.Typmod = 25, -1
		}
		d.Columns = append(d.Columns, catalog.TableColumn{Name: c.Name, Type: shown.OID, Typmod: shown.Typmod, NotNull: key[i], Number: i + 1})
	}
	switch {
	case t.SetAside != "":
		d.Comment = "does not follow the source at present: " + t.SetAside
	case t.Schema.KeyKind == formats.KeyNone:
		d.Comment = "append-only: the source table has no key"
	}
	return d
}

// relation gives what stands for a catalog relation in a query; ok is false when there is none of that name.
func (e *environment) catalogRelation(view *formats.View, schema, name string) (r rewrite.Relation, ok bool, err error) {
	if e.catalog == nil {
		if e.catalog, err = e.session.engine.catalogs.acquire(e.ctx, e.session, view); err != nil {
			return r, false, err
		}
		e.plan.catalogs = append(e.plan.catalogs, e.catalog)
	}
	found := e.catalog.relations[[2]string{schema, name}]
	if found == nil {
		return r, false, nil
	}
	r = rewrite.Relation{Schema: e.catalog.schema, Name: schema + "." + name, OID: found.OID}
	for i := range found.Columns {
		c := rewrite.Column{Name: found.Columns[i].Name}
		if source := found.Columns[i].Source(); source != nil {
			c.Origin = source
		}
		r.Columns = append(r.Columns, c)
	}
	return r, true, nil
}
