// Package endtoend tries the built daemon as a user would: as a process, on a real Postgres, asked over its query server.
// What it proves are the promises that only a process can break: that a kill at any point loses and doubles nothing, that
// a second daemon does no harm, that a stop is clean.
package endtoend
