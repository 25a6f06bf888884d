package endtoend

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"
)

// tables are those that traffic works on: two with money that moves between them, one whose keys move and whose rows go,
// and one without a key, in which a row taken twice would show.
const tables = `
create table a(id int primary key, x int);
create table b(id int primary key, x int);
create table o(id bigint primary key, k int, note text);
create table log(id bigint, note text);
insert into a select g, 1000 from generate_series(1, 50) g;
insert into b select g, 1000 from generate_series(1, 50) g;`

// all are the tables' names.
var all = []string{"public.a", "public.b", "public.o", "public.log"}

// traffic is whole transactions by several sessions on a pipeline's source.
type traffic struct {
	t     *testing.T
	stop  context.CancelFunc
	group *errgroup.Group
}

// clients is the number of sessions.
const clients = 3

// traffic starts; it goes on until end. The seed decides the transactions of every session, not how they interleave.
func (p *pipeline) traffic(seed uint64) *traffic {
	p.t.Logf("traffic with seed %d", seed)
	ctx, stop := context.WithCancel(p.t.Context())
	group, ctx := errgroup.WithContext(ctx)
	for session := range clients {
		random := rand.New(rand.NewPCG(seed, uint64(session)))
		group.Go(func() error { return transactions(ctx, p.source.URL(), seed*100+uint64(session), random) })
	}
	return &traffic{p.t, stop, group}
}

// end stops the traffic between two transactions of each session.
func (t *traffic) end() {
	t.t.Helper()
	t.stop()
	if err := t.group.Wait(); err != nil {
		t.t.Fatalf("the source's own traffic failed: %v", err)
	}
}

// transactions works until ctx ends. Keys of o and log are base and a counter, so that sessions never meet.
func transactions(ctx context.Context, url string, base uint64, random *rand.Rand) error {
	conn, err := pgconn.Connect(ctx, url)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	work := context.WithoutCancel(ctx)
	defer conn.Close(work)
	// A pace, so that there is as much to compare on a fast machine as on a slow one.
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for n := 1; ctx.Err() == nil; n++ {
		key := base*1_000_000_000 + uint64(n)*10
		sql := fmt.Sprintf(`begin;
update a set x = x - %[1]d where id = %[2]d; update b set x = x + %[1]d where id = %[3]d;
insert into o values (%[4]d, %[1]d, 'new'); insert into log values (%[4]d, 'n%[1]d');`, 1+random.IntN(9), 1+random.IntN(50), 1+random.IntN(50), key)
		switch n % 5 {
		case 1: // a key moves, and its old place is taken in the same transaction
			sql += fmt.Sprintf("update o set id = id + 1 where id = %[1]d; insert into o values (%[1]d, 0, 'again'); insert into log values (%[1]d, 'again');", key)
		case 2:
			sql += fmt.Sprintf("update o set note = note || '!' where id = %d;", key-10)
		case 3: // made and gone again within one transaction
			sql += fmt.Sprintf("insert into o values (%[1]d, 1, 'gone'); delete from o where id = %[1]d;", key+5)
		}
		end := "commit;"
		if n%11 == 0 {
			end = "rollback;"
		}
		// Rows of a and b are taken in the order of the statements, so sessions may deadlock on them only by a pair of
		// swapped ids within one table, and each takes one row a table: they cannot.
		if _, err := conn.Exec(work, sql+end).ReadAll(); err != nil {
			return err
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
		}
	}
	return nil
}
