// Package iceberg is a lake of Apache Iceberg tables with one writer.
//
// The writer keeps every table's metadata, live manifest entries and rows deleted by position in memory, so that a checkpoint
// reads nothing: it encodes all files of all tables, puts them at once, and then moves every table's pointer together
// with the pipeline's state in one SQL transaction of the catalog (promises 1, 2, 3). The cost of a checkpoint does not
// grow with those before it (promise 10): manifests are folded by size classes and old snapshots leave the metadata by
// the retention, pipeline-wide, so that every checkpoint that is kept is kept for all tables.
//
// Catalog tables:
//
//	iceberg_tables, iceberg_namespace_properties   the layout of Java's JDBC catalog and of PyIceberg
//	streambed_state         one row a pipeline: epoch, position, checkpoint, times, identity, uuid of the last attempt
//	streambed_tables        one row an incarnation of a table: pointer, head, schema, the pipeline's own state
//	streambed_checkpoints   the checkpoints that can be read, for time travel
//
// An incarnation that is being copied has its pointer in streambed_tables alone; publishing it makes or replaces the
// row in iceberg_tables.
package iceberg
