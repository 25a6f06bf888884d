package queryd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/streambed/streambed/queryd/duck"
)

// lakeSchema is the engine's schema of table versions. No statement of a user can name it: every table in one is looked
// up among ours.
const lakeSchema = "streambed_lake"

// sessionSetup makes DuckDB's dialect Postgres' where it has a choice.
var sessionSetup = []string{
	"SET errors_as_json = true",
	"SET integer_division = true",
	"SET default_null_order = 'NULLS_LAST_ON_ASC_FIRST_ON_DESC'",
	"SET lambda_syntax = 'ENABLE_SINGLE_ARROW'",
	"SET TimeZone = 'UTC'",
}

func cacheFolder(o *Options) string { return filepath.Join(o.TempDir, "cache") }

// openDatabase opens DuckDB with the lake's folder and the cache's as the only places it can read.
func openDatabase(o *Options) (*duck.DB, error) {
	spill, cache := filepath.Join(o.TempDir, "spill"), cacheFolder(o)
	for _, dir := range []string{spill, cache} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("the query server's temporary folder: %w", err)
		}
	}
	directories := []string{cache}
	if o.Store != nil {
		// Only objects have a local path, the warehouse itself may have none.
		if local := o.Store.Local(o.Store.Warehouse() + "/object"); local != "" {
			directories = append(directories, filepath.Dir(local))
		}
	}
	db, err := duck.Open(duck.Config{Memory: o.Memory, Threads: o.Threads, TempDir: spill, TempLimit: o.TempLimit, Directories: directories, Setup: sessionSetup})
	if err != nil {
		return nil, err
	}
	if err := setUpDatabase(db); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

func setUpDatabase(db *duck.DB) error {
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := conn.Exec(ctx, "CREATE SCHEMA "+lakeSchema); err != nil {
		return fmt.Errorf("preparing the query engine: %w", err)
	}
	return nil
}
