package stages_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages"
	"github.com/streambed/streambed/test/postgres"
)

// smallest is the least that the configuration lets a pipeline have, in bytes.
const smallest = 64 << 20 / 3

// started runs a pipeline of the smallest memory over a store in which calls can be made to go wrong.
func started(t *testing.T, database *postgres.Database) (*stages.Pipeline, *storage.Faulty) {
	t.Helper()
	folder := t.TempDir()
	local, err := storage.NewLocal("file://" + folder + "/warehouse")
	if err != nil {
		t.Fatal(err)
	}
	store := storage.NewFaulty(local)
	lake, err := iceberg.Open(t.Context(), iceberg.Config{Pipeline: "memory", Store: store, Catalog: "sqlite://" + folder + "/catalog.db", Mode: iceberg.DeletionVectors, Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	p, err := stages.New(stages.Options{Pipeline: "memory", Source: stages.SourceOptions{URL: database.URL(), Slot: "memory_" + database.Name, Publication: "memory", Tables: []string{"public.*"}},
		Lake: lake, Store: store, StateDir: folder + "/state", Memory: smallest, Flush: stages.FlushOptions{Interval: 200 * time.Millisecond},
		UploadWorkers: 2, CopyWorkers: 2, InFlight: 2, TargetFileSize: 64 << 20, Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = lake.Close()
	})
	return p, store
}

// TestOneTransactionOverManyTablesPassesASmallBudget: rows of many tables in turn, three times what may be held, and a
// store that does not answer for longer than the source waits for a reader. The transaction comes before its commit from
// one server, at it from the other.
func TestOneTransactionOverManyTablesPassesASmallBudget(t *testing.T) {
	const tables, rounds = 60, 130
	for name, memory := range map[string]string{"before its commit": "64kB", "at its commit": "1GB"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := postgres.StartForTest(t, "logical_decoding_work_mem="+memory, "wal_sender_timeout=1500ms").Database(t)
			var schema, rows strings.Builder
			for i := range tables {
				fmt.Fprintf(&schema, "CREATE TABLE t%d (id int PRIMARY KEY, v text);", i)
				fmt.Fprintf(&rows, "INSERT INTO t%d VALUES (i, repeat(md5(i::text), 60));", i)
			}
			database.Exec(t, schema.String())
			p, store := started(t, database)
			postgres.Eventually(t, "the tables to be live", func() bool { return p.Status().Ready && len(p.Status().Tables) == tables })
			walsender := func() string {
				return fmt.Sprint(database.Query(t, "SELECT active_pid FROM pg_replication_slots"))
			}
			before := walsender()
			released := make(chan struct{})
			stall := &storage.Rule{Operations: []storage.Operation{storage.OpPut, storage.OpPutNew, storage.OpFile}, Contains: "/data/", Stall: released}
			store.Break(stall)
			database.Exec(t, fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP %s END LOOP; END $$", rounds, rows.String()))
			end, err := lsn.Parse(database.Query(t, "SELECT pg_current_wal_insert_lsn()")[0][0])
			if err != nil {
				t.Fatal(err)
			}
			postgres.Eventually(t, "the store to be waited for", func() bool { return store.Hits(stall) > 0 })
			since := database.Query(t, "SELECT clock_timestamp()")[0][0]
			postgres.Eventually(t, "the source's patience to be over twice", func() bool {
				if held := p.Status().MemoryUsed; held > smallest/2 { // a quarter is to be admitted, and a replay as much again
					t.Fatalf("%d bytes are held", held)
				}
				return database.Query(t, fmt.Sprintf("SELECT clock_timestamp() > '%s'::timestamptz + interval '3 s'", since))[0][0] == "t"
			})
			close(released)
			postgres.Eventually(t, "the lake to hold the transaction", func() bool { return p.Status().Committed >= end })
			if n := p.Status().Rows.Inserted; n != tables*rounds {
				t.Errorf("%d rows came, wanted %d", n, tables*rounds)
			}
			if got := p.Status().Streamed; (got.Transactions == 1) != (name == "before its commit") || (got.Spilled > 0) != (got.Transactions > 0) || got.Open != 0 {
				t.Errorf("of large transactions it tells %+v", got)
			}
			if after := walsender(); after != before {
				t.Errorf("the stream was broken meanwhile: walsender %s was %s", after, before)
			}
		})
	}
}
