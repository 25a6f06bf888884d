package stages

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/claims"
	"github.com/streambed/streambed/formats/storage"
	"go.uber.org/zap"
)

// trash deletes the files of tables that were cleaned up, once nobody can be reading them any more. What is to go is noted
// in the warehouse, so that a restart does not forget it.
type trash struct {
	store    storage.Store
	pipeline string
	log      *zap.Logger
	wake     chan struct{}
}

// thrown is a note: the files below Location go at Due.
type thrown struct {
	Table formats.TableRef `json:"table"`
	Due   time.Time        `json:"due"`
}

func newTrash(o *Options) *trash {
	return &trash{store: o.Store, pipeline: o.Pipeline, log: o.Log, wake: make(chan struct{}, 1)}
}

func (t *trash) folder() string { return claims.Folder(t.store, t.pipeline) + "trash/" }

// throw notes incarnations whose files are to go.
func (t *trash) throw(ctx context.Context, gone []formats.TableRef, grace time.Duration) error {
	for _, ref := range gone {
		body, err := json.Marshal(thrown{ref, time.Now().Add(grace)})
		if err != nil {
			return err
		}
		if err := t.store.Put(ctx, t.folder()+ref.ID+".json", body); err != nil {
			return fmt.Errorf("the files of a table cannot be marked for deletion: %w", err)
		}
	}
	return nil
}

// look has the notes looked at soon.
func (t *trash) look() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// trashRetry is how long a failure is waited out.
const trashRetry = time.Minute

// run deletes what is due until ctx ends. live reports whether the lake still has an incarnation; it is not known before
// the first claim, and nothing is deleted then.
func (t *trash) run(ctx context.Context, live func(id string) (is, known bool)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-t.wake:
		case <-ctx.Done():
			return
		}
		next, err := t.empty(ctx, live)
		if err != nil && ctx.Err() == nil {
			t.log.Warn("the files of a table that was cleaned up cannot be deleted yet; it is tried again", zap.Error(err))
			next = trashRetry
		}
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// empty deletes what is due, and tells how long to wait for the next; zero when nothing waits.
func (t *trash) empty(ctx context.Context, live func(id string) (is, known bool)) (next time.Duration, err error) {
	var notes []string
	err = t.store.List(ctx, t.folder(), func(o storage.Info) error { notes = append(notes, o.URI); return nil })
	if err != nil {
		return 0, err
	}
	for _, uri := range notes {
		body, err := t.store.Get(ctx, uri)
		if err != nil {
			return 0, err
		}
		var note thrown
		if err := json.Unmarshal(body, &note); err != nil {
			return 0, fmt.Errorf("note %s: %w", uri, err)
		}
		is, known := live(note.Table.ID)
		wait := time.Until(note.Due)
		if !known {
			wait = max(wait, time.Second)
		}
		switch {
		case wait > 0:
			if next == 0 || wait < next {
				next = wait
			}
			continue
		case !is:
			if err := t.delete(ctx, note.Table); err != nil {
				return 0, err
			}
		}
		if err := t.store.Delete(ctx, uri); err != nil {
			return 0, err
		}
	}
	return next, nil
}

// delete removes all objects of an incarnation.
func (t *trash) delete(ctx context.Context, ref formats.TableRef) error {
	if !strings.HasPrefix(ref.Location, t.store.Warehouse()+"/") || !strings.HasSuffix(ref.Location, "/"+ref.ID) {
		return fmt.Errorf("%s is not the folder of a table in this warehouse", ref.Location) // never a prefix of others' files
	}
	var uris []string
	if err := t.store.List(ctx, ref.Location+"/", func(o storage.Info) error { uris = append(uris, o.URI); return nil }); err != nil {
		return err
	}
	if err := t.store.Delete(ctx, uris...); err != nil {
		return err
	}
	t.log.Info("the files of a table that was cleaned up are deleted", zap.String("location", ref.Location), zap.Int("objects", len(uris)))
	return nil
}
