package ducklake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/claims"
	"github.com/streambed/streambed/formats/recent"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/lsn"
)

// Lake implements formats.Lake.
type Lake struct {
	cfg     Config
	catalog *catalog
	// store is cfg.Store when it keeps small files back; nil when nothing is inlined.
	store *Store

	// committing is held for the whole of a Claim, SetIdentity or Commit.
	committing sync.Mutex
	// pending is a commit whose outcome is not known yet; guarded by committing.
	pending *attempt

	// mu guards what follows, and the content of the incarnations.
	mu      sync.Mutex
	claimed bool
	state   formats.State
	// snapshot is the newest DuckLake snapshot that the content in memory holds.
	snapshot int64
	// newSource allows one checkpoint to move the position back.
	newSource bool
	kept      []checkpoint // that can be read, oldest first
	tables    map[string]*incarnation

	// told are warnings that have been given.
	told sync.Map
	// bodies are inlined files as Parquet.
	bodies *recent.Cache[[]byte]
}

var (
	_ formats.Lake      = (*Lake)(nil)
	_ formats.Arranging = (*Lake)(nil)
)

// Open opens a lake, making its catalog's tables where they are missing. It blocks on the catalog.
func Open(ctx context.Context, cfg Config) (*Lake, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	if hidden(cfg.Store) {
		return nil, errors.New("a store made by ducklake.NewStore keeps small files back for the lake, which must therefore be given it as it is: wrap the store beneath it")
	}
	c, err := openCatalog(cfg.Catalog)
	if err != nil {
		return nil, err
	}
	if err := c.retry(ctx, func() error { return c.create(ctx, dataPath(cfg.Store), cfg.Now()) }); err != nil {
		c.close()
		return nil, fmt.Errorf("cannot make the catalog's tables: %w", err)
	}
	l := &Lake{cfg: cfg, catalog: c, tables: map[string]*incarnation{}, bodies: recent.New[[]byte](keptBodies)}
	if l.store, _ = cfg.Store.(*Store); l.store != nil {
		l.store.serve(l.inlinedBody)
	}
	return l, nil
}

// keptBodies bounds, in bytes, the inlined files that are kept in memory for the pipeline's look-ups.
const keptBodies = 32 << 20

// base is the store that stores at once.
func (l *Lake) base() storage.Store {
	if l.store != nil {
		return l.store.Store
	}
	return l.cfg.Store
}

// inlinedBody gives a live inlined file; nil for any other.
func (l *Lake) inlinedBody(ctx context.Context, uri string) ([]byte, error) {
	if body, ok := l.bodies.Get(uri); ok {
		return body, nil
	}
	l.mu.Lock()
	var found *dataFile
	for _, inc := range l.tables {
		if f := inc.files[uri]; f != nil && f.inlined != nil {
			found = f
		}
	}
	l.mu.Unlock()
	if found == nil {
		return nil, nil
	}
	body, err := l.catalog.inlinedFile(ctx, found)
	if err == nil {
		l.bodies.Put(uri, body, int64(len(body)))
	}
	return body, err
}

// dataPath is the warehouse as DuckLake readers open it, with a slash at its end: a plain path where it is a folder.
func dataPath(store storage.Store) string {
	warehouse := store.Warehouse()
	if local := store.Local(warehouse + "/x"); local != "" {
		return path.Dir(local) + "/"
	}
	return warehouse + "/"
}

// Close releases the catalog's connections. Readers made by Reader must not be used afterwards.
func (l *Lake) Close() error { return l.catalog.close() }

// NewTable gives a fresh incarnation its ID and location; nothing is stored.
func (l *Lake) NewTable(name formats.TableName) formats.TableRef {
	id := uuid.Must(uuid.NewV7()).String()
	return formats.TableRef{ID: id, Name: name, Location: strings.Join([]string{l.cfg.Store.Warehouse(),
		storage.EncodeName(name.Schema), storage.EncodeName(name.Table), id}, "/")}
}

// Claim raises the pipeline's epoch and reads its state. It blocks on the catalog.
func (l *Lake) Claim(ctx context.Context) (*formats.State, error) {
	l.committing.Lock()
	defer l.committing.Unlock()
	names, err := l.checkClaims(ctx)
	if err != nil {
		return nil, err
	}
	var st formats.State
	var snapshot int64
	var kept []checkpoint
	var tables map[string]*incarnation
	err = l.catalog.retry(ctx, func() error {
		return l.catalog.transact(ctx, func(tx *transaction) (err error) {
			if st, snapshot, err = claim(tx, l.cfg.Pipeline, claims.Newest(names)); err != nil {
				return err
			}
			if kept, err = readCheckpoints(tx, l.cfg.Pipeline); err != nil {
				return err
			}
			tables, err = readTables(tx, l.cfg.Pipeline)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot claim pipeline %s in the catalog: %w", l.cfg.Pipeline, err)
	}
	if err := claims.Note(ctx, l.cfg.Store, l.cfg.Pipeline, claims.Prefix(st.Epoch)+"claim", nil, names); err != nil {
		return nil, err
	}
	for _, id := range sortedKeys(tables) {
		st.Tables = append(st.Tables, tables[id].state)
	}
	l.mu.Lock()
	l.pending = nil
	l.claimed, l.state, l.snapshot, l.kept, l.tables = true, st, snapshot, kept, tables
	l.mu.Unlock()
	if _, err := l.follow(ctx); err != nil {
		return nil, err
	}
	out := st
	out.Tables = slices.Clone(st.Tables)
	return &out, nil
}

// checkClaims refuses to go on from a catalog that is empty or an old copy, although the pipeline has written to the
// warehouse before. The catalog is where DuckLake keeps its tables: files alone do not tell what is in them.
func (l *Lake) checkClaims(ctx context.Context) ([]string, error) {
	names, err := claims.Names(ctx, l.cfg.Store, l.cfg.Pipeline)
	if err != nil || l.cfg.Anew {
		return names, err
	}
	var held int64
	err = l.catalog.retry(ctx, func() error {
		return l.catalog.transact(ctx, func(tx *transaction) error {
			return tx.row(`SELECT COALESCE(max(epoch), 0) FROM streambed_state WHERE pipeline = $1`, l.cfg.Pipeline).Scan(&held)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("the state of pipeline %s cannot be read from the catalog: %w", l.cfg.Pipeline, err)
	}
	return names, claims.Check(names, held, l.cfg.Pipeline,
		"DuckLake's tables live in its catalog and cannot be made anew from files: put back its newest copy, or run `streambedd resync --all` to copy every table from the source again")
}

// claim raises the epoch above its own and the given one, making the row of a new pipeline. A COMMIT of it whose answer is lost is harmless: the next
// claim raises the epoch again.
func claim(tx *transaction, pipeline string, above int64) (formats.State, int64, error) {
	st := formats.State{Pipeline: pipeline}
	err := tx.run([]any{pipeline},
		`INSERT INTO streambed_state (pipeline, epoch, position, checkpoint, commit_time, known, identity, attempt, snapshot)
			SELECT $1, 0, 0, 0, 0, 0, '', '', max(snapshot_id) FROM ducklake_snapshot
			WHERE NOT EXISTS (SELECT 1 FROM streambed_state WHERE pipeline = $1) HAVING max(snapshot_id) IS NOT NULL`)
	if err == nil {
		err = tx.run([]any{pipeline, above}, `UPDATE streambed_state SET epoch = 1 + CASE WHEN epoch > $2 THEN epoch ELSE $2 END WHERE pipeline = $1`)
	}
	if err != nil {
		return st, 0, err
	}
	var position, commitTime, known, snapshot int64
	var identity string
	err = tx.row(`SELECT epoch, position, checkpoint, commit_time, known, identity, snapshot FROM streambed_state WHERE pipeline = $1`,
		pipeline).Scan(&st.Epoch, &position, &st.Checkpoint, &commitTime, &known, &identity, &snapshot)
	if err != nil {
		return st, 0, err
	}
	st.Position, st.CommitTime, st.Known = lsn.LSN(position), fromMicros(commitTime), fromMicros(known)
	if identity != "" {
		if err := json.Unmarshal([]byte(identity), &st.Identity); err != nil {
			return st, 0, fmt.Errorf("the source's stored identity: %w", err)
		}
	}
	return st, snapshot, nil
}

func readCheckpoints(tx *transaction, pipeline string) (out []checkpoint, err error) {
	err = tx.each(func(scan func(...any) error) error {
		var c checkpoint
		var position, commitTime, recorded int64
		if err := scan(&c.number, &position, &commitTime, &recorded, &c.snapshot); err != nil {
			return err
		}
		c.position, c.commitTime, c.recorded = lsn.LSN(position), fromMicros(commitTime), fromMicros(recorded)
		out = append(out, c)
		return nil
	}, `SELECT checkpoint, position, commit_time, recorded, snapshot FROM streambed_checkpoints WHERE pipeline = $1 ORDER BY checkpoint`, pipeline)
	return out, err
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
		return l.catalog.transact(ctx, func(tx *transaction) error {
			n, err := tx.exec(`UPDATE streambed_state SET identity = $1 WHERE pipeline = $2 AND epoch = $3`, string(text), l.cfg.Pipeline, epoch)
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
	if inc := l.tables[ref.ID]; inc != nil {
		return inc.head.Sequence
	}
	return 0
}

// Files lists the live data files of an incarnation, by path, and its newest sequence number. It reads the catalog and
// the store when the incarnation's content is not in memory yet.
func (l *Lake) Files(ctx context.Context, ref formats.TableRef, _ int64) ([]formats.LiveFile, int64, error) {
	l.mu.Lock()
	inc := l.tables[ref.ID]
	l.mu.Unlock()
	if inc == nil {
		return nil, 0, nil
	}
	if err := l.load(ctx, inc); err != nil {
		return nil, 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	files := make([]formats.LiveFile, 0, len(inc.files))
	for _, path := range sortedKeys(inc.files) {
		f := inc.files[path]
		files = append(files, formats.LiveFile{Path: path, Rows: f.rows, Sequence: f.sequence, Deleted: f.bits})
	}
	return files, inc.head.Sequence, nil
}
