package reader

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streambed/streambed/test/postgres"
)

// certificate writes a certificate for 127.0.0.1 and its key into a server's folder, where the server's user reads them.
func certificate(t *testing.T, server *postgres.Server) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	owner, err := os.Stat(filepath.Join(server.Dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"server.crt": {Type: "CERTIFICATE", Bytes: der}, "server.key": {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		path := filepath.Join(server.Dir, "data", name)
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := handOver(path, owner); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStreamingUnderTLS(t *testing.T) {
	server := postgres.StartForTest(t)
	certificate(t, server)
	if err := server.Exec(t.Context(), "ALTER SYSTEM SET ssl = on"); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := newSource(t, server)
	s.Exec(t, `INSERT INTO "odd ""name" SELECT g, repeat('x', 1000) FROM generate_series(1, 2000) g`)
	config := s.config()
	config.ConnString = strings.Replace(s.URL(), "sslmode=disable", "sslmode=verify-full&sslrootcert="+filepath.Join(server.Dir, "data", "server.crt"), 1)
	r := start(t, config, 1)
	got := r.until(t, "a commit", config.Budget, isKind('C'))
	if n := strings.Count(kinds(got), "I"); n != 2000 {
		t.Errorf("%d rows came, wanted 2000", n)
	}
	if secured := s.Query(t, "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_replication USING (pid)"); len(secured) != 1 || secured[0][0] != "t" {
		t.Errorf("the connection's TLS reads %v", secured)
	}
	end := r.Received()
	r.Acknowledge(end)
	postgres.Eventually(t, "the slot to follow", func() bool { return s.slotLSN(t) == end })
}
