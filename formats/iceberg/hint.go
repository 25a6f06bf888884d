package iceberg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// Readers that know a table by its folder alone find it under <warehouse>/<schema>/<table>/metadata: version-hint.text
// holds a number N, and v<N>.metadata.json is a copy of the table's metadata. N is the checkpoint that made it, so it only
// grows, also when a resync has put another incarnation in the table's place. Both are written after the swap, the copy
// first: such a reader never sees what was not committed.

const (
	// hintEvery is the shortest time between two hints of a table: what is committed meanwhile shares the next one.
	hintEvery = 2 * time.Second
	// hintGrace is how long a copy stays after it was superseded, for readers that have just read the hint.
	hintGrace = 10 * time.Minute
	// hintStale is the age from which a hint may have been overtaken by another writer's, while this process hung.
	hintStale = 10 * time.Second
	// hintClose bounds how long Close waits for the last hints, hintTries the hints written at once.
	hintClose, hintTries = 5 * time.Second, 8
)

// hint is what a table's folder should show.
type hint struct {
	number int64
	// body is the metadata; nil when it has to be read from pointer, which is checked against what is there.
	body    []byte
	pointer string
	// gone tells that the table is not visible any more.
	gone bool
	at   time.Time
}

// hints keeps the folders of the tables, in the background. Failures are logged and tried again.
type hints struct {
	store storage.Store
	log   *zap.Logger
	stop  context.CancelFunc
	done  chan struct{}

	mu     sync.Mutex
	wanted map[string]hint
	wake   chan struct{}

	// folders is used by the worker alone, each entry by one goroutine at a time.
	folders map[string]*hintFolder
}

// hintFolder is what is known of a folder.
type hintFolder struct {
	known  bool
	copies []hintCopy
}

type hintCopy struct {
	uri    string
	number int64
	// superseded is when another one took its place; zero for the newest.
	superseded time.Time
}

func newHints(store storage.Store, log *zap.Logger) *hints {
	ctx, stop := context.WithCancel(context.Background())
	h := &hints{store: store, log: log, stop: stop, done: make(chan struct{}), wanted: map[string]hint{},
		wake: make(chan struct{}, 1), folders: map[string]*hintFolder{}}
	go h.run(ctx)
	return h
}

// close writes what is wanted, for hintClose at most, and ends the worker.
func (h *hints) close() {
	h.stop()
	<-h.done
}

// tableFolder is where readers without a catalog look for a table.
func tableFolder(store storage.Store, name formats.TableName) string {
	return store.Warehouse() + "/" + storage.EncodeName(name.Schema) + "/" + storage.EncodeName(name.Table)
}

// want replaces what was wanted of a table and not written yet. It does not block.
func (h *hints) want(name formats.TableName, next hint) {
	next.at = time.Now()
	h.mu.Lock()
	h.wanted[tableFolder(h.store, name)] = next
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// adopted takes over what a commit made of its rows.
func (h *hints) adopted(rows map[string]*row) {
	for _, r := range rows {
		switch name := r.state.Table.Name; {
		case r.replaced: // its name shows another incarnation, which has a row of its own
		case r.published && r.staged != nil:
			h.want(name, hint{number: r.head.Checkpoint, body: r.staged.metadataPut.body})
		case r.inc.published && !r.published:
			h.want(name, hint{gone: true})
		}
	}
}

// claimed has the folders of all visible tables looked after.
func (h *hints) claimed(tables map[string]*incarnation) {
	for _, inc := range tables {
		if inc.published {
			h.want(inc.state.Table.Name, hint{number: inc.head.Checkpoint, pointer: inc.pointer})
		}
	}
}

func (h *hints) run(ctx context.Context) {
	defer close(h.done)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-h.wake:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), hintClose)
			h.round(last)
			cancel()
			return
		}
		h.round(ctx)
		pause.Reset(hintEvery)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// round writes what is wanted now. What failed is wanted again, unless something newer is by then.
func (h *hints) round(ctx context.Context) {
	h.mu.Lock()
	wanted := h.wanted
	h.wanted = map[string]hint{}
	h.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(hintTries)
	for folder, next := range wanted {
		if h.folders[folder] == nil {
			h.folders[folder] = &hintFolder{}
		}
		of := h.folders[folder]
		g.Go(func() error {
			err := h.write(ctx, folder, of, next)
			if err == nil || ctx.Err() != nil {
				return nil
			}
			h.log.Warn("the version hint of a table cannot be written and is tried again; readers that know the table by its folder see it as before",
				zap.String("folder", folder), zap.Error(err))
			h.mu.Lock()
			defer h.mu.Unlock()
			if _, newer := h.wanted[folder]; !newer {
				h.wanted[folder] = next
			}
			select {
			case h.wake <- struct{}{}:
			default:
			}
			return nil
		})
	}
	_ = g.Wait()
}

func hintURI(folder string) string { return folder + "/metadata/version-hint.text" }

func copyURI(folder string, number int64) string {
	return fmt.Sprintf("%s/metadata/v%d.metadata.json", folder, number)
}

// write brings a folder to what it should show.
func (h *hints) write(ctx context.Context, folder string, of *hintFolder, next hint) error {
	if !of.known {
		if err := h.look(ctx, folder, of); err != nil {
			return err
		}
	}
	if next.gone {
		return h.remove(ctx, folder, of)
	}
	if next.body == nil || time.Since(next.at) > hintStale {
		shown, err := h.shown(ctx, folder)
		if err != nil {
			return err
		}
		// A number beyond ours is another writer's, which has taken over, or of a lake that was begun anew.
		if shown == next.number || next.body != nil && shown > next.number {
			return nil
		}
	}
	if next.body == nil {
		var err error
		if next.body, err = h.store.Get(ctx, next.pointer); err != nil {
			return err
		}
		if next.body, err = inflate(next.body); err != nil {
			return err
		}
	}
	uri := copyURI(folder, next.number)
	if err := h.store.Put(ctx, uri, next.body); err != nil {
		return err
	}
	if err := h.store.Put(ctx, hintURI(folder), strconv.AppendInt(nil, next.number, 10)); err != nil {
		return err
	}
	return h.prune(ctx, of, hintCopy{uri: uri, number: next.number})
}

// shown reads a folder's hint; zero when there is none.
func (h *hints) shown(ctx context.Context, folder string) (int64, error) {
	body, err := h.store.Get(ctx, hintURI(folder))
	if errors.Is(err, storage.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	number, err := strconv.ParseInt(string(bytes.TrimSpace(body)), 10, 64)
	if err != nil {
		return 0, nil // torn or not ours: written again
	}
	return number, nil
}

// look finds the copies that earlier runs have left.
func (h *hints) look(ctx context.Context, folder string, of *hintFolder) error {
	of.copies = nil
	err := h.store.List(ctx, folder+"/metadata/v", func(o storage.Info) error {
		digits, ours := strings.CutSuffix(strings.TrimPrefix(path.Base(o.URI), "v"), ".metadata.json")
		if number, err := strconv.ParseInt(digits, 10, 64); ours && err == nil {
			of.copies = append(of.copies, hintCopy{o.URI, number, o.Modified})
		}
		return nil
	})
	of.known = err == nil
	return err
}

// prune deletes copies that were superseded long ago, and those of a history that was given up, which a reader that goes
// on from a number to the next would take for newer.
func (h *hints) prune(ctx context.Context, of *hintFolder, newest hintCopy) error {
	now := time.Now()
	var gone []string
	kept := of.copies[:0]
	for _, c := range of.copies {
		if c.number == newest.number {
			continue
		}
		if c.superseded.IsZero() {
			c.superseded = now
		}
		if c.number > newest.number || now.Sub(c.superseded) > hintGrace {
			gone = append(gone, c.uri)
			continue
		}
		kept = append(kept, c)
	}
	of.copies = append(kept, newest)
	return h.store.Delete(ctx, gone...)
}

// remove takes a folder's hint and copies away.
func (h *hints) remove(ctx context.Context, folder string, of *hintFolder) error {
	uris := []string{hintURI(folder)}
	for _, c := range of.copies {
		uris = append(uris, c.uri)
	}
	of.copies = nil
	return h.store.Delete(ctx, uris...)
}
