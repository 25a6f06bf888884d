// Package batcher is one actor a table: it collapses the changes of a cut by key, resolves what they delete through the
// key index, seals segments for the uploaders, and answers every cut with the table's part. While its table is being
// copied it also takes in the copy's files (copying.go).
package batcher

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/keyindex"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/rows"
	"github.com/streambed/streambed/stages/source"
	"github.com/streambed/streambed/stages/uploader"
	"go.uber.org/zap"
)

// channelLimit bounds the messages waiting before a batcher. Their bytes are bounded by the budget.
const channelLimit = 64

// Config is what a batcher works with.
type Config struct {
	State  formats.TableState
	Lake   formats.Lake
	Store  storage.Store
	Index  *keyindex.Index
	Pool   *uploader.Pool
	Budget *message.Budget
	Values types.Options
	// Replaces are incarnations that go once this one is published, of this name or of one that the table had before.
	Replaces []formats.TableRef
	// SegmentBytes is the size of tuples, in bytes, at which a segment is sealed before its cut.
	SegmentBytes int64
	// Keys is the number of keys that are collapsed at a time; 0 takes as much memory for them as for a segment.
	Keys int
	// SchemaFor asks the source for the table's schema when a Relation, which came with the transaction xid, differs from
	// the one held. sure tells that the rows since the last look at the source are known to be of the columns held. It may
	// block on the source; an error sets the table aside.
	SchemaFor func(ctx context.Context, rel *message.Relation, xid uint32, held *formats.TableState, sure bool) (*formats.Schema, error)
	// SameColumns asks the source whether a Relation that describes the table as it is held is about the same columns, or
	// about others in their place, which are not told apart in the stream; then it gives an error for which the table is
	// copied anew. sure is false when that cannot be told. It may block on the source.
	SameColumns func(ctx context.Context, rel *message.Relation, xid uint32, held *formats.TableState) (sure bool, err error)
	// OnSetAside is told, once, that the table is not followed any more, and whether it is to be copied anew; it must not
	// block.
	OnSetAside func(reason string, resync bool)
	// DeletesByKey tells of a schema whether the table's parts carry the keys of deleted rows; nil for never.
	DeletesByKey func(*formats.Schema) bool
	// Excluded names columns that the stream sends and the lake leaves out, unless they are the key's.
	Excluded []string
	// PartialOld tells that an old tuple marked whole may hold the key alone: that of a partition whose own replica
	// identity is not FULL, under a root whose is.
	PartialOld bool
	// Replaced is the batcher whose incarnation this one's takes the place of when it is published; nil for none.
	Replaced *Batcher
	Log      *zap.Logger
}

// Batcher follows one incarnation of one table.
type Batcher struct {
	cfg      Config
	in       chan message.TableMessage
	control  chan func(ctx context.Context) error
	pressure chan struct{}

	// shadow is sent all that this one receives: it copies the table anew and will take this one's place.
	shadow atomic.Pointer[Batcher]
	// retired is set once the shadow's incarnation has been published: this one then only passes on.
	retired atomic.Bool
	// copying, openBytes, openCost and aside are read by others.
	copying   atomic.Bool
	openBytes atomic.Int64
	openCost  atomic.Int64
	aside     atomic.Pointer[string]
	counts    Counts

	state   formats.TableState
	created bool               // the incarnation exists in the lake, or a part that creates it has been answered
	dirty   bool               // the state row must be written with the next part
	forget  []string           // incarnations whose state rows go with the next part
	hide    []formats.TableRef // those among them that are visible under another name
	schema  *formats.Schema    // to be changed with the next part; nil when unchanged

	index *keyindex.Table
	// sequence is the lake's sequence number that the durable index holds; after recover only the committer touches it.
	sequence *int64
	files    fileSet

	relation *message.Relation
	// sure tells that the rows since the last look at the source are known to be of the columns held.
	sure   bool
	layout *rows.Layout
	keyer  *rows.Keyer

	open openSegment
	cut  cutState
	// settled are changes that are staged in the index and belong to the next part, before its own.
	settled []*keyindex.Change
	copy    *copyState // nil unless copying
}

// Counts are running totals of a table since the start, safe to read at any time.
type Counts struct {
	Inserted, Updated, Deleted, Copied atomic.Int64
	// Missing counts deletes and updates of rows that the lake did not hold.
	Missing atomic.Int64
	Bent    atomic.Int64
	// Files is the number of data files that hold the table's rows, as of the last cut.
	Files atomic.Int64
}

// New makes a batcher for a table whose state is known; it reads what the key index lacks from the lake, which may block
// on the store.
func New(ctx context.Context, cfg Config) (*Batcher, error) {
	b := &Batcher{
		cfg:      cfg,
		in:       make(chan message.TableMessage, channelLimit),
		control:  make(chan func(context.Context) error),
		pressure: make(chan struct{}, 1),
		state:    cfg.State,
	}
	b.copying.Store(cfg.State.Phase == formats.Copying && cfg.State.SetAside == "")
	if err := b.recover(ctx); err != nil {
		return nil, fmt.Errorf("table %s: %w", b.name(), err)
	}
	b.cut.reset()
	b.counts.Files.Store(int64(len(b.files)))
	return b, nil
}

// Route is where the decoder sends this table's messages.
func (b *Batcher) Route() *message.Route {
	return &message.Route{OID: b.state.OID, Name: b.name(), C: b.in, EveryCut: b.everyCut}
}

func (b *Batcher) everyCut() bool {
	if shadow := b.shadow.Load(); shadow != nil && shadow.everyCut() {
		return true
	}
	return b.copying.Load()
}

// Attach makes another batcher, of a new incarnation of the same table, receive all that this one receives from now on.
// The other one must be running.
func (b *Batcher) Attach(shadow *Batcher) { b.shadow.Store(shadow) }

// pass hands a message on to the shadow. The bytes of rows are shared and accounted for here alone.
func (b *Batcher) pass(ctx context.Context, m message.TableMessage) error {
	shadow := b.shadow.Load()
	if shadow == nil {
		return nil
	}
	switch sent := m.(type) {
	case *message.Rows:
		shared := *sent
		shared.Cost = 0
		m = &shared
	case *message.Cut:
		sent.Expect()
	}
	select {
	case shadow.in <- m:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Incarnation is the one that the batcher began with; a copy that began anew has another one.
func (b *Batcher) Incarnation() formats.TableRef { return b.cfg.State.Table }

// Copying reports whether the table is still invisible.
func (b *Batcher) Copying() bool { return b.copying.Load() }

// Counts gives the table's running totals.
func (b *Batcher) Counts() *Counts { return &b.counts }

// OpenCost is what the open segment holds of the budget.
func (b *Batcher) OpenCost() int64 { return b.openCost.Load() }

// OpenBytes is the size of the tuples that wait in the open segment.
func (b *Batcher) OpenBytes() int64 { return b.openBytes.Load() }

// Queue gives the fill and limit of the batcher's channel.
func (b *Batcher) Queue() (length, limit int) { return len(b.in), cap(b.in) }

// Seal asks the batcher to send its open segment on, because memory is short. It does not block.
func (b *Batcher) Seal() {
	select {
	case b.pressure <- struct{}{}:
	default:
	}
}

// Run works until ctx ends. It fails only for reasons that are not the table's own.
func (b *Batcher) Run(ctx context.Context) error {
	for {
		var err error
		select {
		case m := <-b.in:
			if err := b.pass(ctx, m); err != nil {
				return err
			}
			switch m := m.(type) {
			case *message.Rows:
				err = b.apply(ctx, m)
			case *message.Truncate:
				b.truncate(m)
			case *message.Cut:
				err = b.answer(ctx, m)
			}
		case f := <-b.control:
			err = f(ctx)
		case <-b.pressure:
			err = b.tolerate(b.seal(ctx))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// do runs f in the actor and waits for it.
func (b *Batcher) do(ctx context.Context, f func(ctx context.Context) error) error {
	done := make(chan error, 1)
	wrapped := func(ctx context.Context) error {
		err := f(ctx)
		done <- err
		return nil
	}
	select {
	case b.control <- wrapped:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SetAside gives the reason why the table is not followed; "" when it is.
func (b *Batcher) SetAside() string {
	if reason := b.aside.Load(); reason != nil {
		return *reason
	}
	return b.cfg.State.SetAside
}

// follows tells that the table's changes are taken in.
func (b *Batcher) follows() bool {
	return b.SetAside() == "" && !b.retired.Load() && (b.copy == nil || !b.copy.broken)
}

// tolerate turns a table's own error into setting it aside (promise 7); others pass. A copy that cannot go on because the
// table was altered is begun anew by its copier.
func (b *Batcher) tolerate(err error) error {
	if err == nil || !isTableError(err) {
		return err
	}
	resync := errors.Is(err, errResync)
	if resync && b.copy != nil {
		b.copy.broken = true
		b.open.drop(b)
		b.cut.reset()
		return nil
	}
	b.setAside(err, resync)
	return nil
}

// setAside stops following the table. What the current cut held of it is dropped: the lake keeps the table as of the
// cut before.
func (b *Batcher) setAside(err error, resync bool) {
	reason := b.reason(err)
	if !b.aside.CompareAndSwap(nil, &reason) {
		return
	}
	b.open.drop(b)
	b.cut.reset()
	b.state.SetAside, b.state.Resync = reason, resync
	b.dirty = true
	b.copying.Store(false)
	if b.cfg.OnSetAside != nil {
		b.cfg.OnSetAside(reason, resync)
	}
}

func (b *Batcher) name() string { return source.Show(b.cfg.State.Table.Name) }
