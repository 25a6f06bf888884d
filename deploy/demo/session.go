package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// session is a connection to the source or to the lake's query server. Both speak the same protocol; values are taken as
// the text that a psql user would see.
type session struct {
	conn *pgconn.PgConn
}

func connect(ctx context.Context, url string) (*session, error) {
	conn, err := pgconn.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	return &session{conn}, nil
}

func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = s.conn.Close(ctx)
}

// query gives the rows of one statement and how long they took to arrive.
func (s *session) query(ctx context.Context, sql string) (rows [][]string, took time.Duration, err error) {
	began := time.Now()
	results, err := s.conn.Exec(ctx, sql).ReadAll()
	took = time.Since(began)
	if err != nil {
		return nil, took, fmt.Errorf("%s: %w", sql, err)
	}
	for _, row := range results[len(results)-1].Rows {
		texts := make([]string, len(row))
		for i, value := range row {
			if texts[i] = string(value); value == nil {
				texts[i] = "NULL"
			}
		}
		rows = append(rows, texts)
	}
	return rows, took, nil
}

// one gives the single value of a statement's single row.
func (s *session) one(ctx context.Context, sql string) (string, error) {
	rows, _, err := s.query(ctx, sql)
	if err != nil {
		return "", err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return "", fmt.Errorf("%s: %d rows where one value was expected", sql, len(rows))
	}
	return rows[0][0], nil
}

// run executes statements and drops their results.
func (s *session) run(ctx context.Context, sql string) error {
	_, err := s.conn.Exec(ctx, sql).ReadAll()
	return err
}
