package stages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/batcher"
	"github.com/streambed/streambed/stages/snapshot"
	"github.com/streambed/streambed/stages/source"
	"go.uber.org/zap"
)

// discoverEvery is how often the source is asked for new tables.
const discoverEvery = time.Second

// maxSegmentBytes bounds a segment's tuples however much memory there is.
const maxSegmentBytes = 256 << 20

// allBinary reports whether every column's type has a binary form that we read.
func allBinary(tables []source.Table, o *Options) bool {
	for _, t := range tables {
		schema := t.Schema(o.Values, nil)
		left := source.Table{Columns: t.Excluded} // sent all the same
		leftOut := left.Schema(o.Values, nil)
		for _, c := range slices.Concat(schema.Columns, leftOut.Columns) {
			codec, err := types.NewCodec(c.Source, c.Type, o.Values, false)
			if err != nil || !codec.Binary() {
				return false
			}
		}
	}
	return true
}

// registerTables makes batchers for the tables of the state and of the source. It comes before the stream starts, so
// that nothing of a table is dropped that its copy does not see.
func (r *run) registerTables(ctx context.Context, tables []source.Table) error {
	r.known = tables
	if err := r.dropStaleIndexes(); err != nil {
		return err
	}
	for _, t := range tables {
		live, copying := r.statesOf(t.OID)
		var err error
		switch {
		case live == nil && copying == nil:
			err = r.registerNew(ctx, t)
		case live == nil:
			err = r.register(ctx, t, *copying, r.replacedBy(t))
		default:
			if err = r.register(ctx, t, *live, nil); err != nil {
				break
			}
			registered := r.registry.get(t.OID)
			if copying != nil {
				err = r.shadow(ctx, registered, t, *copying, false)
			} else if reason := resyncReason(live, &t); live.Resync || reason != "" {
				if reason != "" {
					r.log.Info("table is copied anew; it stays as it is until the copy is whole", zap.String("table", source.Show(t.Name)), zap.String("because", reason))
				}
				err = r.shadow(ctx, registered, t, r.freshState(t), false)
			}
		}
		if err != nil {
			return err
		}
	}
	r.noteDropped(tables)
	conn, err := source.Connect(ctx, r.pipeline.source.URL, "control")
	if err != nil {
		return err
	}
	defer source.CloseConn(conn)
	return r.publish(ctx, conn, tables)
}

// statesOf gives the state's incarnations of a source table.
func (r *run) statesOf(oid uint32) (live, copying *formats.TableState) {
	for i := range r.state.Tables {
		switch held := &r.state.Tables[i]; {
		case held.OID != oid:
		case held.Phase == formats.Copying:
			copying = held
		default:
			live = held
		}
	}
	return live, copying
}

// replacedBy lists incarnations of the same name that belong to another source table: t was made in its place, or has
// been given its name.
func (r *run) replacedBy(t source.Table) (replaced []formats.TableRef) {
	for _, held := range r.state.Tables {
		if held.Table.Name == t.Name && held.OID != t.OID {
			replaced = append(replaced, held.Table)
		}
	}
	return replaced
}

// dropStaleIndexes removes what the key index holds of incarnations that are gone.
func (r *run) dropStaleIndexes() error {
	for _, id := range r.pipeline.index.Tables() {
		if !slices.ContainsFunc(r.state.Tables, func(held formats.TableState) bool { return held.Table.ID == id }) {
			if err := r.pipeline.index.Drop(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// freshState is the state of a new incarnation of a table.
func (r *run) freshState(t source.Table) formats.TableState {
	return formats.TableState{Table: r.pipeline.options.Lake.NewTable(t.Name), Phase: formats.Copying, OID: t.OID,
		Schema: t.Schema(r.pipeline.options.Values, nil), Filenode: t.Filenode}
}

// registerNew makes a table that the lake does not know yet, or knows with another oid: then the source dropped the table
// and made another one of its name, which replaces it.
func (r *run) registerNew(ctx context.Context, t source.Table) error {
	replaces := r.replacedBy(t)
	if old := r.registry.named(t.Name); old != nil {
		tail, _, _ := r.registry.newest(old)
		if state, err := tail.State(ctx); err == nil && !slices.Contains(replaces, state.Table) {
			replaces = append(replaces, state.Table)
		}
	}
	return r.register(ctx, t, r.freshState(t), replaces)
}

// register makes a table's batcher and, while it is to be copied, its copier.
func (r *run) register(ctx context.Context, t source.Table, state formats.TableState, replaces []formats.TableRef) error {
	b, copier, err := r.newBatcher(ctx, t, state, replaces, nil)
	if err != nil {
		return err
	}
	r.registry.add(newTable(t, b, copier))
	return nil
}

// shadow begins, or goes on with, copying a table anew behind the incarnation that readers see.
func (r *run) shadow(ctx context.Context, registered *table, t source.Table, state formats.TableState, running bool) error {
	tail, _, _ := r.registry.newest(registered)
	replaces := r.replacedBy(t)
	held := tail.Incarnation()
	if running {
		now, err := tail.State(ctx) // a copy that began anew has another one
		if err != nil {
			return err
		}
		held = now.Table
	}
	if !slices.Contains(replaces, held) {
		replaces = append(replaces, held)
	}
	b, copier, err := r.newBatcher(ctx, t, state, replaces, tail)
	if err != nil {
		return err
	}
	if running {
		r.startBatcher(b)
	}
	r.registry.attach(registered, b, copier)
	if running {
		r.startCopy(registered, b, copier)
	}
	return nil
}

func (r *run) newBatcher(ctx context.Context, t source.Table, state formats.TableState, replaces []formats.TableRef, replaced *batcher.Batcher) (*batcher.Batcher, *snapshot.Copier, error) {
	o := &r.pipeline.options
	var byKey func(*formats.Schema) bool
	if lake, ok := o.Lake.(formats.KeyDeleter); ok {
		byKey = func(s *formats.Schema) bool { return lake.DeletesByKey(t.Name, s) }
	}
	b, err := batcher.New(ctx, batcher.Config{State: state, Lake: o.Lake, Store: o.Store, Index: r.pipeline.index, Pool: r.pool,
		Budget: r.budget, Values: o.Values, Replaces: replaces, Replaced: replaced, SegmentBytes: min(maxSegmentBytes, max(1<<20, o.Memory/16)),
		Excluded:   r.pipeline.source.Columns[t.Name].Exclude,
		PartialOld: t.Partitioned && t.Identity != 'f', DeletesByKey: byKey,
		SchemaFor: r.schemaFor, SameColumns: r.sameColumns, OnSetAside: func(reason string, resync bool) { r.setAside(t, reason, resync) }, Log: r.log})
	if err != nil || state.Phase != formats.Copying {
		return b, nil, err
	}
	return b, snapshot.New(snapshot.Config{Connections: r.connections, Batcher: b, State: state, Store: o.Store, Values: o.Values,
		Discover: func(ctx context.Context, since time.Time) (*source.Table, error) {
			return r.discoverRecent(ctx, t.OID, since)
		},
		NewTable: o.Lake.NewTable,
		Copies:   r.copies, Workers: r.workers, WorkersPerCopy: o.CopyWorkers, TargetFileSize: o.TargetFileSize, SpillDir: r.pipeline.spillDir(), Log: r.log}), nil
}

func (r *run) setAside(t source.Table, reason string, resync bool) {
	r.log.Error("table set aside", zap.String("table", source.Show(t.Name)), zap.String("reason", reason))
	if resync {
		r.askResync(t.OID)
	}
}

// publish puts tables into the publications that they belong in, through the primary if conn is to a standby. A lock that
// is not to be had, and a primary that does not answer, are asked again later: the stream goes on meanwhile.
func (r *run) publish(ctx context.Context, conn *pgx.Conn, tables []source.Table) error {
	if !slices.ContainsFunc(tables, func(t source.Table) bool { return t.Publication != t.Target }) {
		r.unreachable = ""
		return nil
	}
	conn, done, err := source.Primary(ctx, conn, &r.pipeline.source, "tables")
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if text := err.Error(); text != r.unreachable {
			r.unreachable = text
			r.log.Warn("tables wait to be published", zap.Error(err))
		}
		return nil
	}
	defer done()
	if err := r.publishNew(ctx, conn, tables); err != nil {
		return err
	}
	for i := range tables {
		t := &tables[i]
		if t.Publication == t.Target {
			continue
		}
		err := source.AddTable(ctx, conn, &r.pipeline.source, t)
		switch {
		case err == nil:
			t.Publication = t.Target
		case errors.Is(err, source.ErrLockTimeout), errors.Is(err, source.ErrTableGone):
			r.log.Warn("table waits to be published", zap.String("table", source.Show(t.Name)), zap.Error(err))
		default:
			return err
		}
	}
	return nil
}

// publishNew puts new tables into the publications many at a time, as far as that goes: what is left goes one by one.
func (r *run) publishNew(ctx context.Context, conn *pgx.Conn, tables []source.Table) error {
	var fresh []*source.Table
	for i := range tables {
		if t := &tables[i]; t.Publication == "" {
			fresh = append(fresh, t)
		}
	}
	if len(fresh) < 2 {
		return nil
	}
	added, err := source.AddNewTables(ctx, conn, &r.pipeline.source, fresh)
	for _, t := range fresh[:added] {
		t.Publication = t.Target
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	return nil
}

// watchTables looks for tables that appear at the source, until ctx ends.
func (r *run) watchTables(ctx context.Context) error {
	conn, err := source.Connect(ctx, r.pipeline.source.URL, "tables")
	if err != nil {
		return err
	}
	defer source.CloseConn(conn)
	tick := time.NewTicker(discoverEvery)
	defer tick.Stop()
	seen, standby := "", false
	for {
		select {
		case <-tick.C:
		case <-r.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		recovering, err := r.observe(ctx, conn)
		if err != nil {
			return err
		}
		if standby && !recovering {
			return errPromoted
		}
		standby = recovering
		digest, err := source.Digest(ctx, conn, &r.pipeline.source)
		if err != nil {
			return err
		}
		recheck := r.recheck.Swap(false)
		if digest == seen && !r.unfinished() { // nothing has changed: the usual case, and cheap with a thousand tables
			if recheck {
				if err := r.resyncChanged(ctx, r.known); err != nil {
					return err
				}
			}
			continue
		}
		tables, err := source.Discover(ctx, conn, &r.pipeline.source)
		if err != nil {
			return err
		}
		if err := r.follow(ctx, conn, tables); err != nil {
			return err
		}
		seen = digest
	}
}

// unfinished tells that a table waits to be published or copied anew, although nothing changes in the catalog.
func (r *run) unfinished() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked) > 0 || slices.ContainsFunc(r.known, func(t source.Table) bool { return t.Publication != t.Target })
}

// observe tells the decoder which position the source was at at which of its times, so that an idle lake's clock moves, and
// gives whether the source is a standby.
func (r *run) observe(ctx context.Context, conn *pgx.Conn) (recovering bool, err error) {
	var text string
	var at time.Time
	err = conn.QueryRow(ctx, `SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END::text,
		clock_timestamp()`).Scan(&recovering, &text, &at)
	if err != nil {
		return false, fmt.Errorf("the source's position cannot be read: %w", err)
	}
	position, err := lsn.Parse(text)
	if err != nil {
		return false, err
	}
	r.decoder.Observe(position, at)
	return recovering, nil
}

// follow takes up tables that are new. The batcher is there before the table joins the publication.
func (r *run) follow(ctx context.Context, conn *pgx.Conn, tables []source.Table) error {
	var fresh []*table
	for _, t := range tables {
		if slices.ContainsFunc(r.known, func(held source.Table) bool { return held.OID == t.OID }) {
			continue
		}
		if r.binary && !allBinary([]source.Table{t}, &r.pipeline.options) {
			return errTextNeeded
		}
		r.log.Info("new table found", zap.String("table", source.Show(t.Name)))
		if err := r.registerNew(ctx, t); err != nil {
			return err
		}
		registered := r.registry.get(t.OID)
		r.startBatcher(registered.head)
		fresh = append(fresh, registered)
	}
	r.known = tables
	r.noteDropped(tables)
	if err := r.resyncChanged(ctx, tables); err != nil {
		return err
	}
	if err := r.publish(ctx, conn, tables); err != nil {
		return err
	}
	for _, t := range fresh {
		r.startCopy(t, t.tail, t.copier)
	}
	return nil
}

// discoverOne reads one table anew; source.ErrTableGone when it is no longer there.
func (r *run) discoverOne(ctx context.Context, oid uint32) (*source.Table, error) {
	tables, err := r.discoverAll(ctx)
	if err != nil {
		return nil, err
	}
	return pick(tables, oid)
}

// recent is how old a list of tables may be for a copy to begin with: it notices by itself what changes later.
const recent = time.Second

// discoverRecent is discoverOne for the copies, of which a thousand may begin one after the other: reading a long list
// for each would be a load on the source. What was read before since is not used: a copy that begins because the table
// has changed would be made without the change, which the stream does not tell again.
func (r *run) discoverRecent(ctx context.Context, oid uint32, since time.Time) (*source.Table, error) {
	r.listing.Lock()
	defer r.listing.Unlock()
	if time.Since(r.listed) <= recent && !r.listed.Before(since) {
		// What is missing, or not published, may have come since.
		if t, err := pick(r.list, oid); err == nil {
			return t, nil
		}
	}
	began := time.Now()
	tables, err := r.discoverAll(ctx)
	if err != nil {
		return nil, err
	}
	r.list, r.listed = tables, began
	return pick(r.list, oid)
}

func (r *run) discoverAll(ctx context.Context) ([]source.Table, error) {
	conn, err := r.connections.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer r.connections.Give(conn)
	return source.Discover(ctx, conn, &r.pipeline.source)
}

// pick finds a table that is where its changes are published.
func pick(tables []source.Table, oid uint32) (*source.Table, error) {
	for i := range tables {
		if tables[i].OID == oid {
			if tables[i].Publication != tables[i].Target {
				return nil, fmt.Errorf("%w: table %s waits to be put into publication %s", snapshot.ErrNotYet, source.Show(tables[i].Name), source.Quote(tables[i].Target))
			}
			return &tables[i], nil
		}
	}
	return nil, fmt.Errorf("%w: oid %d", source.ErrTableGone, oid)
}
