package iceberg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/recent"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/lsn"
)

// Bounds of what a reader keeps, by rough weight in bytes.
const (
	cachedMetadata  = 32 << 20
	cachedManifests = 256 << 20
	cachedVectors   = 128 << 20
	cachedKeys      = 128 << 20
)

// Reader implements formats.Reader. What it has read of immutable files it keeps within fixed bounds, so that a plan
// after a small commit reads only what the commit wrote.
type Reader struct {
	pipeline string
	store    storage.Store
	catalog  *catalog
	owned    bool // the catalog is closed with the reader

	metadata  *recent.Cache[*metadataFile]
	heads     *recent.Cache[head] // by version
	lists     *recent.Cache[[]listed]
	manifests *recent.Cache[[]planned]
	vectors   *recent.Cache[deleted]
	keys      *keyResolver

	mu   sync.Mutex
	last *formats.View
	rows map[string]parsedRow
}

var _ formats.Reader = (*Reader)(nil)

// parsedRow keeps what the rows of an incarnation parsed to.
type parsedRow struct {
	schemaText, stateText string
	schema                formats.Schema
	setAside              string
}

// OpenReader opens a lake for reading. Of the configuration it uses Pipeline, Store and Catalog. A pipeline that has
// not been claimed yet reads as an empty view at checkpoint 0.
func OpenReader(ctx context.Context, cfg Config) (*Reader, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	c, err := openCatalog(ctx, cfg.Catalog, false)
	if err != nil {
		return nil, err
	}
	return newReader(cfg, c, true), nil
}

// Reader gives a reader that shares the lake's catalog connections; it must be done before the lake is closed.
func (l *Lake) Reader() *Reader { return newReader(l.cfg, l.catalog, false) }

func newReader(cfg Config, c *catalog, owned bool) *Reader {
	return &Reader{pipeline: cfg.Pipeline, store: cfg.Store, catalog: c, owned: owned,
		metadata: recent.New[*metadataFile](cachedMetadata), heads: recent.New[head](10_000),
		lists: recent.New[[]listed](cachedMetadata), manifests: recent.New[[]planned](cachedManifests),
		vectors: recent.New[deleted](cachedVectors), keys: newKeyResolver(cfg.Store, cachedKeys), rows: map[string]parsedRow{}}
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
		err := r.catalog.read.QueryRowContext(ctx, `SELECT checkpoint FROM streambed_state WHERE pipeline = $1`, r.pipeline).Scan(&checkpoint)
		if err == nil && checkpoint == last.Checkpoint {
			return last, nil
		}
	}
	view := &formats.View{}
	var foreign []pointed
	err := r.catalog.retry(ctx, func() (err error) {
		view, foreign, err = r.readView(ctx)
		return err
	})
	if r.catalog.missing(err) {
		return &formats.View{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the state of pipeline %s from the catalog: %w", r.pipeline, err)
	}
	for _, f := range foreign {
		if err := r.follow(ctx, &view.Tables[f.at], f.pointer); err != nil {
			return nil, err
		}
	}
	r.remember(view)
	return view, nil
}

// remember keeps a view for the next call and forgets the parsed rows of incarnations that are gone.
func (r *Reader) remember(view *formats.View) {
	visible := make(map[string]bool, len(view.Tables))
	for _, vt := range view.Tables {
		visible[incarnationOf(vt.Version)] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = view
	maps.DeleteFunc(r.rows, func(id string, _ parsedRow) bool { return !visible[id] })
}

// pointed is a table of a view that another writer has moved.
type pointed struct {
	at      int
	pointer string
}

func (r *Reader) readView(ctx context.Context) (*formats.View, []pointed, error) {
	tx, err := r.catalog.read.BeginTx(ctx, r.catalog.readOnly())
	if err != nil {
		return nil, nil, err
	}
	defer tx.Rollback()
	view := &formats.View{}
	var position, commitTime, known int64
	err = tx.QueryRowContext(ctx, `SELECT checkpoint, position, commit_time, known FROM streambed_state WHERE pipeline = $1`,
		r.pipeline).Scan(&view.Checkpoint, &position, &commitTime, &known)
	if errors.Is(err, sql.ErrNoRows) {
		return view, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	view.Position, view.CommitTime, view.Known = lsn.LSN(position), fromMicros(commitTime), fromMicros(known)
	rows, err := tx.QueryContext(ctx, `SELECT t.id, t.schema_name, t.table_name, t.metadata_location, t.head, t.lake_schema, t.state, i.metadata_location
		FROM streambed_tables t LEFT JOIN iceberg_tables i
		ON i.catalog_name = $1 AND i.table_namespace = t.namespace AND i.table_name = t.table_name
		WHERE t.pipeline = $2 AND t.published = 1 ORDER BY t.schema_name, t.table_name`, catalogName, r.pipeline)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var foreign []pointed
	for rows.Next() {
		pointer, err := r.readRow(rows, view)
		if err != nil {
			return nil, nil, err
		}
		if pointer != "" {
			foreign = append(foreign, pointed{len(view.Tables) - 1, pointer})
		}
	}
	return view, foreign, rows.Err()
}

// readRow appends one table to the view, and gives the catalog's pointer when it is not ours.
func (r *Reader) readRow(rows *sql.Rows, view *formats.View) (pointer string, err error) {
	var id, headText, schemaText, stateText string
	var vt formats.ViewTable
	var current sql.NullString
	if err := rows.Scan(&id, &vt.Name.Schema, &vt.Name.Table, &vt.Pointer, &headText, &schemaText, &stateText, &current); err != nil {
		return "", err
	}
	if !current.Valid {
		return "", nil // taken out of the catalog by somebody else: not visible
	}
	row, err := r.parse(id, schemaText, stateText)
	if err != nil {
		return "", fmt.Errorf("table %s: %w", formatName(vt.Name), err)
	}
	var h head
	if err := json.Unmarshal([]byte(headText), &h); err != nil {
		return "", fmt.Errorf("table %s: %w", formatName(vt.Name), err)
	}
	vt.Schema, vt.SetAside, vt.Snapshot = row.schema, row.setAside, h.Snapshot
	vt.Version = version(id, h.Snapshot, vt.Schema.ID)
	r.heads.Put(vt.Version, h, 1)
	view.Tables = append(view.Tables, vt)
	if current.String != vt.Pointer {
		return current.String, nil
	}
	return "", nil
}

// version names a table's content.
func version(incarnation string, snapshot int64, schema int) string {
	return fmt.Sprintf("%s/%d/%d", incarnation, snapshot, schema)
}

func incarnationOf(version string) string {
	id, _, _ := strings.Cut(version, "/")
	return id
}

// parse decodes a row's JSON unless it is the same as last time.
func (r *Reader) parse(id, schemaText, stateText string) (parsedRow, error) {
	r.mu.Lock()
	row := r.rows[id]
	r.mu.Unlock()
	if row.schemaText == schemaText && row.stateText == stateText && schemaText != "" {
		return row, nil
	}
	var state struct {
		SetAside string `json:"set_aside"`
	}
	schema, err := decodeSchema(schemaText)
	if err == nil {
		err = json.Unmarshal([]byte(stateText), &state)
	}
	if err != nil {
		return row, err
	}
	row = parsedRow{schemaText, stateText, schema, state.SetAside}
	r.mu.Lock()
	r.rows[id] = row
	r.mu.Unlock()
	return row, nil
}

// follow reads a table from where another writer has put it.
func (r *Reader) follow(ctx context.Context, vt *formats.ViewTable, pointer string) error {
	md, err := r.readMetadata(ctx, pointer)
	if err != nil {
		return fmt.Errorf("table %s: %w", formatName(vt.Name), err)
	}
	vt.Pointer = pointer
	if len(md.snapshots) == 0 {
		vt.Snapshot = 0
		return nil
	}
	return r.rewind(vt, md, md.current())
}

// rewind sets a view's table to a snapshot of its metadata.
func (r *Reader) rewind(vt *formats.ViewTable, md *metadataFile, s *pastState) error {
	schema, err := md.schema(s.schemaID)
	if err != nil {
		return fmt.Errorf("table %s at snapshot %d: %w", formatName(vt.Name), s.ID, err)
	}
	vt.Schema, vt.Snapshot = schema, s.ID
	vt.Version = version(incarnationOf(vt.Version), s.ID, schema.ID)
	r.heads.Put(vt.Version, head{Snapshot: s.ID, Sequence: s.Sequence, Schema: s.schemaID, List: s.list,
		Checkpoint: s.Checkpoint, Published: md.published}, 1)
	return nil
}

// Snapshots lists the kept snapshots of a table, oldest first.
func (r *Reader) Snapshots(ctx context.Context, name formats.TableName) ([]formats.SnapshotInfo, error) {
	view, err := r.Current(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(view.Tables, func(vt formats.ViewTable) bool { return vt.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%s at checkpoint %d: %w", formatName(name), view.Checkpoint, formats.ErrNoSuchTable)
	}
	md, err := r.readMetadata(ctx, view.Tables[i].Pointer)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", formatName(name), err)
	}
	infos := make([]formats.SnapshotInfo, len(md.snapshots))
	for i, s := range md.snapshots {
		infos[i] = s.SnapshotInfo
	}
	return infos, nil
}
