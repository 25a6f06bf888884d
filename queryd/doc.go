// Package queryd serves a lake's tables to Postgres clients: the Postgres wire protocol outside, an embedded DuckDB
// that reads the lake's files inside.
//
// A session receives a statement, which sqltext classifies and DuckDB's own parser parses. Package rewrite lets through
// only what reads our tables (promise 12) and puts, for every table, an internal view of that table's version at the
// statement's checkpoint in its place: all tables of a statement at one checkpoint (promise 3). DuckDB computes the
// result while it is sent, so memory stays bounded whatever the client asks for and however slowly it reads (promise 6).
package queryd
