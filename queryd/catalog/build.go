package catalog

import (
	"slices"
	"strconv"
	"strings"
)

// Table is a lake table as the catalog describes it.
type Table struct {
	Schema, Name string
	Columns      []TableColumn
	// Key are the indexes into Columns of the primary key's columns; empty without one.
	Key []int
	// Comment is shown as the table's description; "" for none.
	Comment string
}

// TableColumn is a column, with the type that results show.
type TableColumn struct {
	Name    string
	Type    uint32
	Typmod  int32
	NotNull bool
	Number  int
}

// Catalog is the whole catalog of a set of tables.
type Catalog struct {
	// Relations are those of pg_catalog and information_schema. Static ones are the same in every catalog.
	Relations []*Relation
	database  string
	owner     string
	schemas   map[string]uint32
	oids      map[[2]string]uint32
	taken     map[uint32]bool
	byName    map[[2]string]*Relation
}

// Input is what a catalog is made of.
type Input struct {
	// Tables are the lake's, Views the relations of schema streambed, which every lake has.
	Tables, Views []Table
	// Settings are names and values.
	Settings [][2]string
	// Database and User are the session's.
	Database, User string
}

// Build makes the catalog.
func Build(in Input) *Catalog {
	tables, views := in.Tables, in.Views
	c := &Catalog{schemas: map[string]uint32{"pg_catalog": SchemaPgCatalog, "public": SchemaPublic, "information_schema": SchemaInformation, "streambed": SchemaStreambed},
		oids: map[[2]string]uint32{}, taken: map[uint32]bool{}, byName: map[[2]string]*Relation{}}
	for _, s := range shapes {
		r := &Relation{Schema: s.Schema, Name: s.Name, Kind: s.Kind, OID: s.OID, Columns: s.Columns}
		if r.OID == 0 {
			r.OID = stableOID(c.taken, s.Schema, s.Name)
		}
		c.Relations = append(c.Relations, r)
		c.byName[[2]string{s.Schema, s.Name}] = r
		c.oids[[2]string{s.Schema, s.Name}] = r.OID
	}
	c.database, c.owner = in.Database, in.User
	c.addStatic()
	c.addSystem()
	for _, s := range in.Settings {
		c.add("pg_catalog", "pg_settings", map[string]any{"name": s[0], "setting": s[1], "category": "Streambed", "context": "user", "vartype": "string", "source": "default", "boot_val": s[1], "reset_val": s[1], "pending_restart": false})
	}
	for _, t := range slices.Concat(tables, views) {
		if _, ok := c.schemas[t.Schema]; !ok {
			c.schemas[t.Schema] = stableOID(c.taken, t.Schema)
		}
	}
	c.addSchemas()
	for i := range tables {
		c.addTable(&tables[i], 'r')
	}
	for i := range views {
		c.addTable(&views[i], 'v')
	}
	return c
}

// OID gives a relation's OID, 0 if there is none of that name.
func (c *Catalog) OID(schema, name string) uint32 { return c.oids[[2]string{schema, name}] }

// add appends a row: the values given, NULL or the type's zero for the others.
func (c *Catalog) add(schema, relation string, values map[string]any) {
	r := c.byName[[2]string{schema, relation}]
	row := make([]any, len(r.Columns))
	left := len(values)
	for i, column := range r.Columns {
		if v, ok := values[column.Name]; ok {
			row[i] = v
			left--
		} else if column.NotNull {
			row[i] = zero(&column)
		}
	}
	if left != 0 {
		panic("a row of " + relation + " has a column that the relation has not")
	}
	r.Rows = append(r.Rows, row)
}

func zero(c *Column) any {
	switch t := c.DuckType(); {
	case t == "BOOLEAN":
		return false
	case strings.HasSuffix(t, "[]"):
		return []string{}
	case t == "VARCHAR":
		return ""
	}
	return int64(0)
}

// addStatic reads the rows that are the same in every database.
func (c *Catalog) addStatic() {
	for file, relation := range map[string]string{"pg_type.tsv": "pg_type", "pg_am.tsv": "pg_am", "pg_range.tsv": "pg_range", "pg_language.tsv": "pg_language"} {
		r := c.byName[[2]string{"pg_catalog", relation}]
		for _, line := range lines(file) {
			row := make([]any, len(r.Columns))
			for i := range line {
				row[i] = parse(&r.Columns[i], line[i])
			}
			r.Rows = append(r.Rows, row)
		}
	}
	for _, line := range lines("pg_proc.tsv") {
		c.add("pg_catalog", "pg_proc", map[string]any{"oid": number(line[0]), "proname": line[1], "pronamespace": int64(SchemaPgCatalog), "proowner": int64(ownerOID),
			"prolang": int64(12), "prorettype": number(line[2]), "pronargs": number(line[3]), "prokind": "f", "provolatile": "i", "proparallel": "s", "proisstrict": true})
	}
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

func parse(c *Column, s string) any {
	switch c.DuckType() {
	case "BOOLEAN":
		return s == "t"
	case "VARCHAR":
		return s
	}
	return number(s)
}

// addSystem fills what every server has one or two of.
func (c *Catalog) addSystem() {
	add := func(relation string, values map[string]any) { c.add("pg_catalog", relation, values) }
	add("pg_database", map[string]any{"oid": int64(databaseOID), "datname": c.database, "datdba": int64(ownerOID), "encoding": int64(6), "datlocprovider": "c",
		"datallowconn": true, "datconnlimit": int64(-1), "dattablespace": int64(1663), "datcollate": "C", "datctype": "C"})
	role := map[string]any{"rolname": c.owner, "rolsuper": false, "rolinherit": true, "rolcreaterole": false, "rolcreatedb": false, "rolcanlogin": true, "rolreplication": false, "rolconnlimit": int64(-1), "rolbypassrls": false, "oid": int64(ownerOID)}
	add("pg_roles", role)
	add("pg_authid", role)
	add("pg_user", map[string]any{"usename": c.owner, "usesysid": int64(ownerOID), "usecreatedb": false, "usesuper": false, "userepl": false, "usebypassrls": false})
	c.add("information_schema", "information_schema_catalog_name", map[string]any{"catalog_name": c.database})
	c.add("information_schema", "enabled_roles", map[string]any{"role_name": c.owner})
	c.add("information_schema", "applicable_roles", map[string]any{"grantee": c.owner, "role_name": c.owner, "is_grantable": "NO"})
	for oid, name := range map[int64]string{1663: "pg_default", 1664: "pg_global"} {
		add("pg_tablespace", map[string]any{"oid": oid, "spcname": name, "spcowner": int64(ownerOID)})
	}
	for oid, name := range map[int64]string{100: "default", 950: "C", 951: "POSIX"} {
		add("pg_collation", map[string]any{"oid": oid, "collname": name, "collnamespace": int64(SchemaPgCatalog), "collowner": int64(ownerOID),
			"collprovider": "c", "collisdeterministic": true, "collencoding": int64(-1), "collcollate": "C", "collctype": "C"})
	}
}

func (c *Catalog) addSchemas() {
	for _, name := range sortedKeys(c.schemas) {
		c.add("pg_catalog", "pg_namespace", map[string]any{"oid": int64(c.schemas[name]), "nspname": name, "nspowner": int64(ownerOID)})
		c.add("information_schema", "schemata", map[string]any{"catalog_name": c.database, "schema_name": name, "schema_owner": c.owner})
	}
	for _, r := range c.Relations {
		c.addClass(r.Schema, r.Name, r.OID, r.Kind, len(r.Columns), false)
		for i, column := range r.Columns {
			t := typeByName(column.Type)
			c.addAttribute(r.OID, &TableColumn{Name: column.Name, Type: t, Typmod: -1, NotNull: column.NotNull, Number: i + 1})
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (c *Catalog) addClass(schema, name string, oid uint32, kind byte, columns int, index bool) {
	am := int64(0)
	if kind == 'r' {
		am = 2
	}
	c.add("pg_catalog", "pg_class", map[string]any{"oid": int64(oid), "relname": name, "relnamespace": int64(c.schemas[schema]), "relowner": int64(ownerOID),
		"relam": am, "relfilenode": int64(oid), "reltuples": float64(-1), "relhasindex": index, "relpersistence": "p", "relkind": string(kind),
		"relnatts": int64(columns), "relispopulated": true, "relreplident": "d"})
}

func (c *Catalog) addAttribute(table uint32, column *TableColumn) {
	t := typesByOID[column.Type]
	c.add("pg_catalog", "pg_attribute", map[string]any{"attrelid": int64(table), "attname": column.Name, "atttypid": int64(column.Type), "attstattarget": int64(-1),
		"attlen": t.length, "attnum": int64(column.Number), "attcacheoff": int64(-1), "atttypmod": int64(column.Typmod), "attbyval": t.byValue, "attalign": t.align,
		"attstorage": t.storage, "attnotnull": column.NotNull, "attislocal": true, "attcollation": t.collation, "attndims": t.dimensions})
}

func (c *Catalog) addTable(t *Table, kind byte) {
	oid := stableOID(c.taken, t.Schema, t.Name)
	c.oids[[2]string{t.Schema, t.Name}] = oid
	c.addClass(t.Schema, t.Name, oid, kind, len(t.Columns), len(t.Key) > 0)
	for i := range t.Columns {
		c.addAttribute(oid, &t.Columns[i])
	}
	if t.Comment != "" {
		c.add("pg_catalog", "pg_description", map[string]any{"objoid": int64(oid), "classoid": int64(1259), "description": t.Comment})
	}
	if kind == 'v' {
		c.add("pg_catalog", "pg_views", map[string]any{"schemaname": t.Schema, "viewname": t.Name, "viewowner": c.owner, "definition": ""})
	} else {
		c.add("pg_catalog", "pg_tables", map[string]any{"schemaname": t.Schema, "tablename": t.Name, "tableowner": c.owner, "hasindexes": len(t.Key) > 0, "hasrules": false, "hastriggers": false, "rowsecurity": false})
		for _, relation := range []string{"pg_stat_user_tables", "pg_stat_all_tables"} {
			c.add("pg_catalog", relation, map[string]any{"relid": int64(oid), "schemaname": t.Schema, "relname": t.Name})
		}
	}
	c.addInformation(t, kind)
	if len(t.Key) > 0 {
		c.addKey(t, oid)
	}
}

// addKey describes a primary key: its index and its constraint.
func (c *Catalog) addKey(t *Table, table uint32) {
	name := keyName(t.Name)
	index, constraint := stableOID(c.taken, t.Schema, name, "index"), stableOID(c.taken, t.Schema, name, "constraint")
	c.oids[[2]string{t.Schema, name}] = index
	var numbers, classes, zeros, collations []int64
	var quoted []string
	for i, k := range t.Key {
		column := t.Columns[k]
		numbers, classes, zeros, collations = append(numbers, int64(column.Number)), append(classes, 0), append(zeros, 0), append(collations, typesByOID[column.Type].collation)
		quoted = append(quoted, Quote(column.Name))
		c.addAttribute(index, &TableColumn{Name: column.Name, Type: column.Type, Typmod: column.Typmod, Number: i + 1})
		c.add("information_schema", "key_column_usage", map[string]any{"constraint_catalog": c.database, "constraint_schema": t.Schema, "constraint_name": name,
			"table_catalog": c.database, "table_schema": t.Schema, "table_name": t.Name, "column_name": column.Name, "ordinal_position": int64(i + 1)})
		c.add("information_schema", "constraint_column_usage", map[string]any{"table_catalog": c.database, "table_schema": t.Schema, "table_name": t.Name, "column_name": column.Name,
			"constraint_catalog": c.database, "constraint_schema": t.Schema, "constraint_name": name})
	}
	c.add("pg_catalog", "pg_class", map[string]any{"oid": int64(index), "relname": name, "relnamespace": int64(c.schemas[t.Schema]), "relowner": int64(ownerOID), "relam": int64(403),
		"relfilenode": int64(index), "reltuples": float64(-1), "relpersistence": "p", "relkind": "i", "relnatts": int64(len(t.Key)), "relispopulated": true, "relreplident": "n"})
	c.add("pg_catalog", "pg_index", map[string]any{"indexrelid": int64(index), "indrelid": int64(table), "indnatts": int64(len(t.Key)), "indnkeyatts": int64(len(t.Key)),
		"indisunique": true, "indisprimary": true, "indimmediate": true, "indisvalid": true, "indisready": true, "indislive": true,
		"indkey": numbers, "indcollation": collations, "indclass": classes, "indoption": zeros})
	c.add("pg_catalog", "pg_constraint", map[string]any{"oid": int64(constraint), "conname": name, "connamespace": int64(c.schemas[t.Schema]), "contype": "p", "convalidated": true,
		"conrelid": int64(table), "conindid": int64(index), "confupdtype": " ", "confdeltype": " ", "confmatchtype": " ", "conislocal": true, "connoinherit": true, "conkey": numbers})
	columns := strings.Join(quoted, ", ")
	c.add("pg_catalog", "pg_indexes", map[string]any{"schemaname": t.Schema, "tablename": t.Name, "indexname": name,
		"indexdef": "CREATE UNIQUE INDEX " + Quote(name) + " ON " + Quote(t.Schema) + "." + Quote(t.Name) + " USING btree (" + columns + ")"})
	c.add("information_schema", "table_constraints", map[string]any{"constraint_catalog": c.database, "constraint_schema": t.Schema, "constraint_name": name,
		"table_catalog": c.database, "table_schema": t.Schema, "table_name": t.Name, "constraint_type": "PRIMARY KEY", "is_deferrable": "NO", "initially_deferred": "NO", "enforced": "YES"})
}

// keyName is the name that Postgres would give the key's constraint.
func keyName(table string) string {
	const limit = 63 - len("_pkey")
	if len(table) > limit {
		table = strings.ToValidUTF8(table[:limit], "")
	}
	return table + "_pkey"
}

// Quote quotes an identifier where Postgres would.
func Quote(s string) string {
	plain := s != ""
	for i := 0; i < len(s); i++ {
		c := s[i]
		plain = plain && (c >= 'a' && c <= 'z' || c == '_' || i > 0 && c >= '0' && c <= '9')
	}
	if plain {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

func itoa(n int) string { return strconv.Itoa(n) }
