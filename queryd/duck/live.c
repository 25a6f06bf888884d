// The scalar function that leaves deleted rows out of a scan, and the registry of table versions it looks into.
// Only the few prototypes of DuckDB's C interface that are used here are declared; their symbols come with the
// bindings' library.
#include "live.h"
#include <stdlib.h>
#include <string.h>

typedef struct _duckdb_function_info *duckdb_function_info;
typedef struct _duckdb_data_chunk *duckdb_data_chunk;
typedef struct _duckdb_vector *duckdb_vector;
typedef uint64_t idx_t;

extern idx_t duckdb_data_chunk_get_size(duckdb_data_chunk chunk);
extern duckdb_vector duckdb_data_chunk_get_vector(duckdb_data_chunk chunk, idx_t column);
extern void *duckdb_vector_get_data(duckdb_vector vector);
extern void duckdb_scalar_function_set_error(duckdb_function_info info, const char *error);

static _Atomic(streambed_version *) versions[STREAMBED_VERSIONS];

void streambed_set_version(uint32_t slot, streambed_version *version) { versions[slot] = version; }

// keep_rows tells for n rows of one file which are not deleted. Rows of a chunk that nothing has been filtered from
// before are consecutive: then the words are read once for 64 rows, or not at all where none is deleted.
static void keep_rows(const streambed_bitmap *bitmap, const int64_t *row, idx_t n, bool *keep) {
  if (!bitmap) {
    memset(keep, 1, n);
    return;
  }
  for (idx_t i = 0; i < n;) {
    uint64_t block = (uint64_t)row[i] >> STREAMBED_BLOCK_BITS;
    const uint64_t *words = block < bitmap->blocks ? bitmap->words[block] : NULL;
    uint64_t bit = (uint64_t)row[i] & ((1u << STREAMBED_BLOCK_BITS) - 1);
    idx_t left = (1u << STREAMBED_BLOCK_BITS) - bit; // rows until the block ends
    idx_t run = n - i < left ? n - i : left;
    if (row[i + run - 1] - row[i] != (int64_t)(run - 1)) {
      keep[i] = !words || !((words[bit >> 6] >> (bit & 63)) & 1);
      i++;
      continue;
    }
    if (!words) {
      memset(keep + i, 1, run);
    } else {
      for (idx_t k = 0; k < run; k++) keep[i + k] = !((words[(bit + k) >> 6] >> ((bit + k) & 63)) & 1);
    }
    i += run;
  }
}

static streambed_version *find_version(duckdb_function_info info, uint32_t slot) {
  streambed_version *version = slot < STREAMBED_VERSIONS ? versions[slot] : NULL;
  if (!version) duckdb_scalar_function_set_error(info, "the version of the table is gone");
  return version;
}

// live(slot, file_index, file_row_number): true for a row that is not deleted. The slot is the same for all rows of a
// chunk, so the first one is read. A version is unregistered only when no statement uses it; a slot without one is an
// error and never a wrong answer.
static void live(duckdb_function_info info, duckdb_data_chunk in, duckdb_vector out) {
  idx_t n = duckdb_data_chunk_get_size(in);
  if (n == 0) return;
  uint32_t *slot = duckdb_vector_get_data(duckdb_data_chunk_get_vector(in, 0));
  uint64_t *file = duckdb_vector_get_data(duckdb_data_chunk_get_vector(in, 1));
  int64_t *row = duckdb_vector_get_data(duckdb_data_chunk_get_vector(in, 2));
  bool *keep = duckdb_vector_get_data(out);
  streambed_version *version = find_version(info, slot[0]);
  if (!version) return;
  for (idx_t i = 0; i < n;) {
    idx_t end = i + 1;
    while (end < n && file[end] == file[i]) end++;
    keep_rows(file[i] < version->files ? version->bitmaps[file[i]] : NULL, row + i, end - i, keep + i);
    i = end;
  }
}

// live_in_one(slot, file_row_number) is live for a version of one file. DuckDB evaluates a filter on a single column
// within the scan, where it costs far less than after it.
static void live_in_one(duckdb_function_info info, duckdb_data_chunk in, duckdb_vector out) {
  idx_t n = duckdb_data_chunk_get_size(in);
  if (n == 0) return;
  uint32_t *slot = duckdb_vector_get_data(duckdb_data_chunk_get_vector(in, 0));
  int64_t *row = duckdb_vector_get_data(duckdb_data_chunk_get_vector(in, 1));
  streambed_version *version = find_version(info, slot[0]);
  if (version) keep_rows(version->files == 1 ? version->bitmaps[0] : NULL, row, n, duckdb_vector_get_data(out));
}

void *streambed_live_in_one(void) { return (void *)live_in_one; }

void *streambed_live(void) { return (void *)live; }

streambed_bitmap *streambed_new_bitmap(uint64_t blocks) {
  streambed_bitmap *b = calloc(1, sizeof *b + blocks * sizeof *b->words);
  if (b) b->blocks = blocks;
  return b;
}

uint64_t *streambed_new_block(streambed_bitmap *bitmap, uint64_t block) {
  return bitmap->words[block] = calloc(1u << (STREAMBED_BLOCK_BITS - 6), sizeof(uint64_t));
}

void streambed_free_bitmap(streambed_bitmap *bitmap) {
  for (uint64_t i = 0; i < bitmap->blocks; i++) free(bitmap->words[i]);
  free(bitmap);
}

streambed_version *streambed_new_version(uint64_t files) {
  streambed_version *v = calloc(1, sizeof *v + files * sizeof *v->bitmaps);
  if (v) v->files = files;
  return v;
}

void streambed_set_bitmap(streambed_version *version, uint64_t file, streambed_bitmap *bitmap) {
  version->bitmaps[file] = bitmap;
}

void streambed_free_version(streambed_version *version) { free(version); }
