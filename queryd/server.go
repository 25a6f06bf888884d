package queryd

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/streambed/streambed/formats/lease"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/queryd/wire"
	"go.uber.org/zap"
)

// Server answers Postgres clients from a lake.
type Server struct {
	options  Options
	users    *users
	engine   *engine
	log      *zap.Logger
	sessions sync.WaitGroup
	// faults counts sessions that ended by a fault of ours.
	faults atomic.Int64

	mu       sync.Mutex
	listener net.Listener
	active   map[uint32]*session
	nextPID  uint32
	closed   bool
}

// New opens the query engine. The caller calls Listen and Serve, and in the end Close.
func New(o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	allowed, err := newUsers(o.Users)
	if err != nil {
		return nil, err
	}
	e, err := newEngine(&o)
	if err != nil {
		return nil, err
	}
	return &Server{options: o, users: allowed, engine: e, log: o.Log, active: map[uint32]*session{}}, nil
}

// Listen opens the port and gives its address.
func (s *Server) Listen() (net.Addr, error) {
	l, err := net.Listen("tcp", s.options.Listen)
	if err != nil {
		return nil, fmt.Errorf("the query server cannot listen on %s: %w; choose another address with query.listen", s.options.Listen, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = l
	return l.Addr(), nil
}

// Feed gives a store that also leaves the data files put through it in the server's cache, for a daemon whose own query
// server is to find at hand what was just written.
func (s *Server) Feed(store storage.Store) storage.Store { return s.engine.tables.cache.Feed(store) }

// Serve answers clients until ctx ends, then ends all sessions and returns nil. It blocks.
func (s *Server) Serve(ctx context.Context) error {
	s.mu.Lock()
	l := s.listener
	s.mu.Unlock()
	if l == nil {
		return errors.New("Serve was called before Listen")
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			s.endSessions()
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("the query server cannot take connections any more: %w", err)
		}
		s.sessions.Add(1)
		go func() {
			defer s.sessions.Done()
			s.serve(c)
		}()
	}
}

// Close ends Serve and all sessions, and frees the engine.
func (s *Server) Close() error {
	s.mu.Lock()
	l := s.listener
	s.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
	s.endSessions()
	s.engine.close()
	return nil
}

func (s *Server) endSessions() {
	s.mu.Lock()
	s.closed = true
	for _, session := range s.active {
		session.shutDown()
	}
	s.mu.Unlock()
	s.sessions.Wait()
}

const (
	startupTimeout = 30 * time.Second
	maxMessage     = 64 << 20
)

func (s *Server) serve(c net.Conn) {
	conn, startup, err := wire.Accept(c, wire.Options{TLS: s.options.TLS, StartupTimeout: startupTimeout, MaxMessage: maxMessage})
	if err != nil {
		s.log.Debug("a client did not get through its startup", zap.Stringer("client", c.RemoteAddr()), zap.Error(err))
		_ = c.Close()
		return
	}
	if startup.Cancel != nil {
		s.cancel(startup.Cancel)
		_ = c.Close()
		return
	}
	defer conn.Close()
	session := newSession(s, conn, startup)
	if failure := s.admit(session); failure != nil {
		conn.Send(failure.Response())
		_ = conn.Flush()
		return
	}
	defer s.leave(session)
	if s.users != nil && s.users.authenticate(session, startup) != nil {
		return
	}
	session.run()
}

// admit registers a session under a fresh process id and secret.
func (s *Server) admit(n *session) *wire.Failure {
	var secret [4]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return &wire.Failure{Severity: "FATAL", State: "XX000", Message: err.Error(), Position: -1}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return &wire.Failure{Severity: "FATAL", State: "57P03", Message: "the query server is shutting down", Position: -1}
	case len(s.active) >= s.options.MaxConnections:
		return &wire.Failure{Severity: "FATAL", State: "53300", Message: fmt.Sprintf("sorry, too many clients already: the limit is %d", s.options.MaxConnections), Position: -1}
	}
	for {
		s.nextPID++
		if s.nextPID >= 1<<31 {
			s.nextPID = 1
		}
		if s.active[s.nextPID] == nil {
			break
		}
	}
	n.pid, n.secret = s.nextPID, secret[:]
	s.active[n.pid] = n
	return nil
}

func (s *Server) leave(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, n.pid)
}

// cancel ends the running statement of the session that the request names, if it knows its secret. The client learns
// nothing either way.
func (s *Server) cancel(r *pgproto3.CancelRequest) {
	s.mu.Lock()
	n := s.active[r.ProcessID]
	s.mu.Unlock()
	if n != nil && subtle.ConstantTimeCompare(n.secret, r.SecretKey) == 1 {
		n.cancelStatement(errCancelled)
	}
}

// keyData makes the message that tells a session's cancel key.
func (n *session) keyData() *pgproto3.BackendKeyData {
	return &pgproto3.BackendKeyData{ProcessID: n.pid, SecretKey: binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(n.secret))}
}

// engine is the part of the server that all sessions share.
type engine struct {
	options  *Options
	db       *duck.DB
	tables   *tables
	catalogs *catalogs
	// lease tells maintenance, in whatever process, what the sessions read (promise 9); nil where the catalog keeps none.
	lease *lease.Holder
}

func newEngine(o *Options) (*engine, error) {
	db, err := openDatabase(o)
	if err != nil {
		return nil, err
	}
	e := &engine{options: o, db: db}
	if e.tables, err = newTables(o, db); err != nil {
		db.Close()
		return nil, err
	}
	if e.catalogs, err = newCatalogs(context.Background(), db); err != nil {
		db.Close()
		return nil, err
	}
	if source, ok := o.Reader.(lease.Source); ok {
		e.lease = lease.Hold(context.Background(), source.Leases(), o.LeaseInterval, o.Log)
	}
	return e, nil
}

func (e *engine) close() {
	e.lease.Close()
	e.tables.close()
	e.db.Close()
}
