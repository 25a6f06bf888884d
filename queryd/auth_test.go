package queryd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/test/postgres"
	"go.uber.org/zap"
)

// writeCertificate makes a self-signed certificate for localhost with a serial number.
func writeCertificate(t *testing.T, dir string, serial int64) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	ok(t, err)
	encoded, err := x509.MarshalECPrivateKey(private)
	ok(t, err)
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	ok(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}), 0o600))
	ok(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return certificate, key
}

func TestOnlyUsersWithTheirPasswordGetIn(t *testing.T) {
	db := postgres.ForTest(t).Database(t)
	db.Exec(t, "SET password_encryption = 'scram-sha-256'; CREATE ROLE verified PASSWORD 'from postgres'")
	verifier := db.Query(t, "SELECT rolpassword FROM pg_authid WHERE rolname = 'verified'")[0][0]
	db.Exec(t, "DROP ROLE verified")
	certificate, key := writeCertificate(t, t.TempDir(), 1)
	settings, err := LoadTLS(certificate, key, zap.NewNop())
	ok(t, err)
	l := newLake(t, func(o *Options) {
		o.Users = map[string]string{"analyst": "s3cret ü", "verified": verifier}
		o.TLS = settings
	})
	for _, c := range []struct {
		user, password, mode string
		in                   bool
	}{
		{"analyst", "s3cret ü", "disable", true}, {"analyst", "s3cret ü", "require", true}, {"verified", "from postgres", "require", true}, {"verified", "from postgres", "verify-full", true},
		{"analyst", "wrong", "require", false}, {"analyst", "", "disable", false}, {"nobody", "s3cret ü", "disable", false}, {"ANALYST", "s3cret ü", "disable", false}, {"verified", verifier, "require", false},
	} {
		config, err := pgx.ParseConfig(fmt.Sprintf("host=localhost port=%d user=%s dbname=lake sslmode=%s sslrootcert=%s", l.port, c.user, c.mode, certificate))
		ok(t, err)
		config.Password = c.password
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if c.in != (err == nil) {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			var one int
			ok(t, conn.QueryRow(t.Context(), "SELECT 1").Scan(&one))
			ok(t, conn.Close(t.Context()))
		} else if pg := pgError(err); c.password != "" && (pg == nil || pg.Code != "28P01") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for password, in := range map[string]bool{"s3cret ü": true, "wrong": false} {
		// libpq binds the login to the TLS channel (SCRAM-SHA-256-PLUS) and refuses to do without.
		cmd := exec.Command("psql", "-qAtX", "-c", "SELECT 'in'", fmt.Sprintf("host=localhost port=%d user=analyst dbname=lake sslmode=verify-full sslrootcert=%s channel_binding=require", l.port, certificate))
		cmd.Env = append(os.Environ(), "PGPASSWORD="+password)
		out, err := cmd.CombinedOutput()
		if (err == nil && strings.TrimSpace(string(out)) == "in") != in {
			t.Errorf("psql with %q: %v %s", password, err, out)
		}
	}
}

func TestListeningBeyondLoopbackNeedsPasswords(t *testing.T) {
	reader := newLake(t).server.options.Reader
	for _, c := range []struct {
		o  Options
		in bool
	}{{Options{}, false}, {Options{Users: map[string]string{"a": "b"}}, true}, {Options{Insecure: true}, true}} {
		c.o.Listen, c.o.Reader, c.o.TempDir = "0.0.0.0:0", reader, t.TempDir()
		if err := c.o.complete(); (err == nil) != c.in {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	if _, err := newUsers(map[string]string{"a": "SCRAM-SHA-256$4096:bad"}); err == nil {
		t.Error("a broken verifier was taken for a password")
	}
	if _, err := newUsers(map[string]string{"a": ""}); err == nil {
		t.Error("an empty password was accepted")
	}
}

func TestRenewedCertificateIsUsedWithoutARestart(t *testing.T) {
	dir := t.TempDir()
	certificate, key := writeCertificate(t, dir, 1)
	settings, err := LoadTLS(certificate, key, zap.NewNop())
	ok(t, err)
	l := newLake(t, func(o *Options) { o.TLS = settings })
	serial := func() int64 {
		conn, err := pgx.Connect(t.Context(), fmt.Sprintf("host=127.0.0.1 port=%d user=a dbname=lake sslmode=require", l.port))
		ok(t, err)
		defer conn.Close(t.Context())
		return conn.PgConn().Conn().(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if n := serial(); n != 1 {
		t.Fatalf("certificate %d", n)
	}
	ok(t, os.WriteFile(certificate, []byte("broken"), 0o600))
	if n := serial(); n != 1 {
		t.Fatalf("certificate %d", n)
	}
	writeCertificate(t, dir, 2)
	postgres.Eventually(t, "the renewed certificate", func() bool { return serial() == 2 })
}
