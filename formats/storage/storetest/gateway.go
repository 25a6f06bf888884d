package storetest

import (
	"errors"
	"testing"

	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/test/versitygw"
)

// The keys of the server that Gateway starts.
const (
	AccessKey = versitygw.AccessKey
	SecretKey = versitygw.SecretKey
)

// GatewayBucket is the bucket that Gateway makes.
const GatewayBucket = versitygw.Bucket

// Gateway starts versitygw, a real S3 server over a folder, with one bucket, for the life of a test. Without the binary
// the test is skipped.
func Gateway(t testing.TB) storage.S3Options {
	t.Helper()
	server, err := versitygw.Start(t.Context(), t.TempDir())
	if errors.Is(err, versitygw.ErrNoBinary) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		if t.Failed() {
			t.Logf("versitygw: %s", server.Log())
		}
	})
	return storage.S3Options{Endpoint: server.Endpoint, Region: versitygw.Region, AccessKey: AccessKey, SecretKey: SecretKey}
}
