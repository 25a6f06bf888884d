// Package wire is the server's side of a Postgres client's connection: startup, messages in, messages out, and knowing
// at once when the client is gone.
package wire

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Options say how connections are accepted.
type Options struct {
	// TLS gives the settings of an encrypted connection; nil refuses encryption (the client may go on without).
	TLS func() *tls.Config
	// StartupTimeout bounds startup and authentication.
	StartupTimeout time.Duration
	// MaxMessage bounds a message from the client, in bytes.
	MaxMessage int
}

// Startup is what a client said first: either a request to cancel another connection's statement, or who it is.
type Startup struct {
	Cancel     *pgproto3.CancelRequest
	Parameters map[string]string
	// Encrypted tells that the connection is under TLS, Certificate is the server's (DER) then.
	Encrypted   bool
	Certificate []byte
}

// The codes of packets that are no startup message.
const (
	codeCancel = 80877102
	codeTLS    = 80877103
	codeGSS    = 80877104

	maxStartup = 10_000
)

// Accept reads a client's startup, answering requests for encryption. It blocks at most Options.StartupTimeout, and
// leaves the deadline set: Ready lifts it. On an error the caller closes c.
func Accept(c net.Conn, o Options) (*Conn, *Startup, error) {
	if o.StartupTimeout > 0 {
		if err := c.SetDeadline(time.Now().Add(o.StartupTimeout)); err != nil {
			return nil, nil, err
		}
	}
	startup := &Startup{}
	for range 3 {
		// Exactly the packet is read: bytes sent ahead of the TLS handshake must not be taken for encrypted ones.
		packet, err := readStartup(c)
		if err != nil {
			return nil, nil, err
		}
		switch code := binary.BigEndian.Uint32(packet); {
		case code == codeTLS && o.TLS != nil && !startup.Encrypted:
			if _, err := c.Write([]byte{'S'}); err != nil {
				return nil, nil, err
			}
			config := o.TLS()
			encrypted := tls.Server(c, config)
			if len(config.Certificates) > 0 {
				startup.Certificate = config.Certificates[0].Certificate[0]
			}
			if err := encrypted.Handshake(); err != nil {
				return nil, nil, fmt.Errorf("TLS handshake: %w", err)
			}
			c, startup.Encrypted = encrypted, true
		case code == codeTLS, code == codeGSS:
			if _, err := c.Write([]byte{'N'}); err != nil {
				return nil, nil, err
			}
		case code == codeCancel:
			startup.Cancel = &pgproto3.CancelRequest{}
			return nil, startup, startup.Cancel.Decode(packet)
		case code>>16 == 3:
			return begin(c, o, startup, packet)
		default:
			return nil, nil, fmt.Errorf("protocol version %d.%d is not supported: use 3.0", code>>16, code&0xffff)
		}
	}
	return nil, nil, errors.New("the client asks for encryption again and again")
}

func readStartup(c net.Conn) ([]byte, error) {
	var header [4]byte
	if _, err := io.ReadFull(c, header[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(header[:])
	if n < 8 || n > maxStartup {
		return nil, fmt.Errorf("a startup packet of %d bytes is not valid", n)
	}
	packet := make([]byte, n-4)
	_, err := io.ReadFull(c, packet)
	return packet, err
}

// begin reads a startup message of any minor version of protocol 3; a newer one than 3.0 is negotiated down.
func begin(c net.Conn, o Options, startup *Startup, packet []byte) (*Conn, *Startup, error) {
	minor := binary.BigEndian.Uint16(packet[2:])
	binary.BigEndian.PutUint32(packet, pgproto3.ProtocolVersion30)
	var message pgproto3.StartupMessage
	if err := message.Decode(packet); err != nil {
		return nil, nil, err
	}
	var unknown []string
	for name := range message.Parameters {
		if strings.HasPrefix(name, "_pq_.") {
			unknown = append(unknown, name)
			delete(message.Parameters, name)
		}
	}
	startup.Parameters = message.Parameters
	conn := newConn(c, o)
	if minor > 0 || len(unknown) > 0 {
		conn.Send(&pgproto3.NegotiateProtocolVersion{NewestMinorProtocol: 0, UnrecognizedOptions: unknown})
	}
	return conn, startup, nil
}

// Ready ends startup: the deadline goes, and from now on the end of the client is noticed while it is being served.
func (c *Conn) Ready() error {
	if err := c.net.SetDeadline(time.Time{}); err != nil {
		return err
	}
	c.input.start()
	return nil
}

// Context ends when the client is gone or the connection was closed.
func (c *Conn) Context() context.Context { return c.ctx }
