package queryd

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/storage"
	"go.uber.org/zap"
)

// Options are a query server's settings, checked and complete.
type Options struct {
	// Listen is the address, host:port; port 0 takes a free one. Without passwords only loopback addresses are allowed.
	Listen string
	// Reader gives the lake's checkpoints and files; it stays open until the server is closed, and is not closed by it.
	Reader formats.Reader
	// Store holds the files that are not on this machine.
	Store storage.Store
	// TempDir is the folder for spilling and for the cache of files; it belongs to this server alone.
	TempDir string
	// Memory bounds DuckDB's buffers, in bytes; 0 means 512 MiB.
	Memory int64
	// TempLimit bounds what is spilled, CacheSize the cached files, in bytes; 0 means ten times Memory and 10 GiB.
	TempLimit, CacheSize int64
	// Threads is the number of DuckDB's worker threads; 0 means one a core.
	Threads int
	// Database is the name shown to clients; "" shows the name that the client asked for.
	Database string
	// MaxConnections bounds the sessions; 0 means 100.
	MaxConnections int
	// StatementTimeout bounds a statement of a session that sets none; 0 means no bound.
	StatementTimeout time.Duration
	// IdleTimeout ends a session that sends nothing for so long; 0 means no bound.
	IdleTimeout time.Duration
	// WaitTimeout bounds how long a statement waits for streambed.wait_for_lsn; 0 means 30 s.
	WaitTimeout time.Duration
	// LeaseInterval is the time between two heartbeats of the server's lease on the lake's files; 0 means 5 s.
	LeaseInterval time.Duration
	// Users are those who may connect, with their passwords or SCRAM-SHA-256 verifiers; empty lets anybody in.
	Users map[string]string
	// TLS gives the settings of encrypted connections; nil refuses encryption.
	TLS func() *tls.Config
	// Insecure allows listening beyond loopback without passwords.
	Insecure bool
	Log      *zap.Logger
}

func (o *Options) complete() error {
	switch {
	case o.Reader == nil:
		return errors.New("the query server needs a lake to read")
	case o.TempDir == "":
		return errors.New("the query server needs a folder for temporary files")
	}
	if o.Memory == 0 {
		o.Memory = 512 << 20
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 100
	}
	if o.WaitTimeout == 0 {
		o.WaitTimeout = 30 * time.Second
	}
	if o.CacheSize == 0 {
		o.CacheSize = 10 << 30
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return o.checkListen()
}

// checkListen refuses to serve data to a network without asking who is there.
func (o *Options) checkListen() error {
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return fmt.Errorf("query.listen %q is not an address: write host:port, such as 127.0.0.1:5433", o.Listen)
	}
	if o.Insecure || len(o.Users) > 0 || host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("the query server does not listen on %s without passwords: give query.users, or listen on 127.0.0.1", o.Listen)
}
