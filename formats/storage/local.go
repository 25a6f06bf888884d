package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// tempPrefix marks files that are still being written; List never shows them.
const tempPrefix = ".streambed-tmp-"

// local is a Store in a folder. Every put writes a temporary file beside its place, syncs it, gives it its name and
// syncs the folder, so that neither a crash nor a power loss leaves a part of an object or a name without its bytes.
type local struct {
	warehouse string
	root      string
	syncs     folderSyncs

	mu      sync.Mutex
	folders map[string]bool // known to exist, durably
}

// NewLocal makes a store in a local folder, which is created when missing. The warehouse is "file:///folder" or an
// absolute path; the path is taken literally and must not hold '%', '?', '#' or control characters, which readers of
// file URIs understand differently.
func NewLocal(warehouseURI string) (Store, error) {
	root := warehouseURI
	if rest, ok := strings.CutPrefix(root, "file:"); ok {
		root = rest
		if after, ok := strings.CutPrefix(rest, "//"); ok {
			root = strings.TrimPrefix(after, "localhost")
		}
	}
	if !filepath.IsAbs(root) {
		return nil, fmt.Errorf("warehouse %q is not an absolute path: write it as file:///folder", warehouseURI)
	}
	if strings.ContainsAny(root, "%?#") || strings.ContainsFunc(root, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, fmt.Errorf("warehouse path %q holds one of %%, ?, # or a control character, which readers of file URIs "+
			"understand differently: choose a folder without it", root)
	}
	root = filepath.Clean(root)
	l := &local{warehouse: "file://" + filepath.ToSlash(root), root: root, folders: map[string]bool{}}
	l.syncs.calls = map[string]*folderSync{}
	if err := l.makeFolder(root); err != nil {
		return nil, fmt.Errorf("cannot make the warehouse folder %s: %w", root, err)
	}
	return l, nil
}

func (l *local) Warehouse() string { return l.warehouse }

func (l *local) Local(uri string) string {
	path, err := l.path(uri)
	if err != nil {
		return ""
	}
	return path
}

// path maps a URI to its file and refuses everything outside of the warehouse.
func (l *local) path(uri string) (string, error) {
	rest, ok := strings.CutPrefix(uri, l.warehouse+"/")
	if !ok || rest == "" {
		return "", fmt.Errorf("%q is not below the warehouse %s", uri, l.warehouse)
	}
	path := filepath.Join(l.root, filepath.FromSlash(rest))
	if path != l.root+string(filepath.Separator)+filepath.FromSlash(rest) {
		return "", fmt.Errorf("%q is not a plain path below the warehouse %s", uri, l.warehouse)
	}
	return path, nil
}

func (l *local) Put(ctx context.Context, uri string, body []byte) error {
	return l.put(ctx, uri, body, os.Rename)
}

func (l *local) PutNew(ctx context.Context, uri string, body []byte) error {
	// A hard link fails when the name is taken, and shows the object whole or not at all.
	return l.put(ctx, uri, body, func(temp, path string) error {
		err := os.Link(temp, path)
		if errors.Is(err, fs.ErrExist) {
			err = ErrExists
		}
		if rerr := os.Remove(temp); err == nil && rerr != nil {
			err = rerr
		}
		return err
	})
}

func (l *local) put(ctx context.Context, uri string, body []byte, name func(temp, path string) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	path, err := l.path(uri)
	if err != nil {
		return err
	}
	temp, err := l.writeTemp(path, func(f *os.File) error {
		_, err := f.Write(body)
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot store %s: %w", uri, err)
	}
	return l.finish(uri, temp, path, name)
}

func (l *local) PutFile(ctx context.Context, uri, localFile string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	path, err := l.path(uri)
	if err != nil {
		return err
	}
	if err := l.makeFolder(filepath.Dir(path)); err != nil {
		return fmt.Errorf("cannot store %s: %w", uri, err)
	}
	if err := syncFile(localFile); err != nil {
		return fmt.Errorf("cannot store %s: %w", uri, err)
	}
	err = os.Rename(localFile, path)
	if err == nil {
		err = l.syncs.sync(filepath.Dir(path))
	}
	if errors.Is(err, syscall.EXDEV) {
		return l.copyFile(uri, localFile, path)
	}
	if err != nil {
		return fmt.Errorf("cannot store %s: %w", uri, err)
	}
	return nil
}

// copyFile stores a file from another file system and removes it there.
func (l *local) copyFile(uri, localFile, path string) error {
	from, err := os.Open(localFile)
	if err != nil {
		return fmt.Errorf("cannot store %s: %w", uri, err)
	}
	defer from.Close()
	temp, err := l.writeTemp(path, func(f *os.File) error {
		_, err := io.Copy(f, from)
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot store %s: %w", uri, err)
	}
	if err := l.finish(uri, temp, path, os.Rename); err != nil {
		return err
	}
	return os.Remove(localFile)
}

// writeTemp writes and syncs a temporary file in the folder of path.
func (l *local) writeTemp(path string, write func(*os.File) error) (string, error) {
	folder := filepath.Dir(path)
	if err := l.makeFolder(folder); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(folder, tempPrefix)
	if err != nil {
		return "", err
	}
	err = write(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// finish gives a temporary file its name and syncs the folder.
func (l *local) finish(uri, temp, path string, name func(temp, path string) error) error {
	err := name(temp, path)
	if err == nil {
		err = l.syncs.sync(filepath.Dir(path))
	} else {
		os.Remove(temp)
	}
	if err != nil {
		return fmt.Errorf("cannot store %s: %w", uri, err)
	}
	return nil
}

// makeFolder creates a folder and those above it, and syncs each one's parent.
func (l *local) makeFolder(folder string) error {
	l.mu.Lock()
	known := l.folders[folder]
	l.mu.Unlock()
	if known {
		return nil
	}
	var missing []string
	for at := folder; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%s is not a folder", at)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, at)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, made := range missing {
		if err := l.syncs.sync(filepath.Dir(made)); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.folders[folder] = true
	l.mu.Unlock()
	return nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// folderSyncs lets puts into one folder at the same time share a sync: one that begins after the name was given covers
// it, so a put only ever waits for the next sync that begins.
type folderSyncs struct {
	mu    sync.Mutex
	calls map[string]*folderSync
}

type folderSync struct {
	waiting *syncCall // begins when the running one ends
}

type syncCall struct {
	done chan struct{}
	err  error
}

func (s *folderSyncs) sync(folder string) error {
	s.mu.Lock()
	running, ok := s.calls[folder]
	if ok {
		if running.waiting == nil {
			running.waiting = &syncCall{done: make(chan struct{})}
		}
		call := running.waiting
		s.mu.Unlock()
		<-call.done
		return call.err
	}
	s.calls[folder] = &folderSync{}
	s.mu.Unlock()
	err := syncFolder(folder)
	s.next(folder)
	return err
}

// next runs the sync that others wait for, if any; it is called by whoever finished one.
func (s *folderSyncs) next(folder string) {
	s.mu.Lock()
	call := s.calls[folder].waiting
	if call == nil {
		delete(s.calls, folder)
		s.mu.Unlock()
		return
	}
	s.calls[folder].waiting = nil
	s.mu.Unlock()
	go func() {
		call.err = syncFolder(folder)
		close(call.done)
		s.next(folder)
	}()
}

func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
