// Moves pieces of rows, of elements of 1 to 8 bytes.

#ifndef MICA_KERNELS_CPU_ROW_PIECES_H_
#define MICA_KERNELS_CPU_ROW_PIECES_H_

#include <cstdint>

namespace mica::cpu {

// n elements that lie `stride` elements apart, one behind the other.
void GatherBytes(const void* from, int64_t bytes, int64_t stride, int64_t n,
                 void* to);
// n elements to places `stride` elements apart.
void ScatterBytes(const char* from, int64_t bytes, int64_t n, int64_t stride,
                  char* to);

// The first of n elements again and again.
void Repeat(char* out, int64_t bytes, int64_t n);

// `rows` rows that lie `step` bytes apart, one behind the other.
using CopyRowsFn = void (*)(const char* from, int64_t step, int64_t rows,
                            char* to);
// For rows of so many bytes, in which a copy is a few instructions; null for
// others. A copy of a size that isn't known is a call for each row.
CopyRowsFn CopyRowsOf(int64_t bytes);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_ROW_PIECES_H_
