package ducklake_test

import (
	"context"
	"testing"

	"github.com/streambed/streambed/formats/conformance"
	"github.com/streambed/streambed/formats/ducklake"
	"github.com/streambed/streambed/test/postgres"
)

// onPostgres gives lakes with their catalogs in fresh databases of a server.
func onPostgres(t testing.TB) func(testing.TB) ducklake.Config {
	t.Helper()
	server := postgres.ForTest(t)
	return func(t testing.TB) ducklake.Config {
		cfg := config(t)
		cfg.Catalog = server.Database(t).URL()
		return cfg
	}
}

func TestConformanceOnPostgres(t *testing.T) {
	config := onPostgres(t)
	conformance.Run(t, func(t testing.TB) *conformance.Setup { return setup(t, config(t)) })
}

func TestKeptCheckpointsReadRightAfterExpiryOnPostgres(t *testing.T) {
	keptReadRight(t, onPostgres(t))
}

func TestDuckDBsMaintenanceIsFollowedOnPostgres(t *testing.T) {
	maintenanceIsFollowed(t, onPostgres(t))
}

func TestDuckDBReadsEveryTypeExactlyOnPostgres(t *testing.T) {
	typesRead(t, onPostgres(t), everyType)
}

func TestPostgresCatalogIsMadeByManyAtOnce(t *testing.T) {
	cfg := onPostgres(t)(t)
	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			l, err := ducklake.Open(context.Background(), cfg)
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
