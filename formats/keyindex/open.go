package keyindex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"
)

// The folder holds the database in db, files to be ingested in ingest, a lock, and the mark of a database that was seen
// to be damaged. A database that is set aside is renamed first, so that a crash while it is deleted leaves no half one.
const (
	lockFile    = "LOCK"
	databaseDir = "db"
	ingestDir   = "ingest"
	damagedMark = "DAMAGED"
	asideDir    = "aside"

	leastCache = 8 << 20
	blockSize  = 32 << 10 // measured: the fastest for sorted lookups
)

// Open opens the index in a folder, which it creates. A damaged database, or one of another layout, is set aside with a
// line in the log, and a fresh one opened: its tables then have no sequence. It fails when another process has the
// folder, or when the file system refuses (permission, space).
func Open(dir string, o Options) (*Index, error) {
	o = o.complete()
	x := &Index{
		dir: dir, options: o, fs: o.fs, log: o.Log, idle: make(chan struct{}, 1),
		tables: map[string]*Table{}, numbers: map[string]uint32{},
	}
	if err := x.fs.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("key index: cannot make folder %s: %w", dir, err)
	}
	if err := x.syncFolder(x.fs.PathDir(dir)); err != nil {
		return nil, err
	}
	lock, err := x.fs.Lock(x.path(lockFile))
	if err != nil {
		return nil, fmt.Errorf("key index: folder %s is in use by another process, or cannot be locked: %w", dir, err)
	}
	x.lock = lock
	if err := x.open(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return x, nil
}

func (x *Index) open() error {
	for _, leftover := range []string{asideDir, ingestDir} {
		if err := x.fs.RemoveAll(x.path(leftover)); err != nil {
			return fmt.Errorf("key index: cannot remove %s: %w", x.path(leftover), err)
		}
	}
	if err := x.fs.MkdirAll(x.path(ingestDir), 0o755); err != nil {
		return fmt.Errorf("key index: cannot make folder %s: %w", x.path(ingestDir), err)
	}
	if _, err := x.fs.Stat(x.path(damagedMark)); err == nil {
		if err := x.setAside(ErrDamaged); err != nil {
			return err
		}
	}
	err := x.openDatabase()
	if err == nil {
		return nil
	}
	if refused(err) {
		return fmt.Errorf("key index: cannot open the database in %s: %w", x.dir, err)
	}
	if err := x.setAside(err); err != nil {
		return err
	}
	if err := x.openDatabase(); err != nil {
		return fmt.Errorf("key index: cannot make a database in %s: %w", x.dir, err)
	}
	return nil
}

// refused tells the environment's errors, which a fresh database would meet as well, from damage.
func refused(err error) bool {
	for _, e := range []error{
		os.ErrPermission, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (x *Index) setAside(why error) error {
	x.log.Error("the key index is damaged: it is set aside and will be rebuilt from the data files",
		zap.String("folder", x.dir), zap.Error(why))
	err := x.fs.Rename(x.path(databaseDir), x.path(asideDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("key index: cannot set the damaged database in %s aside: %w", x.dir, err)
	}
	if err := x.fs.Remove(x.path(damagedMark)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("key index: cannot remove %s: %w", x.path(damagedMark), err)
	}
	if err := x.fs.RemoveAll(x.path(asideDir)); err != nil {
		return fmt.Errorf("key index: cannot remove the damaged database in %s: %w", x.path(asideDir), err)
	}
	return nil
}

// markDamaged leaves the mark at which the next Open sets the database aside.
func (x *Index) markDamaged(why error) {
	f, err := x.fs.Create(x.path(damagedMark), vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write([]byte(why.Error()))
		err = errors.Join(err, f.Sync(), f.Close())
	}
	x.log.Error("the key index is damaged: it will be rebuilt at the next start",
		zap.String("folder", x.dir), zap.NamedError("cause", why), zap.Error(err))
}

func (x *Index) openDatabase() (err error) {
	x.cache = pebble.NewCache(x.options.CacheBytes)
	x.opts = x.databaseOptions()
	defer func() {
		if r := recover(); r != nil { // damaged bytes can make Pebble panic
			err = fmt.Errorf("opening panicked: %v", r)
		}
		if err != nil {
			x.cache.Unref()
		}
	}()
	db, err := pebble.Open(x.path(databaseDir), x.opts)
	if err != nil {
		return err
	}
	if err := x.load(db); err != nil {
		return errors.Join(err, db.Close())
	}
	x.db = db
	return nil
}

func (x *Index) databaseOptions() *pebble.Options {
	opts := &pebble.Options{
		FS:                 x.fs,
		Cache:              x.cache,
		FormatMajorVersion: pebble.FormatNewest,
		// The write buffers are taken out of the cache.
		MemTableSize:                uint64(min(max(x.options.CacheBytes/8, 1<<20), 64<<20)),
		MemTableStopWritesThreshold: 4,
		MaxOpenFiles:                500,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		Logger:                      databaseLog{x.log},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) {
				x.log.Warn("the key index cannot write to its folder and goes on trying: free space or mend the disk",
					zap.String("folder", x.dir), zap.Error(err))
			},
			// The default would end the process.
			DataCorruption: func(info pebble.DataCorruptionInfo) { x.markDamaged(info.Details) },
		},
	}
	for i := range opts.Levels {
		opts.Levels[i].BlockSize = blockSize
		opts.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	}
	opts.EnsureDefaults()
	return opts
}

// load reads the list of tables, or writes the layout's version into a new database.
func (x *Index) load(db *pebble.DB) error {
	version, err := readNumber(db, keyVersion)
	if err != nil {
		return err
	}
	switch version {
	case layoutVersion:
	case 0:
		return db.Set(keyVersion, binary.BigEndian.AppendUint32(nil, layoutVersion), pebble.Sync)
	default:
		return fmt.Errorf("the database has layout %d, this program knows %d", version, layoutVersion)
	}
	// What an earlier run spilled is of no use: it was not durable in the lake as far as the index knows.
	if err := db.DeleteRange([]byte{spaceSpill}, []byte{spaceSpill + 1}, pebble.NoSync); err != nil {
		return err
	}
	if x.last, err = readNumber(db, keyNumber); err != nil {
		return err
	}
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: keyTables, UpperBound: []byte{spaceSystem, keyTables[1] + 1}})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		number, err := number(it.Value())
		if err != nil {
			return errors.Join(err, it.Close())
		}
		x.numbers[strings.Clone(string(it.Key()[len(keyTables):]))] = number
	}
	return errors.Join(it.Error(), it.Close())
}

func readNumber(db *pebble.DB, key []byte) (uint32, error) {
	v, closer, err := db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := number(v)
	return n, errors.Join(err, closer.Close())
}

func number(v []byte) (uint32, error) {
	if len(v) != 4 {
		return 0, fmt.Errorf("a number has %d bytes instead of 4", len(v))
	}
	return binary.BigEndian.Uint32(v), nil
}

// syncFolder makes what was made or renamed in a folder durable.
func (x *Index) syncFolder(path string) error {
	d, err := x.fs.OpenDir(path)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("key index: cannot sync folder %s: %w", path, err)
	}
	return nil
}

func (x *Index) path(name string) string { return x.fs.PathJoin(x.dir, name) }

// databaseLog passes Pebble's complaints on.
type databaseLog struct{ log *zap.Logger }

func (databaseLog) Infof(string, ...any) {}

func (l databaseLog) Errorf(format string, args ...any) {
	l.log.Warn("key index: " + fmt.Sprintf(format, args...))
}

// Fatalf ends the process: Pebble calls it when its log or manifest cannot be written, and cannot go on after.
func (l databaseLog) Fatalf(format string, args ...any) {
	l.log.Fatal("the key index can no longer be written; nothing is lost: make room on its disk and start again",
		zap.String("cause", fmt.Sprintf(format, args...)))
}
