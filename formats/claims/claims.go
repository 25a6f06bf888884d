// Package claims notes in a warehouse which claims of a pipeline have been made there. A catalog that has seen fewer of
// them was lost, or is an old copy: going on from it would load everything twice, or from a position of long ago.
package claims

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
)

// Folder is the folder of a pipeline's notes, with a slash at its end. No source table's folder has its name, since
// storage.EncodeName gives none that begins with an underscore; readers take it for hidden.
func Folder(store storage.Store, pipeline string) string {
	return store.Warehouse() + "/_streambed/" + storage.EncodeName(pipeline) + "/"
}

// Prefix is what the names of a claim's notes begin with.
func Prefix(epoch int64) string { return fmt.Sprintf("%010d-", epoch) }

// Epoch reads the epoch of the claim that a name belongs to; zero when it is no note's name.
func Epoch(name string) int64 {
	digits, _, _ := strings.Cut(name, "-")
	epoch, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return epoch
}

// Newest is the highest epoch among names; zero without any.
func Newest(names []string) (epoch int64) {
	for _, name := range names {
		epoch = max(epoch, Epoch(name))
	}
	return epoch
}

// Names lists the notes of a pipeline, sorted: by epoch first. It makes one listing.
func Names(ctx context.Context, store storage.Store, pipeline string) ([]string, error) {
	folder := Folder(store, pipeline)
	var names []string
	err := store.List(ctx, folder, func(o storage.Info) error {
		if name := strings.TrimPrefix(o.URI, folder); Epoch(name) > 0 && !strings.Contains(name, "/") {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("what the warehouse notes of pipeline %s cannot be listed: %w", pipeline, err)
	}
	slices.Sort(names)
	return names, nil
}

// Check compares the epoch that a catalog holds, zero when it does not know the pipeline, with the notes of the warehouse.
// An epoch is raised in the catalog before it is noted, so a note of a higher one means formats.ErrCatalogLost; remedy ends
// its sentence.
func Check(names []string, held int64, pipeline, remedy string) error {
	newest := Newest(names)
	switch {
	case newest <= held:
		return nil
	case held == 0:
		return fmt.Errorf("%w: it knows nothing of pipeline %s, whose tables are in the warehouse; %s", formats.ErrCatalogLost, pipeline, remedy)
	}
	return fmt.Errorf("%w: it is an old copy, of claim %d of pipeline %s, while the warehouse has seen claim %d; %s",
		formats.ErrCatalogLost, held, pipeline, newest, remedy)
}

// Note stores a note of a claim and removes those of earlier ones, of which before is a list.
func Note(ctx context.Context, store storage.Store, pipeline, name string, body []byte, before []string) error {
	folder := Folder(store, pipeline)
	if err := store.Put(ctx, folder+name, body); err != nil {
		return fmt.Errorf("claim %d of pipeline %s cannot be noted in the warehouse: %w", Epoch(name), pipeline, err)
	}
	var old []string
	for _, held := range before {
		if Epoch(held) < Epoch(name) {
			old = append(old, folder+held)
		}
	}
	_ = store.Delete(ctx, old...) // they are worth nothing now; what stays goes with the next claim
	return nil
}
