// Package source is everything Streambed asks of the source Postgres outside the replication stream and the copy:
// connections with pinned settings, discovery of tables, publications, the slot, the advisory lock, positions, and the
// findings of check.
//
// It keeps promise 5: it never alters a user's table, takes no lock above SHARE UPDATE EXCLUSIVE, and takes that one
// only with a lock_timeout. Every identifier that goes into SQL is quoted.
//
// Postgres 13 to 18 are supported. A connection belongs to its caller; the functions that take one use it alone until
// they return, and leave no transaction open on it.
package source
