package ducklake

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
)

// readerGrace is how long a file stays after the last snapshot that shows it has expired, for readers without a lease:
// longer than any statement of theirs. Those with one keep it for as long as they read (promise 9).
const readerGrace = time.Hour

// orphanAge is how old a file that nothing names must be to be taken for an orphan: far longer than from its upload to its
// commit.
const orphanAge = 24 * time.Hour

// expiring is the task of removing snapshots that are not to be kept.
type expiring struct{ lake *Lake }

// Discard implements formats.Prepared.
func (*expiring) Discard() {}

// Apply implements formats.Prepared.
func (e *expiring) Apply(ctx context.Context) ([]formats.Rewrite, formats.MaintenanceReport, error) {
	l := e.lake
	report := formats.MaintenanceReport{Task: formats.Expire}
	l.committing.Lock()
	defer l.committing.Unlock()
	if l.pending != nil {
		return nil, report, fmt.Errorf("%w: the outcome of a checkpoint is not known yet", formats.ErrGivenUp)
	}
	a, err := l.upkeep(formats.Expire)
	if err != nil || len(l.kept) == 0 {
		return nil, report, err
	}
	a.kept, a.expired = l.cfg.Retention.thin(l.kept, a.now)
	if len(a.expired) == 0 {
		return nil, report, nil
	}
	a.mark.snapshot = l.snapshot
	if err := l.swap(ctx, a); err != nil {
		return nil, report, err
	}
	report.Snapshots = len(a.expired)
	return nil, report, nil
}

// sweeping is the task of removing files that nothing names any more.
type sweeping struct {
	lake   *Lake
	dry    bool
	due    []scheduled
	report formats.MaintenanceReport
	orphan []storage.Info
}

// scheduled is a file that DuckLake's catalog has scheduled for deletion.
type scheduled struct {
	id       int64
	path     string
	relative bool
}

func (l *Lake) prepareSweep(ctx context.Context, m formats.Maintenance) (formats.Prepared, error) {
	s := &sweeping{lake: l, dry: m.DryRun, report: formats.MaintenanceReport{Task: formats.Orphans}}
	age := m.Age
	if age == 0 {
		age = orphanAge
	}
	now := time.Now() // as the store has it
	var old []storage.Info
	prefix := l.base().Warehouse() + "/"
	list := l.base().List
	if !m.All { // only what the catalog has scheduled
		list = func(context.Context, string, func(storage.Info) error) error { return nil }
	}
	if err := list(ctx, prefix, func(i storage.Info) error {
		if now.Sub(i.Modified) > age && strings.HasSuffix(i.URI, ".parquet") {
			old = append(old, i)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	leases, err := l.Leases().Oldest(ctx)
	if err != nil {
		return nil, fmt.Errorf("the leases of running queries cannot be read: %w", err)
	}
	// A duration, since what has been scheduled tells of our clock and leases of the catalog's.
	grace := max(readerGrace, time.Duration(leases.Now-leases.Since)*time.Microsecond)
	// What is committed after the list was made is younger than any orphan.
	named := map[string]bool{}
	err = l.catalog.retry(ctx, func() error {
		clear(named)
		s.due = nil
		return l.catalog.reading(ctx, func(tx *transaction) error { return s.read(tx, named, grace) })
	})
	if err != nil {
		return nil, err
	}
	for _, i := range old {
		if !named[i.URI] && l.ours(i.URI) {
			s.orphan = append(s.orphan, i)
			s.report.Bytes += i.Size
		}
	}
	s.report.Files = len(s.due) + len(s.orphan)
	if s.report.Files == 0 {
		return nil, nil
	}
	return s, nil
}

// ours reports whether a file lies where only we put files: in the data or deletes folder of an incarnation, or that of a
// partition, where DuckDB's have names that begin with ducklake-.
func (l *Lake) ours(uri string) bool {
	parts := strings.Split(strings.TrimPrefix(uri, l.base().Warehouse()+"/"), "/")
	if len(parts) < 5 || len(parts[2]) != 36 {
		return false
	}
	if len(parts) == 5 && (parts[3] == dataFolder || parts[3] == "deletes") {
		return true
	}
	foreign := strings.HasPrefix(parts[len(parts)-1], "ducklake-")
	return !foreign && !slices.ContainsFunc(parts[3:len(parts)-1], func(folder string) bool { return !strings.Contains(folder, "=") })
}

// read finds every file that some catalog row names, and those that have been scheduled for longer than the grace.
func (s *sweeping) read(tx *transaction, named map[string]bool, grace time.Duration) error {
	l := s.lake
	note := func(path string, relative bool) {
		if relative {
			path = l.base().Warehouse() + "/" + path
		} else if rest, ok := strings.CutPrefix(path, dataPath(l.cfg.Store)); ok {
			path = l.base().Warehouse() + "/" + rest
		}
		named[path] = true
	}
	for _, kind := range []string{"ducklake_data_file", "ducklake_delete_file"} {
		if err := tx.each(func(scan func(...any) error) error {
			var path string
			var relative sql.NullBool
			if err := scan(&path, &relative); err != nil {
				return err
			}
			note(path, relative.Bool)
			return nil
		}, `SELECT CASE WHEN f.path_is_relative THEN s.path || t.path || f.path ELSE f.path END, f.path_is_relative
			FROM `+kind+` f JOIN ducklake_table t ON t.table_id = f.table_id JOIN ducklake_schema s ON s.schema_id = t.schema_id`); err != nil {
			return err
		}
	}
	if err := tx.each(func(scan func(...any) error) error {
		var path string
		err := scan(&path)
		named[path] = true
		return err
	}, `SELECT path FROM streambed_files`); err != nil {
		return err
	}
	return tx.each(func(scan func(...any) error) error {
		var d scheduled
		var relative sql.NullBool
		var due int64
		if err := scan(&d.id, &d.path, &relative, &due); err != nil {
			return err
		}
		d.relative = relative.Bool
		note(d.path, d.relative)
		if due != 0 {
			s.due = append(s.due, d)
		}
		return nil
	}, `SELECT data_file_id, path, path_is_relative, CASE WHEN schedule_start <= `+l.catalog.timestamp("$1")+` THEN 1 ELSE 0 END
		FROM ducklake_files_scheduled_for_deletion`, snapshotTime(l.cfg.Now().Add(-grace)))
}

// Discard implements formats.Prepared.
func (*sweeping) Discard() {}

// Apply implements formats.Prepared: files first, then the rows that tell of them, so that none is forgotten.
func (s *sweeping) Apply(ctx context.Context) ([]formats.Rewrite, formats.MaintenanceReport, error) {
	l := s.lake
	if s.dry {
		return nil, s.report, nil
	}
	var uris []string
	for _, i := range s.orphan {
		uris = append(uris, i.URI)
	}
	for _, d := range s.due {
		uris = append(uris, resolve(l.cfg.Store, formats.TableRef{Location: l.base().Warehouse()}, d.path, d.relative))
	}
	if err := l.base().Delete(ctx, uris...); err != nil {
		return nil, s.report, fmt.Errorf("%w: %w", formats.ErrGivenUp, err)
	}
	err := l.catalog.retry(ctx, func() error {
		return l.catalog.transact(ctx, func(tx *transaction) error {
			for _, d := range s.due {
				if _, err := tx.exec(`DELETE FROM ducklake_files_scheduled_for_deletion WHERE data_file_id = $1 AND path = $2`, d.id, d.path); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil { // what has been deleted is deleted once more
		err = fmt.Errorf("%w: %w", formats.ErrGivenUp, err)
	}
	return nil, s.report, err
}
