package iceberg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/claims"
	"github.com/streambed/streambed/lsn"
)

// The journal keeps in the warehouse what else only the catalog knows, so that Recover can make a lost catalog anew. It
// costs nothing while rows flow: each metadata file says in a property which checkpoint it belongs to and how many
// others do, and an entry is put beside the metadata only when a state changes for another reason than progress.
//
// Invariants that Recover builds on:
//   - An entry belongs to one claim (epoch). The first of a claim is a base: it holds every row. Another one holds what
//     changed since the entry that it names as the previous one.
//   - All metadata files that name an entry were made, one checkpoint after the other, after that entry was committed, and
//     all of them but those of the last attempt were committed: after an attempt that failed, the next entry is a base.
//   - No claim commits before its base is stored.

// markProperty is the table property that holds a metadata file's mark.
const markProperty = "streambed.commit"

// mark says which attempt made a metadata file or journal entry.
type mark struct {
	// Journal is the name of the entry in force.
	Journal    string `json:"journal"`
	Attempt    string `json:"attempt"`
	Checkpoint int64  `json:"checkpoint"`
	// Position, CommitTime and Known are the lake's with this attempt; times in microseconds.
	Position   string `json:"position"`
	CommitTime int64  `json:"commit_time"`
	Known      int64  `json:"known"`
	// Tables is the number of metadata files that the attempt made, those of copies under way left out.
	Tables int `json:"tables"`
	// Snapshot is the metadata file's current snapshot when we wrote it; another writer's file has another one.
	Snapshot int64 `json:"snapshot,omitempty"`
}

// journalRow is an incarnation's row of the catalog.
type journalRow struct {
	State     formats.TableState `json:"state"`
	Published bool               `json:"published"`
	Pointer   string             `json:"pointer"`
	// Staged tells that this entry's attempt made the metadata file.
	Staged bool `json:"staged,omitempty"`
}

// journalEntry is a stored entry.
type journalEntry struct {
	Pipeline string `json:"pipeline"`
	Epoch    int64  `json:"epoch"`
	mark
	// Base tells that Rows are all; else they are what changed since Previous.
	Base      bool             `json:"base"`
	Previous  string           `json:"previous,omitempty"`
	Identity  formats.Identity `json:"identity"`
	Rows      []journalRow     `json:"rows"`
	Forgotten []string         `json:"forgotten,omitempty"`
}

// journal is where the writer's journal stands; guarded by Lake.committing.
type journal struct {
	name   string
	serial int64
	// rebase asks for a base with the next attempt.
	rebase bool
}

// entryName orders entries by epoch and serial.
func entryName(epoch, serial int64, attempt string) string {
	return fmt.Sprintf("%s%06d-%.8s.json", claims.Prefix(epoch), serial, attempt)
}

// positionSuffix ends the name of a claim's object with the position.
const positionSuffix = "position.json"

// positionName is the object that holds the newest position which no metadata file tells of.
func positionName(epoch int64) string { return claims.Prefix(epoch) + positionSuffix }

// checkJournal refuses to go on from a catalog that knows less than the warehouse: everything would be loaded twice, or
// from a position of long ago. It returns the names in the journal folder.
func (l *Lake) checkJournal(ctx context.Context) ([]string, error) {
	names, err := claims.Names(ctx, l.cfg.Store, l.cfg.Pipeline)
	if err != nil || l.cfg.Anew {
		return names, err
	}
	held, err := l.catalogEpoch(ctx)
	if err != nil {
		return nil, err
	}
	return names, claims.Check(names, held, l.cfg.Pipeline,
		"run `streambedd recover` to make it anew from there, or `streambedd resync --all` to copy every table from the source again")
}

// catalogEpoch reads the epoch that the catalog holds, zero when it does not know the pipeline.
func (l *Lake) catalogEpoch(ctx context.Context) (epoch int64, err error) {
	err = l.catalog.retry(ctx, func() error {
		return l.catalog.read.QueryRowContext(ctx, `SELECT COALESCE(max(epoch), 0) FROM streambed_state WHERE pipeline = $1`, l.cfg.Pipeline).Scan(&epoch)
	})
	if err != nil {
		return 0, fmt.Errorf("the state of pipeline %s cannot be read from the catalog: %w", l.cfg.Pipeline, err)
	}
	return epoch, nil
}

// journalClaim begins the journal of a claim, whose state is st, with a base, and removes what earlier claims left.
func (l *Lake) journalClaim(ctx context.Context, st *formats.State, tables map[string]*incarnation, before []string) error {
	j := &journal{}
	a := &attempt{id: uuid.NewString(), epoch: st.Epoch, cp: &formats.Checkpoint{Number: st.Checkpoint, To: st.Position, CommitTime: st.CommitTime, Known: st.Known}}
	j.name = entryName(st.Epoch, j.serial, a.id)
	e := l.newEntry(a, st.Identity, mark{Journal: j.name, Attempt: a.id})
	e.Base = true
	for _, id := range sortedKeys(tables) {
		inc := tables[id]
		e.Rows = append(e.Rows, journalRow{State: inc.state, Published: inc.published, Pointer: inc.pointer})
	}
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	l.journal = j
	return claims.Note(ctx, l.cfg.Store, l.cfg.Pipeline, j.name, body, before)
}

func (l *Lake) newEntry(a *attempt, identity formats.Identity, m mark) *journalEntry {
	m.Checkpoint, m.Position = a.cp.Number, a.cp.To.String()
	m.CommitTime, m.Known = micros(a.cp.CommitTime), micros(a.cp.Known)
	return &journalEntry{Pipeline: l.cfg.Pipeline, Epoch: a.epoch, Identity: identity, mark: m}
}

// journalAttempt decides, before anything is encoded, whether the attempt writes an entry, and what its metadata files
// say.
func (l *Lake) journalAttempt(a *attempt) {
	m := mark{Journal: l.journal.name, Attempt: a.id}
	// Upkeep makes an entry since its mark has the number of the checkpoint before it, whose other tables it is not about.
	significant := l.journal.rebase || a.upkeep
	for _, r := range a.rows {
		if r.encodes && !r.hidden() {
			m.Tables++
		}
		significant = significant || l.significant(r)
	}
	if significant {
		l.journal.serial++
		m.Journal = entryName(a.epoch, l.journal.serial, a.id)
	}
	a.entry = l.newEntry(a, l.state.Identity, m)
	a.entry.Base, a.entry.Previous = l.journal.rebase, l.journal.name
	a.writesEntry = significant
}

// hidden reports whether a row is of a copy under way, which Recover begins anew.
func (r *row) hidden() bool { return r.state.Phase == formats.Copying && !r.published }

// significant reports whether a row changes in a way that its metadata does not tell: the progress of a copy is not,
// since Recover has copies begin anew.
func (l *Lake) significant(r *row) bool {
	if !r.stateChanged && !r.forgotten && r.published == r.inc.published {
		return false
	}
	if r.hidden() && l.publishedUnder(r.state.Table.Name) == nil {
		return false
	}
	was, is := r.inc.state, r.state
	was.Copy, is.Copy = nil, nil
	return r.created || r.forgotten || r.published != r.inc.published || !reflect.DeepEqual(was, is)
}

// journalPut gives the attempt's entry once all rows are staged; without one, the object that holds the position if no
// metadata file tells of it and it has moved: the source may let its log go up to there.
func (l *Lake) journalPut(a *attempt) error {
	e := a.entry
	name := e.Journal
	switch {
	case a.writesEntry:
		l.journalRows(a)
	case e.Tables == 0 && a.cp.To != a.cp.From:
		name = positionName(a.epoch)
	default:
		return nil
	}
	body, err := json.Marshal(e)
	a.journalPuts = []put{{claims.Folder(l.cfg.Store, l.cfg.Pipeline) + name, body}}
	return err
}

// journalRows fills in the rows of an entry.
func (l *Lake) journalRows(a *attempt) {
	e := a.entry
	row := func(r *row) journalRow {
		return journalRow{State: r.state, Published: r.published, Pointer: r.pointer, Staged: r.staged != nil}
	}
	for _, id := range sortedKeys(a.rows) {
		if r := a.rows[id]; r.forgotten {
			e.Forgotten = append(e.Forgotten, id)
		} else {
			e.Rows = append(e.Rows, row(r))
		}
	}
	if !e.Base {
		return
	}
	for _, id := range sortedKeys(l.tables) {
		if inc := l.tables[id]; a.rows[id] == nil {
			e.Rows = append(e.Rows, journalRow{State: inc.state, Published: inc.published, Pointer: inc.pointer})
		}
	}
}

// journalDone notes what became of an attempt.
func (l *Lake) journalDone(a *attempt, committed bool) {
	switch {
	case !committed:
		// Its files may be there, complete or not, and must never be taken for committed ones.
		l.journal.rebase = true
	case a.writesEntry:
		l.journal.name = a.entry.Journal
		l.journal.rebase = l.journal.rebase && !a.entry.Base
	}
}

// commitMark gives the property of a metadata file whose current snapshot is as given.
func (a *attempt) commitMark(snapshot int64) string {
	m := a.entry.mark
	m.Snapshot = snapshot
	text, err := json.Marshal(&m)
	if err != nil {
		panic(err) // numbers and strings
	}
	return string(text)
}

// decodeMark reads the mark of a metadata file.
func decodeMark(text string) (m mark, position lsn.LSN, err error) {
	if text == "" {
		return m, 0, errors.New("it has no property " + markProperty)
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return m, 0, err
	}
	position, err = lsn.Parse(m.Position)
	return m, position, err
}
