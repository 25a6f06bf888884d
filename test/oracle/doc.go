// Package oracle proves the pipeline against Postgres itself: random transactions and schema changes by several sessions
// run on a real server while a pipeline of random settings follows it, is stopped, killed and robbed of its local state.
// At rest every table of the lake must equal the source's, and at any moment a reader must see exactly the transactions
// up to the checkpoint's position (design, promises 1 to 4 and 7).
package oracle
