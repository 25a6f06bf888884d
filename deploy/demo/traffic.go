package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// pgbench's sizes for each unit of scale.
const accountsPerBranch, tellersPerBranch = 100_000, 10

// loadSQL makes and fills pgbench's four tables.
func loadSQL(scale int) string {
	return fmt.Sprintf(`
create table pgbench_branches(bid int primary key, bbalance int, filler char(88));
create table pgbench_tellers(tid int primary key, bid int, tbalance int, filler char(84));
create table pgbench_accounts(aid int primary key, bid int, abalance int, filler char(84));
create table pgbench_history(tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
insert into pgbench_branches select g, 0, '' from generate_series(1, %[1]d) g;
insert into pgbench_tellers select g, (g - 1) / %[2]d + 1, 0, '' from generate_series(1, %[1]d * %[2]d) g;
insert into pgbench_accounts select g, (g - 1) / %[3]d + 1, 0, '' from generate_series(1, %[1]d * %[3]d) g;
analyze;`, scale, tellersPerBranch, accountsPerBranch)
}

// The traffic: clients, and the pace of each.
const clients, pace = 4, 8 * time.Millisecond

// traffic is pgbench's transaction, made by several clients at a steady pace until stop is called.
type traffic struct {
	done  atomic.Int64
	stop  context.CancelFunc
	group *errgroup.Group
}

func startTraffic(ctx context.Context, url string) *traffic {
	ctx, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	t := &traffic{stop: stop, group: group}
	for n := range clients {
		group.Go(func() error { return t.client(ctx, url, rand.New(rand.NewPCG(uint64(n), 1))) })
	}
	return t
}

func (t *traffic) client(ctx context.Context, url string, random *rand.Rand) error {
	s, err := connect(ctx, url)
	if err != nil {
		return err
	}
	defer s.close()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		aid, tid, bid := 1+random.IntN(scale*accountsPerBranch), 1+random.IntN(scale*tellersPerBranch), 1+random.IntN(scale)
		delta := random.IntN(10_001) - 5_000
		// The statements of a transaction go to their end also when the traffic is stopped meanwhile.
		err := s.run(context.WithoutCancel(ctx), fmt.Sprintf(`begin;
update pgbench_accounts set abalance = abalance + %[4]d where aid = %[1]d;
update pgbench_tellers set tbalance = tbalance + %[4]d where tid = %[2]d;
update pgbench_branches set bbalance = bbalance + %[4]d where bid = %[3]d;
insert into pgbench_history(tid, bid, aid, delta, mtime) values (%[2]d, %[3]d, %[1]d, %[4]d, current_timestamp);
commit;`, aid, tid, bid, delta))
		if err != nil {
			return fmt.Errorf("the live traffic failed: %w", err)
		}
		t.done.Add(1)
	}
}

// end stops the traffic and waits for the transactions under way.
func (t *traffic) end() (transactions int64, err error) {
	t.stop()
	err = t.group.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return t.done.Load(), err
}
