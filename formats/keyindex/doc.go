// Package keyindex answers at which positions of its data files the lake holds the row with a key. It is one Pebble
// database per pipeline in a local folder, shared by all tables.
//
// It is a multimap: a key may have several positions at a time, as twins of a table without a key do, and rows that
// turn up in two chunks of a copy.
//
// It is rebuildable from the data files, may run behind the lake and never ahead of it: the effects of cuts whose
// checkpoint is not durable yet stay in memory, as staged changes over the durable part, and each table stores the lake
// sequence number up to which the durable part is complete. Only ingested entries may be ahead of the lake, since a copy
// ingests its chunks before they are published; a caller must ignore positions in files that are not live.
//
// # Keys
//
// Keys are encoded by the caller and compared as bytes. They are expected to be self-delimiting (no key is a prefix of
// another), so that a scan by prefix meets one key's entries only. Keys that are not stay right, they only cost more.
// Keys of LongKey bytes or more are held by a digest.
//
// # Crashes
//
// Writes do not wait for the disk. After a kill or a power failure the database is as it was after one of the earlier
// batches, and since a change's sequence number is in its last batch, everything up to [Table.Sequence] is there.
package keyindex
