package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func (l *local) Get(ctx context.Context, uri string) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	path, err := l.path(uri)
	if err != nil {
		return nil, err
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, readError(uri, err)
	}
	return body, nil
}

func (l *local) Open(ctx context.Context, uri string) (Object, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	path, err := l.path(uri)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, readError(uri, err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, readError(uri, err)
	}
	if info.IsDir() {
		f.Close()
		return nil, readError(uri, fs.ErrNotExist)
	}
	return &localObject{File: f, ctx: ctx, size: info.Size()}, nil
}

func readError(uri string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot read %s: %w", uri, ErrNotFound)
	}
	return fmt.Errorf("cannot read %s: %w", uri, err)
}

type localObject struct {
	*os.File
	ctx  context.Context
	size int64
}

func (o *localObject) Size() int64 { return o.size }

func (o *localObject) ReadAt(p []byte, off int64) (int, error) {
	if err := context.Cause(o.ctx); err != nil {
		return 0, err
	}
	return o.File.ReadAt(p, off)
}

func (l *local) Delete(ctx context.Context, uris ...string) error {
	var errs []error
	for _, uri := range uris {
		if err := context.Cause(ctx); err != nil {
			return errors.Join(append(errs, err)...)
		}
		path, err := l.path(uri)
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("cannot delete %s: %w", uri, err))
		}
	}
	return errors.Join(errs...)
}

func (l *local) List(ctx context.Context, prefix string, f func(Info) error) error {
	if prefix != l.warehouse && !strings.HasPrefix(prefix, l.warehouse+"/") {
		return fmt.Errorf("%q is not below the warehouse %s", prefix, l.warehouse)
	}
	// The prefix may end inside a name: the walk begins at the folder above.
	rest := strings.TrimPrefix(strings.TrimPrefix(prefix, l.warehouse), "/")
	start := l.root
	if i := strings.LastIndexByte(rest, '/'); i >= 0 {
		start = filepath.Join(l.root, filepath.FromSlash(rest[:i]))
	}
	return filepath.WalkDir(start, func(path string, entry fs.DirEntry, err error) error {
		if cerr := context.Cause(ctx); cerr != nil {
			return cerr
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile, or nothing was ever stored there
		}
		if err != nil {
			return fmt.Errorf("cannot list %s: %w", prefix, err)
		}
		uri := l.warehouse + filepath.ToSlash(strings.TrimPrefix(path, l.root))
		if entry.IsDir() {
			if !strings.HasPrefix(uri, prefix) && !strings.HasPrefix(prefix, uri) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasPrefix(uri, prefix) || strings.HasPrefix(entry.Name(), tempPrefix) {
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot list %s: %w", prefix, err)
		}
		return f(Info{URI: uri, Size: info.Size(), Modified: info.ModTime()})
	})
}
