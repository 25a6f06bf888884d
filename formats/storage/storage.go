// Package storage is the object store below a lake: a local folder or an S3 bucket, behind one interface.
package storage

import (
	"context"
	"errors"
	"io"
	"time"
)

var (
	// ErrNotFound means that there is no such object.
	ErrNotFound = errors.New("no such object")
	// ErrExists means that PutNew found an object in its place.
	ErrExists = errors.New("object exists already")
)

// Store holds immutable objects under URIs that begin with its warehouse URI ("file:///var/lib/x", "s3://bucket/p").
// Its methods are safe for concurrent use and retry what is worth retrying until ctx ends. An object is durable, and
// seen whole or not at all, once its put has returned.
type Store interface {
	// Warehouse is the URI below which all objects live, without a slash at its end.
	Warehouse() string
	// Put stores body under uri; an object there is replaced. body is not kept.
	Put(ctx context.Context, uri string, body []byte) error
	// PutNew stores body only if nothing is stored under uri; else ErrExists.
	PutNew(ctx context.Context, uri string, body []byte) error
	// PutFile stores the local file; the file may be moved away and must not be used afterwards.
	PutFile(ctx context.Context, uri, local string) error
	// Get reads a whole object.
	Get(ctx context.Context, uri string) ([]byte, error)
	// Open gives random access to an object; the caller closes it. Reads end with ctx.
	Open(ctx context.Context, uri string) (Object, error)
	// Delete removes objects; one that is not there is no error.
	Delete(ctx context.Context, uris ...string) error
	// List calls f for each object whose URI begins with prefix, in any order, until f returns an error.
	List(ctx context.Context, prefix string, f func(Info) error) error
	// Local gives the path on this machine of an object of a folder store, else "".
	Local(uri string) string
}

// Object is an open object.
type Object interface {
	io.ReaderAt
	io.Closer
	// Size is in bytes.
	Size() int64
}

// Info describes a stored object.
type Info struct {
	URI      string
	Size     int64
	Modified time.Time
}
