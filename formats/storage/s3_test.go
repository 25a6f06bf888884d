package storage_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/storage/storetest"
)

func gateway(t *testing.T) string {
	return strings.TrimPrefix(storetest.Gateway(t).Endpoint, "http://")
}

func options(address string) storage.S3Options {
	return storage.S3Options{Endpoint: "http://" + address, Region: "us-east-1", AccessKey: storetest.AccessKey, SecretKey: storetest.SecretKey}
}

func openS3(t *testing.T, address, warehouse string) storage.Store {
	t.Helper()
	s, err := storage.Open(context.Background(), warehouse, storage.Options{S3: options(address)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestS3Store(t *testing.T) {
	address := gateway(t)
	var n atomic.Int64
	storetest.Run(t, func(t *testing.T) storage.Store {
		return openS3(t, address, "s3://bucket/"+string(rune('a'+n.Add(1)))+"/lake")
	})
}

func TestS3WarehouseMayBeTheBucketItself(t *testing.T) {
	s := openS3(t, gateway(t), "s3://bucket/")
	ctx := context.Background()
	if s.Warehouse() != "s3://bucket" {
		t.Fatalf("warehouse %q", s.Warehouse())
	}
	if err := s.Put(ctx, "s3://bucket/a/b", []byte("x")); err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := s.List(ctx, s.Warehouse(), func(i storage.Info) error { n++; return nil }); err != nil || n != 1 {
		t.Fatalf("%d objects, %v", n, err)
	}
}

func TestS3MistakesAreToldAtOpen(t *testing.T) {
	address := gateway(t)
	ctx := context.Background()
	good := options(address)
	if _, err := storage.Open(ctx, "s3://absent/x", storage.Options{S3: good}); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("a bucket that is not there: %v", err)
	}
	bad := good
	bad.Endpoint = "ftp://" + address
	if _, err := storage.Open(ctx, "s3://bucket", storage.Options{S3: bad}); err == nil {
		t.Error("an ftp endpoint was accepted")
	}
	bad = good
	bad.PathStyle = "maybe"
	if _, err := storage.Open(ctx, "s3://bucket", storage.Options{S3: bad}); err == nil {
		t.Error("an unknown path style was accepted")
	}
	for _, uri := range []string{"s3://", "s3:///x", "s3://bucket/../x", "s3://bucket//x"} {
		if _, err := storage.Open(ctx, uri, storage.Options{S3: good}); err == nil {
			t.Errorf("%q was accepted", uri)
		}
	}
}

// troubled is a proxy before an S3 server that answers, cuts or forgets some requests.
type troubled struct {
	mu sync.Mutex
	// todo are the troubles of the next requests of a method, in order.
	todo map[string][]string
	seen int
}

func (p *troubled) next(method string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.todo[method]) == 0 {
		return ""
	}
	what := p.todo[method][0]
	p.todo[method] = p.todo[method][1:]
	p.seen++
	return what
}

func (p *troubled) start(t *testing.T, address string) string {
	to := &url.URL{Scheme: "http", Host: address}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // the signature covers it
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch p.next(r.Method) {
		case "":
			proxy.ServeHTTP(w, r)
		case "slow down":
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, `<?xml version="1.0"?><Error><Code>SlowDown</Code></Error>`)
		case "cut":
			panic(http.ErrAbortHandler)
		case "lost": // done, and its answer lost
			proxy.ServeHTTP(&nowhere{header: http.Header{}}, r)
			panic(http.ErrAbortHandler)
		case "half": // an answer that ends early
			w.Header().Set("Content-Length", "1000")
			w.Write([]byte("half"))
			panic(http.ErrAbortHandler)
		case "denied":
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>`)
		}
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return l.Addr().String()
}

type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n *nowhere) WriteHeader(int)             {}

func TestS3RetriesWhatMayPass(t *testing.T) {
	p := &troubled{todo: map[string][]string{}}
	s := openS3(t, p.start(t, gateway(t)), "s3://bucket/x")
	ctx := context.Background()
	uri := s.Warehouse() + "/object"
	trouble := func(method string, what ...string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.todo, p.seen = map[string][]string{method: what}, 0
	}
	seen := func(n int) {
		t.Helper()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.seen != n {
			t.Fatalf("met %d troubles, want %d", p.seen, n)
		}
	}
	trouble("PUT", "slow down", "cut", "lost")
	if err := s.Put(ctx, uri, []byte("body")); err != nil {
		t.Fatal(err)
	}
	seen(3)
	trouble("GET", "slow down", "half", "cut")
	if body, err := s.Get(ctx, uri); err != nil || string(body) != "body" {
		t.Fatalf("%q %v", body, err)
	}
	seen(3)
	trouble("GET", "half")
	o, err := s.Open(ctx, uri)
	if err != nil {
		t.Fatal(err)
	}
	part := make([]byte, 2)
	if _, err := o.ReadAt(part, 1); err != nil || string(part) != "od" {
		t.Fatalf("%q %v", part, err)
	}
	seen(1)
	trouble("DELETE", "lost", "slow down")
	if err := s.Delete(ctx, uri); err != nil {
		t.Fatal(err)
	}
	seen(2)
	if err := s.PutNew(ctx, uri, []byte("first")); err != nil { // probes once
		t.Fatal(err)
	}
	trouble("PUT", "lost")
	fresh := s.Warehouse() + "/new"
	if err := s.PutNew(ctx, fresh, []byte("mine")); err != nil {
		t.Fatalf("its own put, whose answer was lost: %v", err)
	}
	seen(1)
	trouble("PUT", "cut")
	if err := s.PutNew(ctx, fresh, []byte("other")); !errors.Is(err, storage.ErrExists) {
		t.Fatalf("another's object: %v", err)
	}
	trouble("PUT", "denied", "denied")
	if err := s.Put(ctx, uri, []byte("x")); err == nil || !strings.Contains(err.Error(), uri) {
		t.Fatalf("a refusal: %v", err)
	}
	seen(1)
}

func TestS3StallEndsWithTheContext(t *testing.T) {
	address := gateway(t)
	p := &troubled{todo: map[string][]string{}}
	s := openS3(t, p.start(t, address), "s3://bucket/x")
	stop := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(context.Background())
	always := make([]string, 1000)
	for i := range always {
		always[i] = "slow down"
	}
	p.mu.Lock()
	p.todo["PUT"] = always
	p.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- s.Put(ctx, s.Warehouse()+"/x", []byte("x")) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for met := 0; met < 3; {
		<-tick.C
		p.mu.Lock()
		met = p.seen
		p.mu.Unlock()
	}
	cancel(stop)
	if err := <-done; !errors.Is(err, stop) {
		t.Fatalf("got %v", err)
	}
}
