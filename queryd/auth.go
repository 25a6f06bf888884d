package queryd

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/streambed/streambed/queryd/wire"
	"github.com/xdg-go/scram"
	"go.uber.org/zap"
)

// users are those who may connect, by name, with what SCRAM-SHA-256 keeps of their passwords. Nil lets anybody in.
type users struct {
	credentials map[string]scram.StoredCredentials
	// secret makes the salts told to users that there are not, the same each time.
	secret [32]byte
}

// Iterations of a password's hash: Postgres' own number. A failed attempt is answered after failureDelay.
const (
	scramIterations = 4096
	failureDelay    = time.Second
)

// newUsers reads passwords, or verifiers as Postgres stores them ("SCRAM-SHA-256$4096:salt$stored:server").
func newUsers(passwords map[string]string) (*users, error) {
	if len(passwords) == 0 {
		return nil, nil
	}
	u := &users{credentials: map[string]scram.StoredCredentials{}}
	if _, err := rand.Read(u.secret[:]); err != nil {
		return nil, err
	}
	for name, password := range passwords {
		var err error
		if strings.HasPrefix(password, "SCRAM-SHA-256$") {
			u.credentials[name], err = parseVerifier(password)
		} else {
			u.credentials[name], err = derive(password)
		}
		if err != nil {
			return nil, fmt.Errorf("the password of query user %q: %w", name, err)
		}
	}
	return u, nil
}

func derive(password string) (scram.StoredCredentials, error) {
	if password == "" {
		return scram.StoredCredentials{}, errors.New("it is empty")
	}
	client, err := scram.SHA256.NewClient("", password, "")
	if err != nil {
		// As Postgres does with a password that SASLprep refuses.
		if client, err = scram.SHA256.NewClientUnprepped("", password, ""); err != nil {
			return scram.StoredCredentials{}, err
		}
	}
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return scram.StoredCredentials{}, err
	}
	return client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: string(salt), Iters: scramIterations})
}

var errVerifier = errors.New("it begins like a SCRAM-SHA-256 verifier and is none: copy rolpassword of pg_authid as it is")

func parseVerifier(text string) (c scram.StoredCredentials, err error) {
	parts := strings.Split(text, "$")
	if len(parts) != 3 {
		return c, errVerifier
	}
	iterations, salt, ok1 := strings.Cut(parts[1], ":")
	stored, server, ok2 := strings.Cut(parts[2], ":")
	if !ok1 || !ok2 {
		return c, errVerifier
	}
	if c.Iters, err = strconv.Atoi(iterations); err != nil || c.Iters < 1 {
		return c, errVerifier
	}
	decode := func(s string) []byte {
		b, decodeErr := base64.StdEncoding.DecodeString(s)
		if decodeErr != nil || len(b) == 0 {
			err = errVerifier
		}
		return b
	}
	c.Salt, c.StoredKey, c.ServerKey = string(decode(salt)), decode(stored), decode(server)
	if len(c.StoredKey) != sha256.Size || len(c.ServerKey) != sha256.Size {
		err = errVerifier
	}
	return c, err
}

// lookup gives a user's credentials, or for one that there is not some that no password fits: the client cannot tell.
func (u *users) lookup(name string) scram.StoredCredentials {
	if c, ok := u.credentials[name]; ok {
		return c
	}
	h := hmac.New(sha256.New, u.secret[:])
	h.Write([]byte(name))
	sum := h.Sum(nil)
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key)
	return scram.StoredCredentials{KeyFactors: scram.KeyFactors{Salt: string(sum[:16]), Iters: scramIterations}, StoredKey: key, ServerKey: key}
}

const (
	mechanism     = "SCRAM-SHA-256"
	mechanismPlus = "SCRAM-SHA-256-PLUS"
)

// authenticate asks the client for its password. After a failure the client has been told.
func (u *users) authenticate(n *session, startup *wire.Startup) error {
	err := u.converse(n, startup)
	if err == nil {
		return nil
	}
	n.log.Warn("a login failed", zap.String("user", n.user), zap.Error(err))
	// Whoever tries passwords waits.
	delay := time.NewTimer(failureDelay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-n.conn.Context().Done():
	}
	f := failf("28P01", "password authentication failed for user %q", n.user)
	f.Severity = "FATAL"
	n.conn.Send(f.Response())
	_ = n.conn.Flush()
	return err
}

func (u *users) converse(n *session, startup *wire.Startup) error {
	server, err := scram.SHA256.NewServer(func(string) (scram.StoredCredentials, error) { return u.lookup(n.user), nil })
	if err != nil {
		return err
	}
	conversation, mechanisms := server.NewConversation(), []string{mechanism}
	if binding := endpointBinding(startup.Certificate); binding != nil {
		conversation = server.NewConversationWithChannelBinding(scram.ChannelBinding{Type: "tls-server-end-point", Data: binding})
		mechanisms = []string{mechanismPlus, mechanism}
	}
	n.conn.Send(&pgproto3.AuthenticationSASL{AuthMechanisms: mechanisms})
	first, err := receiveAs[*pgproto3.SASLInitialResponse](n.conn, pgproto3.AuthTypeSASL)
	if err != nil {
		return err
	}
	if first.AuthMechanism != mechanism && (first.AuthMechanism != mechanismPlus || len(mechanisms) == 1) {
		return fmt.Errorf("the client chose the mechanism %q", first.AuthMechanism)
	}
	answer, err := conversation.Step(string(first.Data))
	if err != nil {
		return err
	}
	n.conn.Send(&pgproto3.AuthenticationSASLContinue{Data: []byte(answer)})
	final, err := receiveAs[*pgproto3.SASLResponse](n.conn, pgproto3.AuthTypeSASLContinue)
	if err != nil {
		return err
	}
	if answer, err = conversation.Step(string(final.Data)); err != nil {
		return err
	}
	if !conversation.Valid() {
		return errors.New("the password is wrong")
	}
	n.conn.Send(&pgproto3.AuthenticationSASLFinal{Data: []byte(answer)})
	return nil
}

// receiveAs sends what is buffered and waits for the client's answer of one kind.
func receiveAs[T pgproto3.FrontendMessage](c *wire.Conn, kind uint32) (message T, err error) {
	if err := c.Flush(); err != nil {
		return message, err
	}
	if err := c.AuthType(kind); err != nil {
		return message, err
	}
	m, err := c.Receive()
	if err != nil {
		return message, err
	}
	message, ok := m.(T)
	if !ok {
		return message, fmt.Errorf("the client answered with %T", m)
	}
	return message, nil
}

// endpointBinding is the hash of the server's certificate that RFC 5929 asks for; nil without TLS.
func endpointBinding(certificate []byte) []byte {
	if certificate == nil {
		return nil
	}
	parsed, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil
	}
	switch parsed.SignatureAlgorithm {
	case x509.SHA384WithRSA, x509.ECDSAWithSHA384, x509.SHA384WithRSAPSS:
		sum := sha512.Sum384(certificate)
		return sum[:]
	case x509.SHA512WithRSA, x509.ECDSAWithSHA512, x509.SHA512WithRSAPSS:
		sum := sha512.Sum512(certificate)
		return sum[:]
	case x509.PureEd25519:
		return nil // no hash is defined
	}
	sum := sha256.Sum256(certificate)
	return sum[:]
}
