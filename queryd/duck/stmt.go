package duck

import (
	"context"
	"fmt"

	bindings "github.com/duckdb/duckdb-go-bindings"
)

// Stmt is a prepared statement of one connection.
type Stmt struct {
	conn *Conn
	stmt bindings.PreparedStatement
}

// Prepare parses and binds one statement. It may read the footers of files.
func (c *Conn) Prepare(ctx context.Context, sql string) (*Stmt, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s := &Stmt{conn: c}
	var state bindings.State
	c.guard(ctx, func() { state = bindings.Prepare(c.conn, sql, &s.stmt) })
	if state == bindings.StateError {
		err := parseError(bindings.PrepareError(s.stmt))
		s.Close()
		return nil, ended(ctx, err)
	}
	return s, nil
}

// Close frees the statement. Its results must be closed before.
func (s *Stmt) Close() { bindings.DestroyPrepare(&s.stmt) }

// Column is one column of a result.
type Column struct {
	Name string
	Type Type
}

// Columns gives the columns of the result. A column whose type depends on an unbound parameter has type Invalid.
func (s *Stmt) Columns() []Column {
	columns := make([]Column, bindings.PreparedStatementColumnCount(s.stmt))
	for i := range columns {
		t := bindings.PreparedStatementColumnLogicalType(s.stmt, bindings.IdxT(i))
		columns[i] = Column{bindings.PreparedStatementColumnName(s.stmt, bindings.IdxT(i)), readType(t)}
		bindings.DestroyLogicalType(&t)
	}
	return columns
}

// Param is one parameter of a statement. Type is Invalid where DuckDB cannot tell it before a value is bound.
type Param struct {
	Name string
	Type Type
}

// Params gives the parameters in the order of their indexes, from 1.
func (s *Stmt) Params() []Param {
	params := make([]Param, bindings.NParams(s.stmt))
	for i := range params {
		index := bindings.IdxT(i + 1)
		params[i].Name = bindings.ParameterName(s.stmt, index)
		if t := bindings.ParamLogicalType(s.stmt, index); t.Ptr != nil {
			params[i].Type = readType(t)
			bindings.DestroyLogicalType(&t)
		}
	}
	return params
}

// Bind sets the value of the parameter with the index, from 1. The value is freed.
func (s *Stmt) Bind(index int, v Value) error {
	defer bindings.DestroyValue(&v.value)
	if bindings.BindValue(s.stmt, bindings.IdxT(index), v.value) == bindings.StateError {
		return parseError(bindings.PrepareError(s.stmt))
	}
	return nil
}

// Execute starts the statement; its result is computed while it is read (promise 6).
func (s *Stmt) Execute(ctx context.Context) (*Rows, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var pending bindings.PendingResult
	var state bindings.State
	var message string
	r := &Rows{conn: s.conn}
	s.conn.guard(ctx, func() {
		state = bindings.PendingPreparedStreaming(s.stmt, &pending)
		if state == bindings.StateError {
			message = bindings.PendingError(pending)
		} else if state = bindings.ExecutePending(pending, &r.result); state == bindings.StateError {
			message = bindings.ResultError(&r.result)
		}
	})
	bindings.DestroyPending(&pending)
	if state == bindings.StateError {
		r.Close()
		return nil, ended(ctx, parseError(message))
	}
	r.types = make([]Type, bindings.ColumnCount(&r.result))
	for i := range r.types {
		t := bindings.ColumnLogicalType(&r.result, bindings.IdxT(i))
		r.types[i] = readType(t)
		bindings.DestroyLogicalType(&t)
	}
	return r, nil
}

// ended prefers the reason why ctx ended over DuckDB's word for being interrupted.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w", cause)
	}
	return err
}
