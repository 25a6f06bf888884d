package oracle

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
	"github.com/streambed/streambed/lsn"
)

// books are the accounts and the ledger: what a view shows of them, or what the source's log says they were.
type books struct {
	a, b   map[int64]int64
	ledger map[int64]int64
}

func openingBooks() *books {
	k := &books{a: map[int64]int64{}, b: map[int64]int64{}, ledger: map[int64]int64{}}
	for i := range int64(accounts) {
		k.a[i+1], k.b[i+1] = opening, opening
	}
	return k
}

// equal tells where two differ; "" when nowhere.
func (k *books) difference(other *books) string {
	if maps.Equal(k.a, other.a) && maps.Equal(k.b, other.b) && maps.Equal(k.ledger, other.ledger) {
		return ""
	}
	var lines []string
	for name, pair := range map[string][2]map[int64]int64{"acct_a": {k.a, other.a}, "acct_b": {k.b, other.b}, "ledger": {k.ledger, other.ledger}} {
		ids := slices.AppendSeq(slices.Collect(maps.Keys(pair[0])), maps.Keys(pair[1]))
		slices.Sort(ids)
		for _, id := range slices.Compact(ids) {
			want, ok := pair[0][id]
			got, is := pair[1][id]
			if (want != got || ok != is) && len(lines) < 10 {
				lines = append(lines, fmt.Sprintf("%s %d: want %d (%t), is %d (%t)", name, id, want, ok, got, is))
			}
		}
	}
	return strings.Join(lines, "; ")
}

// readBooks reads the books at a view. The sums of every whole transaction are constant (promise 3).
func (l *lake) readBooks(ctx context.Context, view *formats.View) (*books, error) {
	k := &books{a: map[int64]int64{}, b: map[int64]int64{}, ledger: map[int64]int64{}}
	for name, into := range map[string]map[int64]int64{"acct_a": k.a, "acct_b": k.b, "ledger": k.ledger} {
		err := l.each(ctx, view, name, func(_ []types.Field, rec arrow.RecordBatch, row int) error {
			id := integer(rec.Column(0), row)
			if _, twice := into[id]; twice {
				return fmt.Errorf("id %d is there twice", id)
			}
			into[id] = integer(rec.Column(1), row)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	sum := int64(0)
	for _, x := range []map[int64]int64{k.a, k.b} {
		for _, v := range x {
			sum += v
		}
	}
	if sum != 2*accounts*opening {
		return nil, fmt.Errorf("checkpoint %d at %s shows half a transaction: the accounts' sum is %d, not %d", view.Checkpoint, view.Position, sum, 2*accounts*opening)
	}
	return k, nil
}

func integer(a arrow.Array, row int) int64 {
	switch a := a.(type) {
	case *array.Int32:
		return int64(a.Value(row))
	case *array.Int64:
		return a.Value(row)
	}
	panic("not a column of integers: " + a.DataType().String())
}

// journal is the order of commits, read from a slot of the test's own.
type journal struct{ transfers []entry }

// entry is a transfer and the end of the commit that it belongs to.
type entry struct {
	end                  lsn.LSN
	from, to, amount, id int64
}

// openJournal makes the slot; names of slots are the server's.
func openJournal(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "CREATE PUBLICATION journal"); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "SELECT pg_create_logical_replication_slot('journal_' || current_database(), 'pgoutput')")
	return err
}

// readJournal reads all messages of committed transactions, in the order of the commits.
func readJournal(ctx context.Context, conn *pgx.Conn) (*journal, error) {
	rows, err := conn.Query(ctx, `SELECT data FROM pg_logical_slot_peek_binary_changes('journal_' || current_database(), NULL, NULL,
		'proto_version', '1', 'publication_names', 'journal', 'messages', 'true')`)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, err
	}
	j := &journal{}
	begun := 0
	for _, m := range all {
		switch m[0] {
		case 'B':
			begun = len(j.transfers)
		case 'M': // flags, LSN, prefix, length, content
			prefix, content, _ := bytes.Cut(m[10:], []byte{0})
			if string(prefix) != "oracle" {
				continue
			}
			var e entry
			if _, err := fmt.Sscan(string(content[4:]), &e.from, &e.to, &e.amount, &e.id); err != nil {
				return nil, err
			}
			j.transfers = append(j.transfers, e)
		case 'C': // flags, commit LSN, end LSN
			end := lsn.LSN(binary.BigEndian.Uint64(m[10:]))
			for i := begun; i < len(j.transfers); i++ {
				j.transfers[i].end = end
			}
		}
	}
	return j, nil
}

// at gives the books as of a position: exactly the transactions whose commits end there or before.
func (j *journal) at(position lsn.LSN) *books {
	k := openingBooks()
	for _, e := range j.transfers {
		if e.end > position {
			break
		}
		k.a[e.from] -= e.amount
		k.b[e.to] += e.amount
		k.ledger[e.id] = e.amount
	}
	return k
}
