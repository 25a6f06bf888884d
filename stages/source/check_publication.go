package source

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// checkPublications looks at the publications and at whether we could make and fill them.
func (k *checker) checkPublications(ctx context.Context) error {
	if own := k.catalog.own(k.cfg); own != nil {
		k.checkOwn(own)
		return nil
	}
	missing := false
	for _, name := range []string{k.cfg.Publication, k.cfg.AppendPublication()} {
		switch p := k.catalog.publications[name]; {
		case p == nil:
			missing = true
		case !p.managed:
			k.add(Error, SubjectPublication, fmt.Sprintf("publication %s is not ours and stands where the one for tables without a key would be made: rename it, or set source.publication", Quote(name)))
		default:
			k.checkManaged(p)
		}
	}
	if missing {
		return k.checkMissing(ctx)
	}
	return k.checkMembership(ctx)
}

// checkManaged finds what somebody changed about one of ours.
func (k *checker) checkManaged(p *publication) {
	appends := p.name == k.cfg.AppendPublication()
	right := p.insert && p.truncate && p.viaRoot && p.update == !appends && p.delete == !appends && !p.allTables && len(p.schemas) == 0
	if right {
		return
	}
	var statements []string
	if p.allTables {
		statements = append(statements, "DROP PUBLICATION "+Quote(p.name)) // there is no other way back; it is made again
	} else {
		for _, s := range p.schemas {
			statements = append(statements, "ALTER PUBLICATION "+Quote(p.name)+" DROP TABLES IN SCHEMA "+Quote(s.name))
		}
		slices.Sort(statements)
		statements = append(statements, "ALTER PUBLICATION "+Quote(p.name)+" SET ("+publicationOptions(k.cfg, p.name, k.version)+")")
	}
	k.add(Error, SubjectPublication, fmt.Sprintf("publication %s was changed and does not publish what it should: mend it, and its tables are copied anew", Quote(p.name)), statements...)
}

// checkMissing tells how to make the publications where we may not.
func (k *checker) checkMissing(ctx context.Context) error {
	slot, err := ReadSlot(ctx, k.conn, k.cfg.Slot)
	if err != nil {
		return err
	}
	if slot.Exists && slot.Ours {
		k.add(Warning, SubjectPublication, fmt.Sprintf("a publication of ours is missing though slot %s exists: what changed meanwhile is not in the stream, so the tables are copied anew", k.cfg.Slot))
	}
	if k.primary == nil {
		return nil // nothing can be said from here about what we may do on the primary
	}
	var may bool
	if err := k.primary.QueryRow(ctx, "SELECT has_database_privilege(current_database(), 'CREATE')").Scan(&may); err != nil {
		return err
	}
	foreign, err := k.foreignTables(ctx)
	if err != nil || may && len(foreign) == 0 {
		return err
	}
	var statements []string
	for _, name := range []string{k.cfg.Publication, k.cfg.AppendPublication()} {
		if k.catalog.publications[name] != nil {
			continue
		}
		made := createPublication(k.cfg, name, k.version)
		if list := k.targets(name); list != "" {
			made[0] = strings.Replace(made[0], " WITH (", " FOR TABLE "+list+" WITH (", 1)
		}
		statements = append(statements, made...)
	}
	reason := "owns none of some of the tables"
	if !may {
		reason = "may not make publications in this database"
	}
	k.add(Error, SubjectPublication, fmt.Sprintf("role %s %s: have somebody who owns the tables, or a superuser, make the publications (tables added later need the same)", Quote(k.publisher), reason), statements...)
	return nil
}

// targets lists the tables that belong in a publication, for its FOR TABLE.
func (k *checker) targets(name string) string {
	var list []string
	for _, t := range k.tables {
		if t.Target == name {
			list = append(list, "ONLY "+QuoteTable(t.Name))
		}
	}
	return strings.Join(list, ", ")
}

// foreignTables gives the oids of tables that we may not put into a publication, since we do not own them.
func (k *checker) foreignTables(ctx context.Context) (map[uint32]bool, error) {
	foreign := map[uint32]bool{}
	for _, t := range k.tables {
		foreign[t.OID] = true
	}
	var owned []uint32
	err := k.primary.QueryRow(ctx, `SELECT array_agg(oid) FROM pg_class WHERE oid = ANY($1) AND pg_has_role(relowner, 'USAGE')`, k.oids()).Scan(&owned)
	for _, oid := range owned {
		delete(foreign, oid)
	}
	return foreign, err
}

func (k *checker) oids() []uint32 {
	oids := make([]uint32, len(k.tables))
	for i, t := range k.tables {
		oids[i] = t.OID
	}
	return oids
}

// checkMembership finds tables that are not where they belong and that we may not move.
func (k *checker) checkMembership(ctx context.Context) error {
	if k.primary == nil {
		return nil
	}
	foreign, err := k.foreignTables(ctx)
	if err != nil {
		return err
	}
	var owner bool // of both publications
	err = k.primary.QueryRow(ctx, `SELECT bool_and(pg_has_role(pubowner, 'USAGE')) FROM pg_publication WHERE pubname IN ($1, $2)`,
		k.cfg.Publication, k.cfg.AppendPublication()).Scan(&owner)
	if err != nil {
		return err
	}
	for _, t := range k.tables {
		if t.Publication == t.Target || owner && !foreign[t.OID] {
			continue
		}
		statements, err := k.catalog.moves(k.cfg, t.Name, t.OID, t.Target)
		if err != nil {
			return err
		}
		k.add(Error, Show(t.Name), fmt.Sprintf("role %s may not put table %s into publication %s, so that it cannot be followed: have its owner or a superuser do it",
			Quote(k.publisher), Show(t.Name), Quote(t.Target)), statements...)
	}
	return nil
}

// checkOwn looks at a user's own publication.
func (k *checker) checkOwn(p *publication) {
	k.add(Info, SubjectPublication, fmt.Sprintf("publication %s is your own and is used as it is: tables are added to it and taken out by you", Quote(p.name)))
	if len(k.tables) == 0 {
		k.add(Error, SubjectPublication, fmt.Sprintf("publication %s holds no table that source.tables selects", Quote(p.name)))
	}
	if !p.insert {
		k.add(Error, SubjectPublication, fmt.Sprintf("publication %s does not publish inserts", Quote(p.name)), k.setPublish(p))
	} else if !p.update || !p.delete || !p.truncate {
		k.add(Warning, SubjectPublication, fmt.Sprintf("publication %s does not publish %s: what they change at the source stays as it was in the lake", Quote(p.name), unpublished(p)), k.setPublish(p))
	}
	selection, err := k.cfg.Selection()
	if err != nil {
		return // Validate has said so
	}
	for _, r := range sorted(k.catalog.relations) {
		if !publishable(r) || !selection.Match(r.name) {
			continue
		}
		switch as := k.catalog.sentAs(p, r); {
		case as == nil && r.kind == 'p' && !p.viaRoot:
			// its partitions are looked at one by one
		case as == nil && (!p.viaRoot || !k.catalog.anyAncestor(r, func(a *relation) bool { return publishable(a) && selection.Match(a.name) })):
			k.add(Warning, Show(r.name), fmt.Sprintf("table %s is selected but not in publication %s, and is not followed", Show(r.name), Quote(p.name)),
				"ALTER PUBLICATION "+Quote(p.name)+" ADD TABLE ONLY "+QuoteTable(r.name))
		case as != nil && as != r && !selection.Match(as.name):
			k.add(Warning, Show(r.name), fmt.Sprintf("partition %s is sent under the name of %s, which source.tables does not select, and is not followed: select that one", Show(r.name), Show(as.name)))
		}
	}
}

func (k *checker) setPublish(p *publication) string {
	return "ALTER PUBLICATION " + Quote(p.name) + " SET (publish = 'insert, update, delete, truncate')"
}

func unpublished(p *publication) string {
	var names []string
	for _, o := range []struct {
		published bool
		name      string
	}{{p.update, "updates"}, {p.delete, "deletes"}, {p.truncate, "truncates"}} {
		if !o.published {
			names = append(names, o.name)
		}
	}
	return strings.Join(names, " and ")
}
