package iceberg_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/iceberg-go"
	sqlcatalog "github.com/apache/iceberg-go/catalog/sql"
	"github.com/apache/iceberg-go/table"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/streambed/streambed/formats"
	lake "github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/test/postgres"
)

func TestPostgresCatalogLooksAsOthersExpect(t *testing.T) {
	server := postgres.ForTest(t)
	database := server.Database(t)
	e := newEnv(t, func(cfg *lake.Config) { cfg.Catalog = database.URL() })
	ref := e.create("public", "orders")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{e.rows(ref, 0, 3, "a")}})
	db := must[*sql.DB](t)(sql.Open("pgx", database.URL()))
	defer db.Close()
	cat := must[*sqlcatalog.Catalog](t)(sqlcatalog.NewCatalog("streambed", db, sqlcatalog.Postgres, iceberg.Properties{}))
	equal(t, stockScan(t, must[*table.Table](t)(cat.LoadTable(e.ctx, table.Identifier{"public", "orders"}))), contents{}.fill(0, 3, "a"))
}

func TestPostgresCatalogIsMadeByManyAtOnce(t *testing.T) {
	url := postgres.ForTest(t).Database(t).URL()
	store := newEnv(t).store
	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			l, err := lake.Open(context.Background(), lake.Config{Pipeline: "p", Store: store, Catalog: url, Mode: lake.DeletionVectors})
			if err == nil {
				l.Close()
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestCatalogCrashLosesNothing crashes the catalog's server between commits and while it is away lets one wait for it.
func TestCatalogCrashLosesNothing(t *testing.T) {
	server := postgres.StartForTest(t)
	e := newEnv(t, func(cfg *lake.Config) { cfg.Catalog = server.Database(t).URL() })
	ref := e.create("public", "orders")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{e.rows(ref, 0, 3, "a")}})
	if err := server.Crash(); err != nil {
		t.Fatal(err)
	}
	cp := e.next(formats.TableChange{Table: ref, Add: []formats.DataFile{e.rows(ref, 3, 3, "b")}})
	sent := make(chan error, 1)
	go func() { sent <- e.send(cp) }()
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	r := e.reader()
	view := must[*formats.View](t)(r.Current(e.ctx))
	if view.Checkpoint != 3 {
		t.Fatalf("checkpoint %d", view.Checkpoint)
	}
	equal(t, e.scan(r, view, ref.Name), contents{}.fill(0, 3, "a").fill(3, 3, "b"))
}

// cutter is a proxy before Postgres that can cut a connection at the COMMIT: before it reaches the server, or after,
// with its answer lost.
type cutter struct {
	net.Listener
	server string
	before atomic.Bool
	after  atomic.Bool
	cuts   atomic.Int32
}

func (c *cutter) serve() {
	for {
		client, err := c.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.server)
		if err != nil {
			client.Close()
			continue
		}
		var committing atomic.Bool
		go c.pass(client, server, func(b []byte) bool {
			if !strings.Contains(strings.ToLower(string(b)), "commit\x00") {
				return true
			}
			if c.before.CompareAndSwap(true, false) {
				c.cuts.Add(1)
				return false
			}
			if c.after.CompareAndSwap(true, false) {
				committing.Store(true)
			}
			return true
		})
		go c.pass(server, client, func(b []byte) bool {
			if committing.Load() {
				c.cuts.Add(1)
				return false
			}
			return true
		})
	}
}

// pass copies until the look refuses, and then closes both sides.
func (c *cutter) pass(from, to net.Conn, look func([]byte) bool) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !look(slices.Clone(buf[:n])) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return
			}
			return
		}
	}
}

func TestConnectionCutAtCommitIsResolved(t *testing.T) {
	server := postgres.ForTest(t)
	address := must[*url.URL](t)(url.Parse(server.Database(t).URL()))
	c := &cutter{Listener: must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0")), server: address.Host}
	t.Cleanup(func() { c.Close() })
	go c.serve()
	address.Host = c.Addr().String()
	query := address.Query()
	query.Set("sslmode", "disable")
	address.RawQuery = query.Encode()
	e := newEnv(t, func(cfg *lake.Config) { cfg.Catalog = address.String() })
	ref := e.create("public", "orders")
	want := contents{}
	for i, cut := range []*atomic.Bool{&c.before, &c.after, &c.after, &c.before} {
		id := int64(i)
		cut.Store(true)
		e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{e.rows(ref, id, 1, "a")}})
		want.fill(id, 1, "a")
		if got := c.cuts.Load(); got != int32(i+1) {
			t.Fatalf("%d connections were cut, want %d", got, i+1)
		}
		r := e.reader()
		view := must[*formats.View](t)(r.Current(e.ctx))
		if view.Checkpoint != id+2 {
			t.Fatalf("the lake is at checkpoint %d, want %d", view.Checkpoint, id+2)
		}
		equal(t, e.scan(r, view, ref.Name), want)
	}
}
