package ducklake

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/recent"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/lsn"
)

// Reader implements formats.Reader. What it has read of immutable content it keeps within fixed bounds.
type Reader struct {
	pipeline string
	store    storage.Store
	catalog  *catalog
	owned    bool // the catalog is closed with the reader

	mu      sync.Mutex
	last    *formats.View
	schemas *recent.Cache[formats.Schema]
	plans   *recent.Cache[*formats.ScanPlan]
	deletes *recent.Cache[deleted]
	bodies  *recent.Cache[[]byte]
}

var _ formats.Reader = (*Reader)(nil)

// OpenReader opens a lake for reading. Of the configuration it uses Pipeline, Store and Catalog. A pipeline that has
// not been claimed yet reads as an empty view at checkpoint 0.
func OpenReader(_ context.Context, cfg Config) (*Reader, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	c, err := openCatalog(cfg.Catalog)
	if err != nil {
		return nil, err
	}
	return newReader(cfg, c, true), nil
}

// Reader gives a reader that shares the lake's catalog connections; it must be done before the lake is closed.
func (l *Lake) Reader() formats.Reader { return newReader(l.cfg, l.catalog, false) }

// Bounds of what a reader keeps, by rough weight in bytes.
const (
	keptSchemas = 16 << 20
	keptPlans   = 128 << 20
	keptDeletes = 128 << 20
)

func newReader(cfg Config, c *catalog, owned bool) *Reader {
	r := &Reader{pipeline: cfg.Pipeline, store: cfg.Store, catalog: c, owned: owned, schemas: recent.New[formats.Schema](keptSchemas),
		plans: recent.New[*formats.ScanPlan](keptPlans), deletes: recent.New[deleted](keptDeletes),
		bodies: recent.New[[]byte](keptInlined)}
	if store, ok := cfg.Store.(*Store); ok {
		store.serve(r.inlinedBody)
	}
	return r
}

// Close releases the catalog's connections if they are the reader's own.
func (r *Reader) Close() error {
	if r.owned {
		return r.catalog.close()
	}
	return nil
}

// Current reads the newest checkpoint with all visible tables in one catalog transaction (promise 3).
func (r *Reader) Current(ctx context.Context) (*formats.View, error) {
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	if last != nil {
		var checkpoint int64
		err := r.catalog.read.QueryRowContext(ctx, `SELECT checkpoint FROM streambed_state WHERE pipeline = $1 AND NOT EXISTS
			(SELECT 1 FROM streambed_history h WHERE h.pipeline = $1 AND h.snapshot > $2)`, r.pipeline, newestOf(last)).Scan(&checkpoint)
		if err == nil && checkpoint == last.Checkpoint {
			return last, nil
		}
	}
	var view *formats.View
	err := r.catalog.retry(ctx, func() error {
		return r.catalog.reading(ctx, func(tx *transaction) (err error) {
			view, err = r.readView(tx)
			return err
		})
	})
	if r.catalog.missing(err) {
		return &formats.View{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the state of pipeline %s from the catalog: %w", r.pipeline, err)
	}
	r.mu.Lock()
	r.last = view
	r.mu.Unlock()
	return view, nil
}

func newestOf(view *formats.View) (snapshot int64) {
	for _, vt := range view.Tables {
		snapshot = max(snapshot, vt.Snapshot)
	}
	return snapshot
}

func (r *Reader) readView(tx *transaction) (*formats.View, error) {
	view := &formats.View{}
	var position, commitTime, known int64
	err := tx.row(`SELECT checkpoint, position, commit_time, known FROM streambed_state WHERE pipeline = $1`, r.pipeline).
		Scan(&view.Checkpoint, &position, &commitTime, &known)
	if errors.Is(err, sql.ErrNoRows) {
		return view, nil
	}
	if err != nil {
		return nil, err
	}
	view.Position, view.CommitTime, view.Known = lsn.LSN(position), fromMicros(commitTime), fromMicros(known)
	err = tx.each(func(scan func(...any) error) error {
		var id, headText, schemaText, stateText string
		var tableID int64
		var vt formats.ViewTable
		if err := scan(&id, &vt.Name.Schema, &vt.Name.Table, &tableID, &headText, &stateText, &schemaText); err != nil {
			return err
		}
		var h head
		var state struct {
			SetAside string `json:"set_aside"`
		}
		err := json.Unmarshal([]byte(headText), &h)
		if err == nil {
			err = json.Unmarshal([]byte(stateText), &state)
		}
		if err == nil {
			vt.Schema, err = r.schema(schemaKey(id, h.Schema), schemaText)
		}
		if err != nil {
			return fmt.Errorf("table %s: %w", formatName(vt.Name), err)
		}
		p := pointer{ID: id, Table: tableID, Published: h.Published}
		vt.SetAside, vt.Snapshot, vt.Pointer, vt.Version = state.SetAside, h.Snapshot, p.String(), version(id, h.Snapshot, h.Schema)
		view.Tables = append(view.Tables, vt)
		return nil
	}, `SELECT t.id, t.schema_name, t.table_name, t.table_id, t.head, t.state, s.body FROM streambed_tables t JOIN streambed_schemas s
		ON s.pipeline = t.pipeline AND s.id = t.id AND s.schema_id = t.schema_id
		WHERE t.pipeline = $1 AND t.published = 1
		AND EXISTS (SELECT 1 FROM ducklake_table d WHERE d.table_id = t.table_id AND d.end_snapshot IS NULL) ORDER BY t.schema_name, t.table_name`, r.pipeline)
	return view, err
}

func schemaKey(id string, schema int) string { return id + "/" + strconv.Itoa(schema) }

func (r *Reader) schema(key, text string) (formats.Schema, error) {
	key += text // a schema of a copy may be replaced under its number
	if s, ok := r.schemas.Get(key); ok {
		return s, nil
	}
	s, err := decodeSchema(text)
	if err == nil {
		r.schemas.Put(key, s, int64(4*len(text)))
	}
	return s, err
}

// pointer is what a view's table carries of an incarnation.
type pointer struct {
	ID string
	// Table is DuckLake's id.
	Table int64
	// Published is the checkpoint that made it visible.
	Published int64
}

func (p pointer) String() string { return fmt.Sprintf("%s/%d/%d", p.ID, p.Table, p.Published) }

func parsePointer(text string) (p pointer, err error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return p, fmt.Errorf("%q is not a pointer of this lake", text)
	}
	p.ID = parts[0]
	if p.Table, err = strconv.ParseInt(parts[1], 10, 64); err == nil {
		p.Published, err = strconv.ParseInt(parts[2], 10, 64)
	}
	return p, err
}

// version names a table's content.
func version(incarnation string, snapshot int64, schema int) string {
	return fmt.Sprintf("%s/%d/%d", incarnation, snapshot, schema)
}

// Snapshots lists the kept snapshots of a table, oldest first.
func (r *Reader) Snapshots(ctx context.Context, name formats.TableName) (infos []formats.SnapshotInfo, err error) {
	view, err := r.Current(ctx)
	if err != nil {
		return nil, err
	}
	vt, err := find(view, name)
	if err != nil {
		return nil, err
	}
	p, err := parsePointer(vt.Pointer)
	if err != nil {
		return nil, err
	}
	err = r.catalog.retry(ctx, func() error {
		infos = nil
		return r.catalog.reading(ctx, func(tx *transaction) error {
			return tx.each(func(scan func(...any) error) error {
				var s formats.SnapshotInfo
				var position, commitTime, recorded int64
				if err := scan(&s.ID, &s.Sequence, &recorded, &s.Checkpoint, &position, &commitTime, &s.Operation, &s.Rows, &s.Files, &s.Deleted); err != nil {
					return err
				}
				s.Time, s.Position, s.CommitTime = fromMicros(recorded), lsn.LSN(position), fromMicros(commitTime)
				s.Rows -= s.Deleted
				infos = append(infos, s)
				return nil
			}, `SELECT snapshot, sequence, recorded, checkpoint, position, commit_time, operation, record_count, files, deleted
				FROM streambed_history WHERE pipeline = $1 AND id = $2 ORDER BY snapshot`, r.pipeline, p.ID)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the history of table %s: %w", formatName(name), err)
	}
	return infos, nil
}

func find(view *formats.View, name formats.TableName) (*formats.ViewTable, error) {
	i := slices.IndexFunc(view.Tables, func(vt formats.ViewTable) bool { return vt.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%s at checkpoint %d: %w", formatName(name), view.Checkpoint, formats.ErrNoSuchTable)
	}
	return &view.Tables[i], nil
}
