package iceberg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/claims"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/lsn"
)

// Lake implements formats.Lake.
type Lake struct {
	cfg     Config
	catalog *catalog

	// committing is held for the whole of a Claim, SetIdentity or Commit.
	committing sync.Mutex
	// pending is a commit whose outcome is not known yet; guarded by committing.
	pending *attempt
	journal *journal
	// hints is nil without Config.Hints.
	hints *hints

	// mu guards what follows, and the content of the incarnations.
	mu      sync.Mutex
	claimed bool
	state   formats.State
	// newSource allows one checkpoint to move the position back.
	newSource bool
	kept      []checkpoint // that can be read, oldest first
	tables    map[string]*incarnation
}

var _ formats.Lake = (*Lake)(nil)

// incarnation is a stored incarnation of a table.
type incarnation struct {
	state     formats.TableState
	published bool
	pointer   string
	// schema is the formats.Schema in force, as JSON.
	schema string
	head   head
	// warned is when the last warning about slow rewrites was; only Commit uses it.
	warned time.Time
	// looked is the sequence number at which compaction last read the equality deletes; only Prepare uses it.
	looked int64
	// stuck is why the table is not in its mode; only Claim and Commit use it.
	stuck error
	// moved are the files that commits of this claim replaced; only Commit uses it.
	moved formats.Moves
	// loading is held while content is read.
	loading sync.Mutex
	content *content // nil until first needed
}

// Open opens a lake, making its catalog's tables where they are missing. It blocks on the catalog.
func Open(ctx context.Context, cfg Config) (*Lake, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	if err := cfg.checkModes(); err != nil {
		return nil, err
	}
	c, err := openCatalog(ctx, cfg.Catalog, true)
	if err != nil {
		return nil, err
	}
	l := &Lake{cfg: cfg, catalog: c, tables: map[string]*incarnation{}}
	if cfg.Hints {
		l.hints = newHints(cfg.Store, cfg.Log)
	}
	return l, nil
}

// Close writes the last version hints and releases the catalog's connections. Readers made by Reader must not be used
// afterwards.
func (l *Lake) Close() error {
	if l.hints != nil {
		l.hints.close()
	}
	return l.catalog.close()
}

// NewTable gives a fresh incarnation its ID and location; nothing is stored.
func (l *Lake) NewTable(name formats.TableName) formats.TableRef {
	id := uuid.Must(uuid.NewV7()).String()
	return formats.TableRef{ID: id, Name: name, Location: strings.Join([]string{l.cfg.Store.Warehouse(),
		storage.EncodeName(name.Schema), storage.EncodeName(name.Table), id}, "/")}
}

// Claim raises the pipeline's epoch and reads its state.
func (l *Lake) Claim(ctx context.Context) (*formats.State, error) {
	l.committing.Lock()
	defer l.committing.Unlock()
	names, err := l.checkJournal(ctx)
	if err != nil {
		return nil, err
	}
	var st formats.State
	var kept []checkpoint
	var tables map[string]*incarnation
	err = l.catalog.retry(ctx, func() error {
		return l.catalog.transact(ctx, func(tx *sql.Tx) (err error) {
			if st, err = l.claim(ctx, tx, claims.Newest(names)); err != nil {
				return err
			}
			if kept, err = readCheckpoints(ctx, tx, l.cfg.Pipeline); err != nil {
				return err
			}
			tables, err = l.readTables(ctx, tx)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot claim pipeline %s in the catalog: %w", l.cfg.Pipeline, err)
	}
	if err := l.journalClaim(ctx, &st, tables, names); err != nil {
		return nil, err
	}
	for _, id := range sortedKeys(tables) {
		st.Tables = append(st.Tables, tables[id].state)
	}
	l.mu.Lock()
	l.pending = nil
	l.claimed, l.state, l.kept, l.tables = true, st, kept, tables
	l.mu.Unlock()
	if l.hints != nil {
		l.hints.claimed(tables)
	}
	if err := l.switchModes(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.state
	out.Tables = slices.Clone(st.Tables)
	return &out, nil
}

// claim raises the epoch above its own and the given one, making the row of a new pipeline. A COMMIT of it whose answer is lost is harmless: the next
// claim raises the epoch again.
func (l *Lake) claim(ctx context.Context, tx *sql.Tx, above int64) (formats.State, error) {
	st := formats.State{Pipeline: l.cfg.Pipeline}
	if _, err := tx.ExecContext(ctx, `INSERT INTO streambed_state (pipeline, epoch, position, checkpoint, commit_time, known, identity, attempt)
		VALUES ($1, 0, 0, 0, 0, 0, '', '') ON CONFLICT DO NOTHING`, l.cfg.Pipeline); err != nil {
		return st, err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE streambed_state SET epoch = 1 + CASE WHEN epoch > $2 THEN epoch ELSE $2 END WHERE pipeline = $1`, l.cfg.Pipeline, above); err != nil {
		return st, err
	}
	var position, commitTime, known int64
	var identity string
	err := tx.QueryRowContext(ctx, `SELECT epoch, position, checkpoint, commit_time, known, identity FROM streambed_state WHERE pipeline = $1`,
		l.cfg.Pipeline).Scan(&st.Epoch, &position, &st.Checkpoint, &commitTime, &known, &identity)
	if err != nil {
		return st, err
	}
	st.Position, st.CommitTime, st.Known = lsn.LSN(position), fromMicros(commitTime), fromMicros(known)
	if identity != "" {
		if err := json.Unmarshal([]byte(identity), &st.Identity); err != nil {
			return st, fmt.Errorf("the source's stored identity: %w", err)
		}
	}
	return st, nil
}

func (l *Lake) readTables(ctx context.Context, tx *sql.Tx) (map[string]*incarnation, error) {
	rows, err := tx.QueryContext(ctx, `SELECT id, published, metadata_location, head, lake_schema, state FROM streambed_tables WHERE pipeline = $1`, l.cfg.Pipeline)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	tables := map[string]*incarnation{}
	for rows.Next() {
		var id, head, state string
		inc := &incarnation{}
		if err := rows.Scan(&id, &inc.published, &inc.pointer, &head, &inc.schema, &state); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(head), &inc.head); err != nil {
			return nil, fmt.Errorf("the stored head of table incarnation %s: %w", id, err)
		}
		if err := json.Unmarshal([]byte(state), &inc.state); err != nil {
			return nil, fmt.Errorf("the stored state of table incarnation %s: %w", id, err)
		}
		tables[id] = inc
	}
	return tables, rows.Err()
}

// SetIdentity stores the source's identity, under the claim. After another identity than the one before, one
// checkpoint may move the position back.
func (l *Lake) SetIdentity(ctx context.Context, id formats.Identity) error {
	l.committing.Lock()
	defer l.committing.Unlock()
	text, err := json.Marshal(id)
	if err != nil {
		return err
	}
	epoch, err := l.epoch()
	if err != nil {
		return err
	}
	err = l.catalog.retry(ctx, func() error {
		return l.catalog.transact(ctx, func(tx *sql.Tx) error {
			n, err := affected(tx.ExecContext(ctx, `UPDATE streambed_state SET identity = $1 WHERE pipeline = $2 AND epoch = $3`,
				string(text), l.cfg.Pipeline, epoch))
			if err == nil && n == 0 {
				err = formats.ErrFenced
			}
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("cannot store the identity of pipeline %s's source: %w", l.cfg.Pipeline, err)
	}
	l.mu.Lock()
	l.newSource = l.newSource || l.state.Identity != (formats.Identity{}) && l.state.Identity != id
	l.state.Identity = id
	l.mu.Unlock()
	return nil
}

func (l *Lake) epoch() (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.claimed {
		return 0, errors.New("pipeline " + l.cfg.Pipeline + " has not been claimed: call Claim first")
	}
	return l.state.Epoch, nil
}

// Exists reports whether the incarnation has been created.
func (l *Lake) Exists(ref formats.TableRef) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tables[ref.ID] != nil
}

// Sequence is the highest sequence number of an incarnation; zero before its first snapshot.
func (l *Lake) Sequence(ref formats.TableRef) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	inc := l.tables[ref.ID]
	switch {
	case inc == nil:
		return 0
	case inc.content != nil:
		return inc.content.meta.LastSequenceNumber()
	}
	return inc.head.Sequence
}

// Files lists the live data files of an incarnation, by path, and its newest sequence number. It reads the store when
// the incarnation's content is not in memory yet, and for equality deletes after since.
func (l *Lake) Files(ctx context.Context, ref formats.TableRef, since int64) ([]formats.LiveFile, int64, error) {
	l.mu.Lock()
	inc := l.tables[ref.ID]
	l.mu.Unlock()
	if inc == nil || inc.pointer == "" {
		return nil, 0, nil
	}
	c, err := l.loaded(ctx, inc)
	if err != nil {
		return nil, 0, err
	}
	l.mu.Lock()
	files, reached := make([]formats.LiveFile, 0, len(c.files)), since
	for _, path := range sortedKeys(c.files) {
		if e := c.files[path]; e.file.ContentType() == dataContent {
			files = append(files, formats.LiveFile{Path: path, Rows: e.file.Count(), Sequence: e.fileSequence, Deleted: c.removed[path].bits})
			if e.fileSequence > since { // new since then, though it may hold rows from before
				reached = min(reached, e.sequence)
			}
		}
	}
	sequence := c.meta.LastSequenceNumber()
	l.mu.Unlock()
	byKey, err := l.deletedByKey(ctx, c, reached)
	if err != nil {
		return nil, 0, fmt.Errorf("table %s: %w", formatName(ref.Name), err)
	}
	for i := range files {
		files[i].Deleted = joined(files[i].Deleted, byKey[files[i].Path])
	}
	return files, sequence, nil
}

// joined gives the union of two bitmaps that may be nil and are shared.
func joined(a, b *roaring.Bitmap) *roaring.Bitmap {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return roaring.Or(a, b)
}

// deletedByKey gives the rows that equality deletes of sequence numbers above since take from the live data files.
func (l *Lake) deletedByKey(ctx context.Context, c *content, since int64) (map[string]*roaring.Bitmap, error) {
	l.mu.Lock()
	deletes := c.keyDeletes(since)
	if len(deletes) == 0 {
		l.mu.Unlock()
		return nil, nil
	}
	targets := c.targets()
	text := c.schema
	l.mu.Unlock()
	schema, err := decodeSchema(text)
	if err != nil {
		return nil, err
	}
	return newKeyResolver(l.cfg.Store, math.MaxInt64).resolve(ctx, &schema, deletes, targets)
}

func affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
