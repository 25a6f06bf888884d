// Package rewrite checks and changes the parse tree of a query, as DuckDB's own parser gives it, before it runs: it lets
// through only what reads our tables (promise 12), puts each table's version at the statement's checkpoint in its place,
// and makes names and functions mean what they mean in Postgres.
package rewrite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
)

// Error is a query that is not run. Position is a byte offset in the statement, -1 when unknown.
type Error struct {
	State    string
	Message  string
	Hint     string
	Position int
}

func (e *Error) Error() string { return e.Message }

func refuse(state string, n Node, format string, args ...any) *Error {
	return &Error{State: state, Message: fmt.Sprintf(format, args...), Position: place(n)}
}

// At is the AT clause of a table reference.
type At struct {
	// Unit is TIMESTAMP or VERSION; Expression has been checked and reads no table.
	Unit       string
	Expression Node
	Position   int
}

// Relation is what stands for a table.
type Relation struct {
	// Schema and Name are of the engine's view.
	Schema, Name string
	// Columns are the table's, in order.
	Columns []Column
	// OID is what the system column tableoid shows; 0 where there is none.
	OID uint32
	// Query, where it is set, stands for the table instead of a view: a query that is trusted as it is.
	Query Node
}

// Column is a relation's column, and where it comes from.
type Column struct {
	Name   string
	Origin any
}

// Environment is what a query is read in. Its methods may be called in any order.
type Environment interface {
	// Table gives the view that stands for a table; at is nil without an AT clause. schema is "" when none was written.
	Table(schema, name string, at *At) (Relation, error)
	// TableFunction gives the view that stands for a call of one of our own table functions (streambed.snapshots('t')).
	TableFunction(schema, name string, args []Node) (Relation, error)
	// Expand gives an expression that a call of a function is short for, with the arguments in it as they are written; nil
	// for other functions. It is checked like any expression.
	Expand(schema, name string, args []Node) Node
	// Function gives what stands for a call, or nil to leave it: session functions such as current_database().
	Function(schema, name string, args []Node) (Node, error)
	// Parameter gives what stands for parameter $n, or nil to leave it.
	Parameter(n int) (Node, error)
	// Literal gives what stands for a string constant that is compared with a column of the origin, or nil to leave it.
	Literal(origin any, value string) Node
	// Numeric is the origin of a value that was cast to numeric without precision.
	Numeric() any
	// Type gives what stands for a type name that DuckDB does not know, or nil to leave it.
	Type(schema, name string) Node
}

// Query is a checked query.
type Query struct {
	tree Node
	text string
	env  Environment
	// tables are the plain names of the tables read, as schema and name, to understand schema.table.column.
	qualified map[[2]string]bool
	// relations are what stands for tables, by view.
	relations map[[2]string]*Relation
	// froms are the tables of the queries around the place of the walk, the innermost last.
	froms [][]relationColumns
}

// Parsed is json_serialize_sql's answer for one query.
type Parsed struct {
	root, statement Node
	// parameters are those left after Rewrite, in order.
	parameters []int
}

// Parse reads json_serialize_sql's answer. An error in it is given as *Error.
func Parse(answer []byte) (*Parsed, error) {
	var root Node
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.UseNumber()
	if err := decoder.Decode(&root); err != nil {
		return nil, fmt.Errorf("reading DuckDB's parse tree: %w", err)
	}
	if failed, _ := root["error"].(bool); failed {
		e := &Error{State: "42601", Message: text(root, "error_message"), Position: -1}
		if p, err := strconv.Atoi(text(root, "position")); err == nil {
			e.Position = p
		}
		if text(root, "error_type") != "parser" {
			// The parser took it, but it is no SELECT.
			e.State, e.Message = "25006", "only queries can be run: this server only reads"
		}
		return nil, e
	}
	statements := list(root, "statements")
	if len(statements) != 1 {
		return nil, &Error{State: "42601", Message: "one statement was expected", Position: -1}
	}
	statement, ok := statements[0].(Node)
	if !ok || child(statement, "node") == nil {
		return nil, &Error{State: "0A000", Message: "DuckDB's parse tree has a form that is not known", Position: -1}
	}
	return &Parsed{root: root, statement: statement}, nil
}

// Rewrite checks and changes the tree in place. text is the statement that was parsed, as Fold wrote it.
//
// It gives the columns of the result as far as they are plain columns of tables; nil when their number is not known. The
// caller checks them against the names that the result really has.
func (p *Parsed) Rewrite(text string, env Environment) ([]Column, error) {
	q := &Query{tree: child(p.statement, "node"), text: text, env: env, qualified: map[[2]string]bool{}, relations: map[[2]string]*Relation{}}
	if err := q.query(q.tree, nil); err != nil {
		return nil, err
	}
	p.renumber(q.tree)
	return q.origins(q.tree, nil), nil
}

// JSON gives the tree for json_deserialize_sql.
func (p *Parsed) JSON() ([]byte, error) { return json.Marshal(p.root) }

// renumber gives the parameters that are left the numbers from 1 without gaps: DuckDB describes no others.
func (p *Parsed) renumber(tree Node) {
	kept := map[string]bool{}
	collectParameters(tree, kept)
	p.parameters = nil
	for k := range kept {
		if number, err := strconv.Atoi(k); err == nil {
			p.parameters = append(p.parameters, number)
		}
	}
	slices.Sort(p.parameters)
	dense, entries := map[string]string{}, make([]any, 0, len(p.parameters))
	for i, number := range p.parameters {
		dense[strconv.Itoa(number)] = strconv.Itoa(i + 1)
		entries = append(entries, Node{"key": strconv.Itoa(i + 1), "value": i + 1})
	}
	p.statement["named_param_map"] = entries
	rename := func(n Node) {
		if text(n, "class") == "PARAMETER" {
			n["identifier"] = dense[text(n, "identifier")]
		}
	}
	each(tree, rename)
}

// Parameters gives the parameters that are left, by DuckDB's index of them (from 0 here).
func (p *Parsed) Parameters() []int { return p.parameters }

// each calls f for every node of a tree once; a node that stands in two places is seen once.
func each(tree any, f func(Node)) {
	seen := map[uintptr]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case Node:
			if id := reflect.ValueOf(v).Pointer(); seen[id] {
				return
			} else {
				seen[id] = true
			}
			f(v)
			for _, c := range v {
				walk(c)
			}
		case []any:
			for _, c := range v {
				walk(c)
			}
		}
	}
	walk(tree)
}

func collectParameters(v any, into map[string]bool) {
	switch v := v.(type) {
	case Node:
		if text(v, "class") == "PARAMETER" {
			into[text(v, "identifier")] = true
		}
		for _, c := range v {
			collectParameters(c, into)
		}
	case []any:
		for _, c := range v {
			collectParameters(c, into)
		}
	}
}

// scope is the chain of common table expressions visible at a place.
type scope struct {
	name  string
	outer *scope
}

func (s *scope) has(name string) bool {
	for ; s != nil; s = s.outer {
		if s.name == name {
			return true
		}
	}
	return false
}
