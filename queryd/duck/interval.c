// The scalar function that reads Postgres' ISO 8601 form of an interval ("P1Y2M3DT4H5M6.7S") into DuckDB's INTERVAL.
#include "live.h"
#include <string.h>

typedef struct _duckdb_function_info *duckdb_function_info;
typedef struct _duckdb_data_chunk *duckdb_data_chunk;
typedef struct _duckdb_vector *duckdb_vector;
typedef uint64_t idx_t;

extern idx_t duckdb_data_chunk_get_size(duckdb_data_chunk chunk);
extern duckdb_vector duckdb_data_chunk_get_vector(duckdb_data_chunk chunk, idx_t column);
extern void *duckdb_vector_get_data(duckdb_vector vector);
extern uint64_t *duckdb_vector_get_validity(duckdb_vector vector);
extern void duckdb_vector_ensure_validity_writable(duckdb_vector vector);
extern void duckdb_scalar_function_set_error(duckdb_function_info info, const char *error);

// DuckDB's string: up to 12 bytes in place, else 4 bytes of prefix and a pointer.
typedef struct {
  uint32_t length;
  char bytes[12];
} string;

static const char *content(const string *s) {
  if (s->length <= sizeof s->bytes) return s->bytes;
  const char *pointer;
  memcpy(&pointer, s->bytes + 4, sizeof pointer);
  return pointer;
}

typedef struct {
  int32_t months, days;
  int64_t micros;
} interval;

// read_interval reads the whole of s; false when it is not of the form.
static bool read_interval(const char *s, uint32_t n, interval *out) {
  const char *end = s + n;
  bool time = false;
  int64_t months = 0, days = 0;
  out->micros = 0;
  if (s == end || *s++ != 'P') return false;
  while (s < end) {
    if (*s == 'T') {
      if (time) return false;
      time = true;
      s++;
      continue;
    }
    bool negative = *s == '-';
    if (negative) s++;
    if (s == end || *s < '0' || *s > '9') return false;
    int64_t number = 0, fraction = 0, unit = 100000;
    while (s < end && *s >= '0' && *s <= '9') {
      if (number > 922337203685477579) return false;
      number = number * 10 + (*s++ - '0');
    }
    if (s < end && *s == '.') {
      for (s++; s < end && *s >= '0' && *s <= '9'; s++, unit /= 10) fraction += (*s - '0') * unit;
    }
    if (s == end) return false;
    char kind = *s++;
    if (negative) number = -number, fraction = -fraction;
    int64_t product = 0;
    if (!time) {
      if (fraction) return false;
      if (kind == 'Y' && number <= 1000000000 && number >= -1000000000) months += number * 12;
      else if (kind == 'M' && number <= 10000000000 && number >= -10000000000) months += number;
      else if (kind == 'W' && number <= 1000000000 && number >= -1000000000) days += number * 7;
      else if (kind == 'D' && number <= 10000000000 && number >= -10000000000) days += number;
      else return false;
      continue;
    }
    int64_t scale = kind == 'H' ? 3600000000 : kind == 'M' ? 60000000 : kind == 'S' ? 1000000 : 0;
    if (!scale || (fraction && kind != 'S')) return false;
    if (__builtin_mul_overflow(number, scale, &product) || __builtin_add_overflow(product, fraction, &product) ||
        __builtin_add_overflow(out->micros, product, &out->micros))
      return false;
  }
  if (months > INT32_MAX || months < INT32_MIN || days > INT32_MAX || days < INT32_MIN) return false;
  out->months = (int32_t)months;
  out->days = (int32_t)days;
  return true;
}

static void to_interval(duckdb_function_info info, duckdb_data_chunk in, duckdb_vector out) {
  idx_t n = duckdb_data_chunk_get_size(in);
  duckdb_vector vector = duckdb_data_chunk_get_vector(in, 0);
  string *strings = duckdb_vector_get_data(vector);
  uint64_t *valid = duckdb_vector_get_validity(vector);
  interval *results = duckdb_vector_get_data(out);
  uint64_t *out_valid = NULL;
  for (idx_t i = 0; i < n; i++) {
    if (valid && !((valid[i >> 6] >> (i & 63)) & 1)) {
      if (!out_valid) {
        duckdb_vector_ensure_validity_writable(out);
        out_valid = duckdb_vector_get_validity(out);
      }
      out_valid[i >> 6] &= ~((uint64_t)1 << (i & 63));
      memset(&results[i], 0, sizeof results[i]);
      continue;
    }
    string *s = &strings[i];
    if (!read_interval(content(s), s->length, &results[i])) {
      duckdb_scalar_function_set_error(info, "an interval in the lake is not of ISO 8601's form");
      return;
    }
  }
}

void *streambed_interval(void) { return (void *)to_interval; }
