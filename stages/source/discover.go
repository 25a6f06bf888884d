package source

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// lockTimeout bounds how long a statement of ours waits for a lock on the source (promise 5).
const lockTimeout = 2 * time.Second

// Discover reads all tables that the configuration selects and that can be published, by name, from one snapshot of the
// source's catalog. A partition is not listed beside a selected ancestor: its rows come under the ancestor's name. With
// a user's own publication only what that publishes is listed. It takes no lock on any table and blocks for a few round
// trips. Digest is the cheap way to find out whether it is worth calling again.
func Discover(ctx context.Context, conn *pgx.Conn, cfg *Config) ([]Table, error) {
	_, tables, err := discover(ctx, conn, cfg)
	return tables, err
}

// discover gives the catalog rows too.
func discover(ctx context.Context, conn *pgx.Conn, cfg *Config) (*catalog, []Table, error) {
	selection, err := cfg.Selection()
	if err != nil {
		return nil, nil, err
	}
	c := &catalog{version: ServerVersion(conn.PgConn())}
	var tables []Table
	err = inSnapshot(ctx, conn, func(tx pgx.Tx) error {
		if err := c.readNames(ctx, tx, cfg); err != nil {
			return err
		}
		if err := c.publicationGone(cfg); err != nil {
			return err
		}
		chosen := c.choose(cfg, selection)
		if err := c.readDetails(ctx, tx, chosen); err != nil {
			return err
		}
		tables, err = c.tables(cfg, chosen)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("tables of the source cannot be listed: %w", err)
	}
	return c, tables, nil
}

// inSnapshot runs f in a read-only transaction with one snapshot.
func inSnapshot(ctx context.Context, conn *pgx.Conn, f func(pgx.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		// Reading a row filter may lock its table for a moment.
		if _, err := tx.Exec(ctx, setLockTimeout); err != nil {
			return err
		}
		return f(tx)
	})
}

var setLockTimeout = fmt.Sprintf("SET LOCAL lock_timeout = %d", lockTimeout.Milliseconds())

// readNames reads what tells which tables are chosen.
func (c *catalog) readNames(ctx context.Context, tx pgx.Tx, cfg *Config) error {
	if err := tx.QueryRow(ctx, "SELECT current_setting('block_size')::bigint").Scan(&c.blockSize); err != nil {
		return err
	}
	if err := c.readPublications(ctx, tx, cfg); err != nil {
		return err
	}
	return c.readRelations(ctx, tx)
}

// readDetails reads the rest for the chosen tables and their partitions.
func (c *catalog) readDetails(ctx context.Context, tx pgx.Tx, chosen []*relation) error {
	var roots, leaves, all []uint32
	for _, r := range chosen {
		roots = append(roots, r.oid)
		for _, leaf := range c.leaves(r) {
			leaves = append(leaves, leaf.oid)
		}
	}
	all = append(append(all, roots...), leaves...)
	if err := c.readIndexes(ctx, tx, all); err != nil {
		return err
	}
	if err := c.readAttributes(ctx, tx, roots); err != nil {
		return err
	}
	if err := c.readMissing(ctx, tx, leaves); err != nil {
		return err
	}
	return c.readTypes(ctx, tx)
}

// own gives the user's own publication; nil when the publications are ours (or still to be made).
func (c *catalog) own(cfg *Config) *publication {
	if p := c.publications[cfg.Publication]; p != nil && !p.managed {
		return p
	}
	return nil
}

// choose picks the tables to follow, by name.
func (c *catalog) choose(cfg *Config, s *Selection) []*relation {
	wanted := func(r *relation) bool { return publishable(r) && s.Match(r.name) }
	if own := c.own(cfg); own != nil {
		wanted = func(r *relation) bool { return publishable(r) && s.Match(r.name) && c.sentAs(own, r) == r }
	}
	var chosen []*relation
	for _, r := range c.relations {
		if wanted(r) && !c.anyAncestor(r, wanted) {
			chosen = append(chosen, r)
		}
	}
	slices.SortFunc(chosen, func(a, b *relation) int {
		return cmp.Or(cmp.Compare(a.name.Schema, b.name.Schema), cmp.Compare(a.name.Table, b.name.Table))
	})
	return chosen
}

// publishable reports whether Postgres lets a relation into a publication.
func publishable(r *relation) bool {
	return (r.kind == 'r' || r.kind == 'p') && r.persistence == 'p'
}

func (c *catalog) anyAncestor(r *relation, is func(*relation) bool) bool {
	for r = c.relations[r.parent]; r != nil; r = c.relations[r.parent] {
		if is(r) {
			return true
		}
	}
	return false
}

// sentAs gives the relation under whose name a publication sends r's rows; nil when it does not.
func (c *catalog) sentAs(p *publication, r *relation) *relation {
	var top *relation
	for a := r; a != nil; a = c.relations[a.parent] {
		_, table := p.tables[a.oid]
		_, schema := p.schemas[a.schema]
		if table || schema || p.allTables {
			top = a
		}
	}
	switch {
	case top == nil:
		return nil
	case p.viaRoot:
		return top
	case r.kind == 'p': // has no rows; its partitions' come under their own names
		return nil
	}
	return r
}

// leaves lists the partitions of r that hold rows and log them, by oid; none for an ordinary table.
func (c *catalog) leaves(r *relation) []*relation {
	var leaves []*relation
	for _, oid := range c.children[r.oid] {
		child := c.relations[oid]
		switch {
		case child.kind == 'p':
			leaves = append(leaves, c.leaves(child)...)
		case publishable(child):
			leaves = append(leaves, child)
		}
	}
	slices.SortFunc(leaves, func(a, b *relation) int { return cmp.Compare(a.oid, b.oid) })
	return leaves
}

// tables assembles the chosen tables.
func (c *catalog) tables(cfg *Config, chosen []*relation) ([]Table, error) {
	tables := make([]Table, len(chosen))
	for i, r := range chosen {
		t := &tables[i]
		*t = Table{OID: r.oid, Name: r.name, Partitioned: r.kind == 'p', Identity: r.identity, Filenode: r.filenode, LastAttnum: r.attributes}
		in := c.publicationOf(cfg, r)
		if err := c.addColumns(t, in); err != nil {
			return nil, err
		}
		c.addLeaves(t, r)
		c.addKey(t, r)
		t.apply(cfg.Columns[r.name])
		c.addPublication(t, r, cfg, in)
	}
	return tables, nil
}

// publicationOf gives the publication whose rules hold for a table: the one it is in, of ours the first.
func (c *catalog) publicationOf(cfg *Config, r *relation) *publication {
	if own := c.own(cfg); own != nil {
		return own
	}
	for _, name := range []string{cfg.Publication, cfg.AppendPublication()} {
		if p := c.publications[name]; p != nil && p.managed && p.tables[r.oid] != nil {
			return p
		}
	}
	return nil
}

// addColumns adds the columns that the stream sends: the same for the copy (known fault: generated columns in only one
// of them). in is nil for a table that will join one of ours.
func (c *catalog) addColumns(t *Table, in *publication) error {
	generated := c.version >= 18
	var listed []int16
	if in != nil {
		generated = in.generated
		if row := in.tables[t.OID]; row != nil {
			listed = row.columns
		}
	}
	for _, a := range c.attributes[t.OID] {
		switch {
		case a.generated == 'v', listed != nil && !slices.Contains(listed, a.attnum), listed == nil && a.generated != 0 && !generated:
			continue
		}
		pg, err := c.typeOf(a.typ, a.typmod)
		if err != nil {
			return err
		}
		missing := a.missing
		if t.Partitioned {
			missing = c.missingOf(t.OID, a.name)
		}
		t.Columns = append(t.Columns, Column{Attnum: a.attnum, Xmin: a.xmin, Name: a.name, Type: pg, NotNull: a.notNull,
			Generated: a.generated != 0, Missing: missing, Toastable: a.toastable})
	}
	return nil
}

// missingOf gives what a partitioned table's old rows read in a column added later: what its partitions agree on.
func (c *catalog) missingOf(root uint32, column string) *string {
	var agreed *string
	for _, leaf := range c.leaves(c.relations[root]) {
		value, ok := c.missing[leaf.oid][column]
		switch {
		case !ok:
		case agreed == nil:
			agreed = &value
		case *agreed != value:
			return nil
		}
	}
	return agreed
}

func (c *catalog) addLeaves(t *Table, r *relation) {
	parts := []*relation{r}
	if t.Partitioned {
		parts = c.leaves(r)
	}
	for _, p := range parts {
		rows := max(0, int64(p.rows)) // -1: never analyzed
		t.Pages += uint32(p.pages)
		t.EstimatedRows += rows
		t.EstimatedBytes += (p.pages + p.toastPages) * c.blockSize
		if t.Partitioned {
			t.Leaves = append(t.Leaves, Leaf{OID: p.oid, Name: p.name, Filenode: p.filenode, Pages: uint32(p.pages), Rows: rows})
			t.Filenode += p.filenode * 2654435761 // in any order; spread, so that two that change do not cancel out
		}
	}
}

// addPublication tells where the table is and where it belongs.
func (c *catalog) addPublication(t *Table, r *relation, cfg *Config, in *publication) {
	if in != nil {
		t.Publication, t.Fingerprint = in.name, c.fingerprint(in, r)
		if settings := cfg.Columns[r.name].String(); settings != "" {
			t.Fingerprint += settingsMark + settings
		}
		// A publication that holds the table for another reason too sends every row.
		if _, schema := in.schemas[r.schema]; in.tables[r.oid] != nil && !schema && !in.allTables {
			t.Filter = in.tables[r.oid].filter
		}
		t.AppendOnly = !in.update || !in.delete
	}
	switch {
	case in != nil && !in.managed:
		t.Target = in.name
	case t.KeyKind == keyNone:
		t.Target = cfg.AppendPublication()
	default:
		t.Target = cfg.Publication
	}
	t.AppendOnly = t.AppendOnly || t.KeyKind == keyNone
}

// fingerprint identifies the catalog rows by which a publication holds a table: any change to one, and back, leaves
// another xmin or oid.
func (c *catalog) fingerprint(p *publication, r *relation) string {
	print := fmt.Sprintf("%d.%d", p.oid, p.xmin)
	if !p.managed {
		print = userFingerprint(p.name) + print
	}
	for a := r; a != nil; a = c.relations[a.parent] {
		if row := p.tables[a.oid]; row != nil {
			print += fmt.Sprintf("/table %d.%d", row.oid, row.xmin)
		}
		if row, ok := p.schemas[a.schema]; ok {
			print += fmt.Sprintf("/schema %d.%d", row.oid, row.xmin)
		}
	}
	return print
}

// settingsMark separates a fingerprint's catalog rows from the table's settings.
const settingsMark = " settings "

// SamePublication tells whether two fingerprints differ in the table's settings at most.
func SamePublication(a, b string) bool {
	a, _, _ = strings.Cut(a, settingsMark)
	b, _, _ = strings.Cut(b, settingsMark)
	return a == b
}

// apply leaves out the columns that the settings name, but for the key's, and gives the others their types.
func (t *Table) apply(settings ColumnSettings) {
	for i := range t.Columns {
		t.Columns[i].Numeric = settings.Numeric[t.Columns[i].Name]
	}
	if len(settings.Exclude) == 0 {
		return
	}
	all, key := t.Columns, t.Key
	places := make([]int, len(all))
	t.Columns = nil
	for i, c := range all {
		if slices.Contains(settings.Exclude, c.Name) && !slices.Contains(key, i) {
			t.Excluded = append(t.Excluded, c)
			continue
		}
		places[i] = len(t.Columns)
		t.Columns = append(t.Columns, c)
	}
	t.Key = nil
	for _, k := range key {
		t.Key = append(t.Key, places[k])
	}
}

// userFingerprint begins the fingerprint of a table in a user's own publication.
func userFingerprint(publication string) string { return "user's " + Quote(publication) + " " }

// InUserPublication tells whether a fingerprint is that of a table in the named publication, which we did not make.
func InUserPublication(fingerprint, publication string) bool {
	return strings.HasPrefix(fingerprint, userFingerprint(publication))
}
