package keyindex

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// filled makes an index with one entry in a folder.
func filled(t *testing.T, dir string) {
	x, err := Open(dir, Options{})
	require.NoError(t, err)
	commit(t, x.Table("a"), 1, func(c *Change) { c.Put([]byte("k"), at(1, 0)) })
	require.NoError(t, x.Close())
}

// reopened opens a folder, tells whether the entry is there, and how many errors were logged.
func reopened(t *testing.T, dir string, fs vfs.FS) (there bool, errors int) {
	core, logged := observer.New(zap.ErrorLevel)
	x, err := Open(dir, Options{Log: zap.New(core), fs: fs})
	require.NoError(t, err)
	defer func() { require.NoError(t, x.Close()) }()
	there = len(get(t, x.Table("a"), "k")) == 1
	_, known, err := x.Table("a").Sequence()
	require.NoError(t, err)
	require.Equal(t, there, known)
	commit(t, x.Table("b"), 1, func(c *Change) { c.Put([]byte("k"), at(1, 0)) })
	return there, logged.Len()
}

func TestADamagedDatabaseIsSetAsideWithALineInTheLog(t *testing.T) {
	for name, hurt := range map[string]func(t *testing.T, dir string){
		"manifest": func(t *testing.T, dir string) {
			files, err := filepath.Glob(filepath.Join(dir, "db", "MANIFEST-*"))
			require.NoError(t, err)
			require.NotEmpty(t, files)
			for _, f := range files {
				require.NoError(t, os.WriteFile(f, []byte("this is no manifest, but it is long enough"), 0o644))
			}
		},
		"marked by an earlier run": func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, damagedMark), nil, 0o644))
		},
		"not a folder": func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "db")))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "db"), []byte("?"), 0o644))
		},
		"another layout": func(t *testing.T, dir string) {
			db, err := pebble.Open(filepath.Join(dir, "db"), &pebble.Options{Logger: databaseLog{zap.NewNop()}})
			require.NoError(t, err)
			require.NoError(t, db.Set(keyVersion, binary.BigEndian.AppendUint32(nil, layoutVersion+1), pebble.Sync))
			require.NoError(t, db.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			filled(t, dir)
			there, errors := reopened(t, dir, nil)
			require.True(t, there)
			require.Zero(t, errors)
			hurt(t, dir)
			there, errors = reopened(t, dir, nil)
			require.False(t, there, "a damaged database was used")
			require.Equal(t, 1, errors, "lines in the log")
			_, errors = reopened(t, dir, nil)
			require.Zero(t, errors, "set aside once more")
			names, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, names, 3, "more than database, ingest folder and lock is left: %v", names)
		})
	}
}

func TestAFolderInUseIsNotTouched(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, "in use by another process")
	commit(t, x.Table("a"), 1, func(c *Change) { c.Put([]byte("k"), at(1, 0)) })
	require.Len(t, get(t, x.Table("a"), "k"), 1)
}

// TestAFileSystemThatRefusesCostsNoData tells a full disk from a damaged database.
func TestAFileSystemThatRefusesCostsNoData(t *testing.T) {
	for _, refusal := range []error{syscall.ENOSPC, syscall.EACCES, syscall.EMFILE} {
		dir := t.TempDir()
		filled(t, dir)
		fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && filepath.Base(filepath.Dir(op.Path)) == "db" {
				return &os.PathError{Op: "write", Path: op.Path, Err: refusal}
			}
			return nil
		}))
		_, err := Open(dir, Options{fs: fs})
		require.ErrorIs(t, err, refusal)
		there, errors := reopened(t, dir, nil)
		require.True(t, there, "%v cost the database", refusal)
		require.Zero(t, errors)
	}
}

// smallDisk is a file system that tells how much space it has left.
type smallDisk struct {
	vfs.FS
	free uint64
}

func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: d.free, TotalBytes: 1 << 40}, nil
}

// TestAFullDiskRefusesWritesAndNothingIsLost: the database would end the process when its own log met a full disk.
func TestAFullDiskRefusesWritesAndNothingIsLost(t *testing.T) {
	disk := &smallDisk{vfs.NewMem(), 1 << 40}
	x, err := Open("/index", Options{fs: disk, PendingBytes: 1, leastSpill: 64 << 10})
	require.NoError(t, err)
	defer func() { require.NoError(t, x.Close()) }()
	table := x.Table("a")
	commit(t, table, 1, func(c *Change) { c.Put([]byte("k"), at(1, 0)) })
	c := table.NewChange()
	c.Put([]byte("k"), at(2, 0))
	table.Stage(c)

	disk.free = leastFree - 1
	require.ErrorIs(t, table.Commit(c, 2), ErrNoSpace)
	require.ErrorIs(t, table.Reset(2), ErrNoSpace)
	e := NewEntries()
	e.Add([]byte("k"), at(3, 0))
	require.ErrorIs(t, table.Ingest(e), ErrNoSpace)
	require.Equal(t, []Position{at(1, 0), at(2, 0)}, get(t, table, "k"))
	large := table.NewChange()
	for i := range uint32(10_000) {
		large.Put(fmt.Append(nil, i), at(3, i))
	}
	require.ErrorIs(t, table.Scan(large, [][]byte{[]byte("k")}, nil), ErrNoSpace)
	large.Discard()
	require.NoError(t, x.Drop("b"), "dropping makes room")

	disk.free = 1 << 40
	require.NoError(t, table.Commit(c, 2))
	require.NoError(t, table.Ingest(e))
	require.Equal(t, []Position{at(1, 0), at(2, 0), at(3, 0)}, get(t, table, "k"))
}
