package iceberg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/claims"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/lsn"
)

// ErrNothingLost means that the catalog knows all that the warehouse does.
var ErrNothingLost = errors.New("the catalog has not been lost")

// Recovery is what Recover has made of a warehouse.
type Recovery struct {
	// State is the pipeline's as it stands in the catalog now; every change before its Position is in the tables.
	State  formats.State
	Tables []RecoveredTable
	// Dropped tells that the metadata of a last checkpoint was there for some of its tables only, and was left out.
	Dropped bool
}

// RecoveredTable is one table of a Recovery.
type RecoveredTable struct {
	Name formats.TableName
	// Checkpoint is the last one that changed it.
	Checkpoint  int64
	Rows, Files int64
	// Damage says what of it is missing from the warehouse; it is set aside and copied anew. "" when it is whole.
	Damage string
	// SetAside is the reason why it was not followed.
	SetAside string
}

// Recover makes the catalog of a pipeline anew from the warehouse: the pointers of all tables, as of the newest checkpoint
// that all of them hold (promise 3), and the pipeline's state. It is for a catalog that was lost, or is an older copy;
// ErrNothingLost otherwise. No writer may run. A checkpoint whose files are all stored counts as committed, whether its
// swap was made or not: the lake holds all of it, and the source has not been told more. It reads the metadata, not the
// data, and blocks on warehouse and catalog.
func Recover(ctx context.Context, cfg Config) (*Recovery, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	c, err := openCatalog(ctx, cfg.Catalog, true)
	if err != nil {
		return nil, err
	}
	defer c.close()
	l := &Lake{cfg: cfg, catalog: c}
	names, err := claims.Names(ctx, cfg.Store, cfg.Pipeline)
	if err != nil {
		return nil, err
	}
	held, err := l.catalogEpoch(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case len(names) == 0 && held == 0:
		return nil, fmt.Errorf("the warehouse %s holds nothing of pipeline %s: check lake.warehouse and pipeline", cfg.Store.Warehouse(), cfg.Pipeline)
	case claims.Newest(names) <= held:
		return nil, fmt.Errorf("%w: it is as new as the warehouse (claim %d of pipeline %s)", ErrNothingLost, held, cfg.Pipeline)
	}
	f := &finder{store: cfg.Store, folder: claims.Folder(cfg.Store, cfg.Pipeline), names: names}
	if err := f.find(ctx); err != nil {
		return nil, fmt.Errorf("pipeline %s cannot be recovered: %w", cfg.Pipeline, err)
	}
	r, rows, err := f.recovery(ctx)
	if err != nil {
		return nil, fmt.Errorf("pipeline %s cannot be recovered: %w", cfg.Pipeline, err)
	}
	r.State.Pipeline = cfg.Pipeline
	kept := checkpointsOf(rows)
	err = c.retry(ctx, func() error {
		return c.transact(ctx, func(tx *sql.Tx) error { return l.restore(ctx, tx, &r.State, rows, kept) })
	})
	if err != nil {
		return nil, fmt.Errorf("the recovered catalog cannot be written: %w", err)
	}
	return r, nil
}

// candidate is a metadata file that may be a table's newest.
type candidate struct {
	location string
	mark     mark
	position lsn.LSN
}

// foundTable is a table of the journal with its metadata files.
type foundTable struct {
	journalRow
	objects map[string]bool
	// later are metadata files newer than the journal's pointer, newest last; those not read yet.
	later []string
	top   *candidate
}

// finder looks for the newest state that a warehouse holds whole.
type finder struct {
	store  storage.Store
	folder string
	names  []string

	// chain are the entries in force, the base first.
	chain   []*journalEntry
	tables  map[string]*foundTable
	listed  map[string]map[string]bool // objects by table location
	last    mark
	dropped bool
}

// find settles on a chain of entries and on a metadata file for each of its tables.
func (f *finder) find(ctx context.Context) error {
	entries, err := f.readEntries(ctx)
	if err != nil {
		return err
	}
	f.listed = map[string]map[string]bool{}
	for {
		if !f.link(entries) {
			return errors.New("its journal in the warehouse holds no whole entry to begin from; run `streambedd resync --all` to copy every table from the source again")
		}
		again, err := f.settle(ctx)
		if err != nil || !again {
			return err
		}
		// The last entry's attempt was not stored whole.
		delete(entries, f.chain[len(f.chain)-1].Journal)
		f.dropped = true
	}
}

func (f *finder) readEntries(ctx context.Context) (map[string]*journalEntry, error) {
	entries := map[string]*journalEntry{}
	for _, name := range f.names {
		if strings.HasSuffix(name, positionSuffix) {
			continue
		}
		e, err := f.readEntry(ctx, name)
		if err != nil {
			return nil, err
		}
		entries[name] = e
	}
	return entries, nil
}

func (f *finder) readEntry(ctx context.Context, name string) (*journalEntry, error) {
	body, err := f.store.Get(ctx, f.folder+name)
	if err != nil {
		return nil, err
	}
	e := &journalEntry{}
	if err := json.Unmarshal(body, e); err != nil {
		return nil, fmt.Errorf("journal entry %s: %w", name, err)
	}
	return e, nil
}

// link makes the chain of the newest base, and gathers its tables; false when there is no base.
func (f *finder) link(entries map[string]*journalEntry) bool {
	f.chain, f.tables = nil, map[string]*foundTable{}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(entries))) {
		if entries[name].Base {
			f.chain = append(f.chain, entries[name])
			break
		}
	}
	if len(f.chain) == 0 {
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if e := entries[name]; !e.Base && e.Previous == f.chain[len(f.chain)-1].Journal {
			f.chain = append(f.chain, e)
		}
	}
	for _, e := range f.chain {
		for _, row := range e.Rows {
			f.tables[row.State.Table.ID] = &foundTable{journalRow: row}
		}
		for _, id := range e.Forgotten {
			delete(f.tables, id)
		}
	}
	f.beginCopiesAnew()
	return true
}

// beginCopiesAnew leaves out copies under way, whose progress the journal does not tell. A table's first copy begins anew
// by itself, when the table is found at the source and not in the state.
func (f *finder) beginCopiesAnew() {
	for _, id := range sortedKeys(f.tables) {
		t := f.tables[id]
		if t.State.Phase != formats.Copying || t.Published {
			continue
		}
		delete(f.tables, id)
		for _, other := range f.tables {
			if other.Published && other.State.Table.Name == t.State.Table.Name {
				other.State.Resync = true
			}
		}
	}
}

// settle finds each table's newest metadata file of the chain, and makes sure that the last checkpoint is there whole.
// again tells that the chain's last entry is not.
func (f *finder) settle(ctx context.Context) (again bool, err error) {
	for _, t := range f.tables {
		if err := f.list(ctx, t); err != nil {
			return false, err
		}
		if err := f.next(ctx, t); err != nil {
			return false, err
		}
	}
	for {
		entry := f.chain[len(f.chain)-1]
		f.last = entry.mark
		for _, t := range f.tables {
			if t.top.mark.Checkpoint > f.last.Checkpoint {
				f.last = t.top.mark
			}
		}
		var of []*foundTable
		for _, t := range f.tables {
			if t.top.mark.Attempt == f.last.Attempt {
				of = append(of, t)
			}
		}
		switch {
		case len(of) == f.last.Tables:
			return false, f.readPosition(ctx)
		case f.last.Attempt == entry.Attempt:
			return f.missing(entry), f.readPosition(ctx)
		}
		// Taken back to what each table held before.
		f.dropped = true
		for _, t := range of {
			if err := f.next(ctx, t); err != nil {
				return false, err
			}
		}
	}
}

// missing reports whether a metadata file that an entry's own attempt made is not there. Tables that have been left out
// since are not asked for.
func (f *finder) missing(e *journalEntry) bool {
	for _, row := range e.Rows {
		if t := f.tables[row.State.Table.ID]; row.Staged && t != nil && !t.objects[row.Pointer] {
			return true
		}
	}
	return false
}

// list finds a table's objects, and among them the metadata files newer than the journal's pointer.
func (f *finder) list(ctx context.Context, t *foundTable) error {
	at := t.State.Table.Location
	if f.listed[at] == nil {
		objects := map[string]bool{}
		err := f.store.List(ctx, at+"/", func(o storage.Info) error { objects[o.URI] = true; return nil })
		if err != nil {
			return fmt.Errorf("the files of table %s cannot be listed: %w", formatName(t.State.Table.Name), err)
		}
		f.listed[at] = objects
	}
	t.objects, t.later = f.listed[at], nil
	for uri := range t.objects {
		name := path.Base(uri)
		if strings.HasSuffix(name, ".metadata.json") && name[0] >= '0' && name[0] <= '9' && versionOf(uri) > versionOf(t.Pointer) {
			t.later = append(t.later, uri)
		}
	}
	slices.SortFunc(t.later, func(a, b string) int { return versionOf(a) - versionOf(b) })
	return nil
}

// next moves a table to its next older metadata file of the chain; the oldest is the journal's own.
func (f *finder) next(ctx context.Context, t *foundTable) error {
	for len(t.later) > 0 {
		uri := t.later[len(t.later)-1]
		t.later = t.later[:len(t.later)-1]
		c, err := f.candidate(ctx, uri)
		if err != nil {
			return err
		}
		if c != nil && slices.ContainsFunc(f.chain, func(e *journalEntry) bool { return e.Journal == c.mark.Journal }) {
			t.top = c
			return nil
		}
	}
	t.top = &candidate{location: t.Pointer}
	if c, err := f.candidate(ctx, t.Pointer); err == nil && c != nil {
		t.top = c
	}
	return nil
}

// candidate reads a metadata file's mark; nil for a file that is not of ours.
func (f *finder) candidate(ctx context.Context, uri string) (*candidate, error) {
	body, err := f.store.Get(ctx, uri)
	if err == nil {
		body, err = inflate(body)
	}
	if err != nil {
		return nil, err
	}
	md, err := parseHistory(body)
	if err != nil {
		return nil, nil // torn, or not ours
	}
	m, position, err := decodeMark(md.properties[markProperty])
	if err != nil || m.Snapshot != max(md.currentID, 0) {
		return nil, nil
	}
	return &candidate{location: uri, mark: m, position: position}, nil
}

// readPosition goes on to a position past the last checkpoint, up to which nothing changed.
func (f *finder) readPosition(ctx context.Context) error {
	name := positionName(f.chain[0].Epoch)
	if !slices.Contains(f.names, name) {
		return nil
	}
	e, err := f.readEntry(ctx, name)
	if err != nil {
		return err
	}
	known := slices.ContainsFunc(f.chain, func(held *journalEntry) bool { return held.Journal == e.Journal })
	if known && e.Checkpoint > f.last.Checkpoint {
		f.last = e.mark
	}
	return nil
}

// recoveredRow is a row of the catalog to be written.
type recoveredRow struct {
	journalRow
	content *content
}

// recovery loads the content of every table and says what is missing.
func (f *finder) recovery(ctx context.Context) (*Recovery, []*recoveredRow, error) {
	position, err := lsn.Parse(f.last.Position)
	if err != nil {
		return nil, nil, err
	}
	base := f.chain[0]
	r := &Recovery{Dropped: f.dropped, State: formats.State{Epoch: base.Epoch, Position: position, Checkpoint: f.last.Checkpoint,
		CommitTime: fromMicros(f.last.CommitTime), Known: fromMicros(f.last.Known), Identity: f.chain[len(f.chain)-1].Identity}}
	var rows []*recoveredRow
	for _, id := range sortedKeys(f.tables) {
		t := f.tables[id]
		name := t.State.Table.Name
		row := &recoveredRow{journalRow: t.journalRow}
		row.Pointer = t.top.location
		if row.content, err = loadContent(ctx, f.store, row.Pointer); err != nil {
			return nil, nil, fmt.Errorf("table %s cannot be read: %w; if its files are gone, run `streambedd resync --all`", formatName(name), err)
		}
		out := RecoveredTable{Name: name, Checkpoint: row.content.head().Checkpoint, Files: row.content.totals.dataFiles,
			Rows: row.content.totals.records - row.content.totals.posDeletes}
		for _, file := range sortedKeys(row.content.files) {
			if !t.objects[file] {
				out.Damage = fmt.Sprintf("data file %s is missing from the warehouse", file)
				row.State.SetAside = out.Damage + "; the table is copied anew at the next start"
				row.State.Resync = true
				break
			}
		}
		if schema, err := decodeSchema(row.content.schema); err == nil && schema.ID != row.State.Schema.ID {
			row.State.Schema = schema
		}
		out.SetAside = row.State.SetAside
		r.State.Tables = append(r.State.Tables, row.State)
		if row.Published {
			r.Tables = append(r.Tables, out)
		}
		rows = append(rows, row)
	}
	return r, rows, nil
}
