package stages

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// sqliteFull and postgresFull are what a catalog's database calls a full disk.
const sqliteFull, postgresFull = 13, "53100"

// explainFullDisk says what helps when a disk is full, of the warehouse, the catalog or the state folder; the error itself
// names the place. Others are given back as they are.
func explainFullDisk(err error) error {
	var sqlite interface{ Code() int }
	var postgres *pgconn.PgError
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
	case errors.As(err, &sqlite) && sqlite.Code()&0xff == sqliteFull: // the rest of the code tells the cause
	case errors.As(err, &postgres) && postgres.Code == postgresFull:
	default:
		return err
	}
	return fmt.Errorf("a disk is full, and the pipeline goes on by itself once there is space on it: %w", err)
}
