package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"
)

func (s *s3) Get(ctx context.Context, uri string) (body []byte, err error) {
	key, err := s.key(uri)
	if err != nil {
		return nil, err
	}
	size := int64(0)
	err = retry(ctx, func(ctx context.Context) (again bool, err error) {
		again, err = attempt(ctx, size, func(ctx context.Context) (err error) {
			body, err = s.read(ctx, key, 0, -1, minio.GetObjectOptions{})
			return err
		})
		size = 1 << 30 // a large object may have run out of time
		return again, err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", uri, err)
	}
	return body, nil
}

func (s *s3) Open(ctx context.Context, uri string) (Object, error) {
	key, err := s.key(uri)
	if err != nil {
		return nil, err
	}
	var info minio.ObjectInfo
	err = retry(ctx, func(ctx context.Context) (bool, error) {
		return attempt(ctx, 0, func(ctx context.Context) (err error) {
			info, err = s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
			return missing(err)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", uri, err)
	}
	return &s3Object{s: s, ctx: ctx, uri: uri, key: key, etag: info.ETag, size: info.Size}, nil
}

// deleteThreads objects are deleted at once: not all servers know a request that deletes many.
const deleteThreads = 16

// s3Object reads ranges of one version of an object.
type s3Object struct {
	s        *s3
	ctx      context.Context
	uri, key string
	etag     string
	size     int64
}

func (o *s3Object) Size() int64 { return o.size }

func (o *s3Object) Close() error { return nil }

func (o *s3Object) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("read before the object's beginning")
	}
	n := min(int64(len(p)), o.size-off)
	if n <= 0 {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	err := retry(o.ctx, func(ctx context.Context) (bool, error) {
		return attempt(ctx, n, func(ctx context.Context) error {
			var options minio.GetObjectOptions
			if o.etag != "" {
				if err := options.SetMatchETag(o.etag); err != nil {
					return err
				}
			}
			body, err := o.s.read(ctx, o.key, off, n, options)
			copy(p, body)
			return err
		})
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("cannot read %s: %w", o.uri, err)
	case n < int64(len(p)):
		return int(n), io.EOF
	}
	return int(n), nil
}

func (s *s3) Delete(ctx context.Context, uris ...string) error {
	keys := make([]string, len(uris))
	for i, uri := range uris {
		key, err := s.key(uri)
		if err != nil {
			return err
		}
		keys[i] = key
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(deleteThreads)
	for i, key := range keys {
		g.Go(func() error {
			err := retry(gctx, func(ctx context.Context) (bool, error) { return attempt(ctx, 0, s.remove(key)) })
			if err != nil {
				return fmt.Errorf("cannot delete %s: %w", uris[i], err)
			}
			return nil
		})
	}
	return g.Wait()
}

func (s *s3) remove(key string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		err := missing(s.client.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{}))
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	}
}

func (s *s3) List(ctx context.Context, prefix string, f func(Info) error) error {
	if prefix != s.warehouse && !strings.HasPrefix(prefix, s.warehouse+"/") {
		return fmt.Errorf("%q is not below the warehouse %s", prefix, s.warehouse)
	}
	keyPrefix := s.prefix + strings.TrimPrefix(strings.TrimPrefix(prefix, s.warehouse), "/")
	var stop error
	after := ""
	err := retry(ctx, func(ctx context.Context) (bool, error) {
		lctx, cancel := context.WithCancel(ctx) // ends the listing when f does
		defer cancel()
		for o := range s.client.Client.ListObjects(lctx, s.bucket, minio.ListObjectsOptions{Prefix: keyPrefix, Recursive: true, StartAfter: after}) {
			if o.Err != nil {
				return passing(o.Err), o.Err
			}
			after = o.Key
			if strings.HasSuffix(o.Key, "/") {
				continue // a folder that some clients make
			}
			info := Info{URI: s.warehouse + "/" + strings.TrimPrefix(o.Key, s.prefix), Size: o.Size, Modified: o.LastModified}
			if stop = f(info); stop != nil {
				return false, stop
			}
		}
		return true, context.Cause(ctx)
	})
	if stop != nil {
		return stop
	}
	if err != nil {
		return fmt.Errorf("cannot list %s: %w", prefix, err)
	}
	return nil
}
