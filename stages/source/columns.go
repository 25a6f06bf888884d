package source

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ColumnIdentity is what tells a column from another one of its name.
type ColumnIdentity struct {
	Attnum int16
	Type   uint32 // pg_type's oid
	Typmod int32
}

// Columns gives the columns that the catalog shows of a table now, by name, published or not; none when the table is gone.
// It blocks for one small query.
func Columns(ctx context.Context, conn *pgx.Conn, table uint32) (map[string]ColumnIdentity, error) {
	rows, err := conn.Query(ctx, `SELECT attname, attnum, atttypid, atttypmod FROM pg_attribute
		WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped`, table)
	if err != nil {
		return nil, fmt.Errorf("columns of the table with oid %d cannot be read: %w", table, err)
	}
	columns := map[string]ColumnIdentity{}
	var name string
	var c ColumnIdentity
	_, err = pgx.ForEachRow(rows, []any{&name, &c.Attnum, &c.Type, &c.Typmod}, func() error {
		columns[name] = c
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("columns of the table with oid %d cannot be read: %w", table, err)
	}
	return columns, nil
}

// LastAttnum reads Table.LastAttnum anew; 0 when the table is gone. It blocks for one small query.
func LastAttnum(ctx context.Context, conn *pgx.Conn, table uint32) (int16, error) {
	var last int16
	err := conn.QueryRow(ctx, "SELECT COALESCE((SELECT relnatts FROM pg_class WHERE oid = $1), 0)", table).Scan(&last)
	if err != nil {
		return 0, fmt.Errorf("columns of the table with oid %d cannot be counted: %w", table, err)
	}
	return last, nil
}
