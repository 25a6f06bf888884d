package storage

import (
	"context"
	"fmt"
	"strings"
)

// Options are what a store needs beyond its URI.
type Options struct {
	S3 S3Options
}

// S3Options reach an S3 bucket. Empty fields are looked up: the endpoint is AWS', the keys come from the environment,
// the shared credentials file or the instance's role.
type S3Options struct {
	// Endpoint is "host", "host:port" or a URL with http or https.
	Endpoint  string
	Region    string
	AccessKey string
	SecretKey string
	// PathStyle is "auto" (or empty), "on" or "off".
	PathStyle string
}

// Open makes the store of a warehouse URI: "file:///folder", an absolute path, or "s3://bucket/prefix". It may block on
// the store.
func Open(ctx context.Context, uri string, options Options) (Store, error) {
	scheme, rest, ok := strings.Cut(uri, "://")
	switch {
	case !ok || scheme == "file":
		return NewLocal(uri)
	case scheme == "s3", scheme == "s3a":
		return newS3(ctx, "s3://"+rest, options.S3)
	default:
		return nil, fmt.Errorf("warehouse %q has the unknown scheme %q: use file:// or s3://", uri, scheme)
	}
}
