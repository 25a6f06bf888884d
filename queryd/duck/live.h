#ifndef STREAMBED_LIVE_H
#define STREAMBED_LIVE_H
#include <stdbool.h>
#include <stdint.h>

#define STREAMBED_VERSIONS 65536
#define STREAMBED_BLOCK_BITS 16

// A file's deleted positions: one bit a row, in blocks of 65,536 rows; a block without deletes is NULL.
typedef struct {
  uint64_t blocks;
  uint64_t *words[];
} streambed_bitmap;

// The bitmaps of a table version's files, in the order of its file list; NULL for a file without deletes. The version
// does not own them.
typedef struct {
  uint64_t files;
  streambed_bitmap *bitmaps[];
} streambed_version;

void *streambed_live(void);
void *streambed_live_in_one(void);
void *streambed_interval(void);
void streambed_set_version(uint32_t slot, streambed_version *version);
streambed_bitmap *streambed_new_bitmap(uint64_t blocks);
uint64_t *streambed_new_block(streambed_bitmap *bitmap, uint64_t block);
void streambed_free_bitmap(streambed_bitmap *bitmap);
streambed_version *streambed_new_version(uint64_t files);
void streambed_set_bitmap(streambed_version *version, uint64_t file, streambed_bitmap *bitmap);
void streambed_free_version(streambed_version *version);
#endif
