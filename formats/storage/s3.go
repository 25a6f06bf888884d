package storage

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	// partSize is the size of the parts of a large object in bytes; smaller objects go in one request.
	partSize = 16 << 20
	// partThreads parts of one object go at once.
	partThreads = 4
	// A request that makes no headway is given up and tried again after attemptTime and the time that its bytes take at
	// slowest bytes a second.
	attemptTime = 30 * time.Second
	slowest     = 512 << 10
)

// s3 is a Store in a bucket.
type s3 struct {
	client    minio.Core
	bucket    string
	prefix    string // "" or ending with a slash
	warehouse string

	// conditional tells, once probed, whether the bucket honours "If-None-Match: *".
	conditional struct {
		sync.Mutex
		known, works bool
	}
}

// newS3 opens a bucket, which must exist. A bucket that cannot be reached at present is no error: requests wait for it.
func newS3(ctx context.Context, uri string, o S3Options) (Store, error) {
	rest := strings.TrimPrefix(uri, "s3://")
	bucket, prefix, _ := strings.Cut(strings.TrimRight(rest, "/"), "/")
	if bucket == "" || prefix != "" && path.Clean("/"+prefix) != "/"+prefix {
		return nil, fmt.Errorf("warehouse %q is not a plain place in a bucket: write it as s3://bucket/prefix", uri)
	}
	s := &s3{bucket: bucket, warehouse: "s3://" + bucket}
	if prefix != "" {
		s.prefix, s.warehouse = prefix+"/", s.warehouse+"/"+prefix
	}
	host, secure, err := endpoint(o)
	if err != nil {
		return nil, err
	}
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	transport.MaxIdleConnsPerHost, transport.MaxIdleConns = 64, 256
	lookup, err := lookupStyle(o.PathStyle)
	if err != nil {
		return nil, err
	}
	client, err := minio.New(host, &minio.Options{Creds: keys(o), Secure: secure, Region: o.Region, BucketLookup: lookup,
		Transport: transport, MaxRetries: 1}) // we retry ourselves, until the context ends
	if err != nil {
		return nil, fmt.Errorf("S3 endpoint %q cannot be used: %w", o.Endpoint, err)
	}
	s.client = minio.Core{Client: client}
	return s, s.probe(ctx)
}

// endpoint gives the host and whether it is spoken to by TLS.
func endpoint(o S3Options) (host string, secure bool, err error) {
	if o.Endpoint == "" {
		if o.Region == "" {
			return "s3.amazonaws.com", true, nil
		}
		return "s3." + o.Region + ".amazonaws.com", true, nil
	}
	if !strings.Contains(o.Endpoint, "://") {
		return o.Endpoint, true, nil
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return "", false, fmt.Errorf("S3 endpoint %q is no address: write it as https://host:port", o.Endpoint)
	}
	return u.Host, u.Scheme == "https", nil
}

func lookupStyle(style string) (minio.BucketLookupType, error) {
	switch style {
	case "", "auto":
		return minio.BucketLookupAuto, nil
	case "on":
		return minio.BucketLookupPath, nil
	case "off":
		return minio.BucketLookupDNS, nil
	}
	return 0, fmt.Errorf("S3 path style %q is unknown: use auto, on or off", style)
}

// keys looks for credentials where AWS' own tools do.
func keys(o S3Options) *credentials.Credentials {
	if o.AccessKey != "" || o.SecretKey != "" {
		return credentials.NewStaticV4(o.AccessKey, o.SecretKey, "")
	}
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{},
		&credentials.FileAWSCredentials{},
		&credentials.IAM{Client: &http.Client{Timeout: 10 * time.Second}},
	})
}

// probe finds what no waiting mends: a bucket that does not exist, keys that are refused.
func (s *s3) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	exists, err := s.client.BucketExists(ctx, s.bucket)
	if err == nil && !exists {
		return fmt.Errorf("bucket %s does not exist: create it, or name another warehouse", s.bucket)
	}
	switch minio.ToErrorResponse(err).Code {
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "NoSuchBucket":
		return fmt.Errorf("bucket %s cannot be used: %w", s.bucket, err)
	}
	return nil
}

func (s *s3) Warehouse() string { return s.warehouse }

func (s *s3) Local(string) string { return "" }

// key maps a URI to its key and refuses everything outside of the warehouse.
func (s *s3) key(uri string) (string, error) {
	rest, ok := strings.CutPrefix(uri, s.warehouse+"/")
	if !ok || rest == "" {
		return "", fmt.Errorf("%q is not below the warehouse %s", uri, s.warehouse)
	}
	if path.Clean("/"+rest) != "/"+rest {
		return "", fmt.Errorf("%q is not a plain path below the warehouse %s", uri, s.warehouse)
	}
	return s.prefix + rest, nil
}

// attempt makes one request of at most the given size under a time limit of its own.
func attempt(ctx context.Context, size int64, f func(ctx context.Context) error) (again bool, err error) {
	limit := attemptTime + time.Duration(size/slowest)*time.Second
	actx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = f(actx)
	return passing(err), err
}

// passing reports whether a failure may pass by itself: whatever is not an answer, and answers that say so.
func passing(err error) bool {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists) {
		return false
	}
	answer := minio.ToErrorResponse(err)
	switch answer.Code {
	case "RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "InternalError", "ServiceUnavailable",
		"ConditionalRequestConflict", "OperationAborted", "ExpiredToken", "XMinioServerNotInitialized":
		return true
	}
	if answer.StatusCode == 0 { // no answer: a connection that failed, or a local mistake
		var argument minio.ErrorResponse
		return !errors.As(err, &argument) && !errors.Is(err, os.ErrNotExist)
	}
	return answer.StatusCode >= 500 && answer.StatusCode != http.StatusNotImplemented || answer.StatusCode == http.StatusTooManyRequests
}

func (s *s3) Put(ctx context.Context, uri string, body []byte) error {
	key, err := s.key(uri)
	if err != nil {
		return err
	}
	err = retry(ctx, func(ctx context.Context) (bool, error) {
		return attempt(ctx, int64(len(body)), func(ctx context.Context) error { return s.put(ctx, key, body, minio.PutObjectOptions{}) })
	})
	if err != nil {
		return fmt.Errorf("cannot store %s: %w", uri, err)
	}
	return nil
}

func (s *s3) put(ctx context.Context, key string, body []byte, o minio.PutObjectOptions) error {
	o.PartSize, o.NumThreads = partSize, partThreads
	o.SendContentMd5 = true // the store checks what it got
	_, err := s.client.Client.PutObject(ctx, s.bucket, key, bytes.NewReader(body), int64(len(body)), o)
	return err
}

// PutNew stores with "If-None-Match: *". When an attempt's answer was lost and the next finds an object there with the
// same bytes, that is taken for the attempt's own: callers make their bodies unique.
func (s *s3) PutNew(ctx context.Context, uri string, body []byte) error {
	key, err := s.key(uri)
	if err != nil {
		return err
	}
	if err := s.needConditional(ctx); err != nil {
		return fmt.Errorf("cannot store %s: %w", uri, err)
	}
	lost := false
	err = retry(ctx, func(ctx context.Context) (bool, error) {
		again, err := attempt(ctx, int64(len(body)), func(ctx context.Context) error { return s.putNew(ctx, key, body) })
		if errors.Is(err, ErrExists) && lost {
			there, gerr := s.Get(ctx, uri)
			if gerr == nil && bytes.Equal(there, body) {
				return false, nil
			}
			return false, errors.Join(err, gerr)
		}
		lost = lost || again
		return again, err
	})
	if err != nil {
		return fmt.Errorf("cannot store %s: %w", uri, err)
	}
	return nil
}

func (s *s3) putNew(ctx context.Context, key string, body []byte) error {
	o := minio.PutObjectOptions{DisableMultipart: true}
	o.SetMatchETagExcept("*")
	err := s.put(ctx, key, body, o)
	if answer := minio.ToErrorResponse(err); err != nil && answer.StatusCode == http.StatusPreconditionFailed {
		return ErrExists
	}
	return err
}

// needConditional proves, once, that the store refuses a second conditional put; some ignore the condition.
func (s *s3) needConditional(ctx context.Context) error {
	s.conditional.Lock()
	defer s.conditional.Unlock()
	if !s.conditional.known {
		key := s.prefix + ".streambed-probe-" + uuid.NewString()
		works := false
		err := retry(ctx, func(ctx context.Context) (bool, error) {
			again, err := attempt(ctx, 0, func(ctx context.Context) error { return s.putNew(ctx, key, []byte("x")) })
			if err == nil { // there now: the next one must be refused
				again, err = attempt(ctx, 0, func(ctx context.Context) error { return s.putNew(ctx, key, []byte("y")) })
			}
			works = errors.Is(err, ErrExists)
			if works {
				return false, nil
			}
			return again, err
		})
		if err != nil && minio.ToErrorResponse(err).StatusCode != http.StatusNotImplemented {
			return err
		}
		if err := s.client.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{}); err != nil && context.Cause(ctx) != nil {
			return context.Cause(ctx)
		}
		s.conditional.known, s.conditional.works = true, works
	}
	if !s.conditional.works {
		return errors.New("the store does not support conditional puts (If-None-Match), which this needs: use a catalog in SQL")
	}
	return nil
}

func (s *s3) PutFile(ctx context.Context, uri, local string) error {
	key, err := s.key(uri)
	if err != nil {
		return err
	}
	info, err := os.Stat(local)
	if err != nil {
		return fmt.Errorf("cannot store %s: %w", uri, err)
	}
	err = retry(ctx, func(ctx context.Context) (bool, error) {
		return attempt(ctx, info.Size(), func(ctx context.Context) error {
			f, err := os.Open(local)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = s.client.Client.PutObject(ctx, s.bucket, key, f, info.Size(), minio.PutObjectOptions{
				PartSize: partSize, NumThreads: partThreads, SendContentMd5: info.Size() <= partSize, ContentType: "application/octet-stream"})
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("cannot store %s: %w", uri, err)
	}
	return os.Remove(local)
}

// read gets the bytes from offset on, n of them or all with n < 0.
func (s *s3) read(ctx context.Context, key string, offset, n int64, o minio.GetObjectOptions) ([]byte, error) {
	if n >= 0 {
		if err := o.SetRange(offset, offset+n-1); err != nil {
			return nil, err
		}
	}
	r, info, _, err := s.client.GetObject(ctx, s.bucket, key, o)
	if err != nil {
		return nil, missing(err)
	}
	defer r.Close()
	if n < 0 {
		n = info.Size
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("the answer ended early: %w", err)
	}
	return body, nil
}

func missing(err error) error {
	switch minio.ToErrorResponse(err).Code {
	case "NoSuchKey", "NotFound":
		return ErrNotFound
	}
	return err
}
