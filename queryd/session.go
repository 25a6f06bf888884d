package queryd

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/lease"
	"github.com/streambed/streambed/queryd/sqltext"
	"github.com/streambed/streambed/queryd/wire"
	"go.uber.org/zap"
)

// session is one client's connection. Its goroutine handles message after message; only shutDown and cancelStatement
// are called from others.
type session struct {
	server *Server
	conn   *wire.Conn
	engine *engine
	log    *zap.Logger

	pid            uint32
	secret         []byte
	user, database string
	// startup are the client's startup parameters.
	startup map[string]string

	settings   *settings
	tx         transaction
	statements map[string]*statement
	portals    map[string]*portal
	// skipping tells that an extended-protocol message failed: everything up to Sync is passed over.
	skipping bool

	mu sync.Mutex
	// cancel ends the running statement; nil between statements.
	cancel context.CancelCauseFunc
	// ending tells that the session ends once the running statement has.
	ending bool
}

// transaction is the state of a session's transaction block.
type transaction struct {
	// status is ReadyForQuery's: I idle, T in a block, E in a failed one.
	status byte
	// view is the checkpoint that all statements of the block see; nil until the first one has asked (promise 3).
	view *formats.View
	// read is the block's part in the server's lease while it has a view.
	read *lease.Read
	// savepoints are the names set in the block, the newest last.
	savepoints []string
}

// leave gives the block's checkpoint up.
func (t *transaction) leave() {
	t.read.End()
	t.view, t.read = nil, nil
}

func newSession(s *Server, conn *wire.Conn, startup *wire.Startup) *session {
	n := &session{
		server: s, conn: conn, engine: s.engine, log: s.log.With(zap.Stringer("client", conn.RemoteAddr())),
		startup: startup.Parameters, user: startup.Parameters["user"], database: startup.Parameters["database"],
		statements: map[string]*statement{}, portals: map[string]*portal{}, tx: transaction{status: 'I'},
	}
	if n.database == "" {
		n.database = n.user
	}
	if s.options.Database != "" {
		n.database = s.options.Database
	}
	n.settings = newSettings(n)
	return n
}

// run serves the client until it leaves.
func (n *session) run() {
	defer n.closeAll()
	defer func() {
		if r := recover(); r != nil {
			n.server.faults.Add(1)
			n.log.Error("a session failed by a fault of the server", zap.Any("fault", r), zap.ByteString("stack", debug.Stack()))
			n.conn.Send(failf("XX000", "the server has a fault: %v", r).Response())
			_ = n.conn.Flush()
		}
	}()
	if err := n.greet(); err != nil {
		n.fatal(err)
		return
	}
	for {
		m, err := n.receive()
		if err != nil {
			n.farewell(err)
			return
		}
		if _, ok := m.(*pgproto3.Terminate); ok {
			return
		}
		n.handle(m)
		if n.isEnding() {
			n.fatal(errShutdown)
			return
		}
		if n.conn.Context().Err() != nil {
			// The client has hung up, often right after its Terminate, which may still wait to be read. It has not
			// closed its socket yet when it learns of what is said now: a FATAL would be taken for a fault.
			return
		}
	}
}

// receive waits for the next message, with the session's idle timeout.
func (n *session) receive() (pgproto3.FrontendMessage, error) {
	if n.server.options.IdleTimeout > 0 {
		timer := time.AfterFunc(n.server.options.IdleTimeout, func() { n.conn.Close() })
		defer timer.Stop()
	}
	return n.conn.Receive()
}

// farewell tells a client that speaks wrongly why it is left.
func (n *session) farewell(err error) {
	var tooLong *pgproto3.ExceededMaxBodyLenErr
	switch {
	case n.isEnding():
		n.fatal(errShutdown)
	case errors.As(err, &tooLong):
		n.fatal(&wire.Failure{Severity: "FATAL", State: "54000", Message: err.Error(), Position: -1})
	case !errors.Is(err, io.ErrUnexpectedEOF) && n.conn.Context().Err() == nil:
		n.fatal(&wire.Failure{Severity: "FATAL", State: "08P01", Message: err.Error(), Position: -1})
	}
}

func (n *session) fatal(err error) {
	f := *failure(err, "", 0)
	f.Severity = "FATAL"
	n.conn.Send(f.Response())
	_ = n.conn.Flush()
}

// greet ends startup: parameters, cancel key, ready.
func (n *session) greet() error {
	if err := n.settings.startUp(n.startup); err != nil {
		return err
	}
	n.conn.Send(&pgproto3.AuthenticationOk{})
	n.settings.tellAll()
	n.conn.Send(n.keyData())
	n.ready()
	if err := n.conn.Ready(); err != nil {
		return err
	}
	return n.conn.Flush()
}

func (n *session) ready() {
	n.conn.Send(&pgproto3.ReadyForQuery{TxStatus: n.tx.status})
}

// handle answers one message.
func (n *session) handle(m pgproto3.FrontendMessage) {
	if n.skipping {
		if _, ok := m.(*pgproto3.Sync); !ok {
			return
		}
	}
	var err error
	text := ""
	switch m := m.(type) {
	case *pgproto3.Query:
		n.simple(m.String)
		return
	case *pgproto3.Parse:
		text = m.Query
		err = n.parse(m)
	case *pgproto3.Bind:
		err = n.bind(m)
	case *pgproto3.Describe:
		err = n.describe(m)
	case *pgproto3.Execute:
		err = n.execute(m)
	case *pgproto3.Close:
		n.closeNamed(m.ObjectType, m.Name)
		n.conn.Send(&pgproto3.CloseComplete{})
	case *pgproto3.Flush:
		_ = n.conn.Flush()
	case *pgproto3.Sync:
		n.sync()
	case *pgproto3.FunctionCall:
		err = failf("0A000", "the function call protocol is not supported: call functions in a query")
		n.fail(err, "", 0)
		n.ready()
		_ = n.conn.Flush()
		return
	default:
		// CopyData and its like outside of a copy are ignored, as Postgres does.
		return
	}
	if err != nil {
		n.skipping = true
		n.fail(err, text, 0)
	}
}

// sync ends a run of extended-protocol messages.
func (n *session) sync() {
	n.skipping = false
	if n.tx.status == 'I' {
		n.endStatementTransaction()
	}
	n.ready()
	_ = n.conn.Flush()
}

// endStatementTransaction closes what lives as long as the transaction of one statement.
func (n *session) endStatementTransaction() {
	n.tx.leave()
	for name, p := range n.portals {
		if !p.hold {
			p.close()
			delete(n.portals, name)
		}
	}
}

// fail tells an error and fails the transaction block.
func (n *session) fail(err error, text string, offset int) {
	f := failure(err, text, offset)
	if f.State == "XX000" {
		n.log.Warn("a statement failed by a fault", zap.String("message", f.Message))
	}
	n.conn.Send(f.Response())
	if n.tx.status == 'T' {
		n.tx.status = 'E'
	}
}

// simple answers a Query message: its statements in order, up to the first that fails.
func (n *session) simple(text string) {
	if old := n.portals[""]; old != nil {
		old.close()
		delete(n.portals, "")
	}
	n.runScript(text)
	if n.tx.status == 'I' {
		n.endStatementTransaction()
	}
	n.ready()
	_ = n.conn.Flush()
}

func (n *session) runScript(text string) {
	if !utf8.ValidString(text) {
		n.fail(failf("22021", "the statement is not valid UTF8"), "", 0)
		return
	}
	parts, err := sqltext.Split(text)
	if err != nil {
		n.fail(err, text, 0)
		return
	}
	if len(parts) == 0 {
		n.conn.Send(&pgproto3.EmptyQueryResponse{})
		return
	}
	for _, part := range parts {
		err := n.guarded(func(ctx context.Context) error { return n.runStatement(ctx, part) })
		if n.tx.status == 'I' {
			n.tx.leave()
		}
		if err != nil {
			n.fail(err, text, part.Offset)
			return
		}
	}
}

// guarded runs a statement under a context that ends with the client, a cancel request, the statement timeout or the
// server.
func (n *session) guarded(f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(n.conn.Context())
	defer cancel(nil)
	if limit := n.settings.statementTimeout(); limit > 0 {
		timer := time.AfterFunc(limit, func() { cancel(errTimeout) })
		defer timer.Stop()
	}
	n.mu.Lock()
	if n.ending {
		n.mu.Unlock()
		return errShutdown
	}
	n.cancel = cancel
	n.mu.Unlock()
	err := f(ctx)
	n.mu.Lock()
	n.cancel = nil
	n.mu.Unlock()
	return err
}

// cancelStatement ends the running statement, if there is one.
func (n *session) cancelStatement(cause error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cancel != nil {
		n.cancel(cause)
	}
}

// shutDown ends the session: at once when idle, else when its statement has been interrupted.
func (n *session) shutDown() {
	n.mu.Lock()
	n.ending = true
	running := n.cancel
	n.mu.Unlock()
	if running != nil {
		running(errShutdown)
	}
	// Unblocks reading and writing. A client that is still listening has been told by a statement's error, or is not
	// waiting for anything.
	time.AfterFunc(shutdownGrace, func() { n.conn.Close() })
	n.conn.Interrupt()
}

// shutdownGrace is how long a session may take to tell its client that the server ends.
const shutdownGrace = time.Second

func (n *session) isEnding() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ending
}

func (n *session) closeAll() {
	n.tx.leave()
	for name, p := range n.portals {
		p.close()
		delete(n.portals, name)
	}
	clear(n.statements)
}
