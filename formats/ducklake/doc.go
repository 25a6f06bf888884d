// Package ducklake is a lake in the DuckLake 1.0 format with one writer, written by plain SQL: no extension is needed.
//
// A checkpoint that changes what readers see is one DuckLake snapshot of all tables. Its rows and the pipeline's own
// state move in one transaction of the catalog (promises 1, 2, 3), after every file that they name has been stored. The
// cost of a checkpoint does not grow with those before it (promise 10): it reads and writes the rows of the files that
// it touches.
//
// Deletes are positions. Each data file has at most one live delete file, which holds all of its deleted positions and
// is replaced when there are more: two live ones make DuckDB's reader return rows twice.
//
// Beside DuckLake's own tables the catalog holds:
//
//	streambed_state         one row a pipeline: epoch, position, checkpoint, times, identity, uuid of the last attempt
//	streambed_tables        one row an incarnation of a table: DuckLake table id, head, the pipeline's own state
//	streambed_files         files of incarnations that are being copied, which DuckLake readers must not see
//	streambed_checkpoints   the checkpoints that can be read, for time travel
//	streambed_history       one row for each kept snapshot of a visible incarnation
//	streambed_schemas       the formats.Schema of each schema version of an incarnation
//
// An incarnation that is being copied is unknown to DuckLake: its files and their deleted positions are rows of
// streambed_files until it is published, which registers them in one snapshot.
package ducklake
