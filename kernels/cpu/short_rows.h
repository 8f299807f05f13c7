// Short rows written out one behind the other.

#ifndef MICA_KERNELS_CPU_SHORT_ROWS_H_
#define MICA_KERNELS_CPU_SHORT_ROWS_H_

#include <cstddef>
#include <cstdint>

namespace mica::cpu {

// A call, or the begin of a loop, for each row of up to so many elements takes
// longer than to write them out; of 16 bits, which vectors convert, of more.
inline constexpr int64_t kLongestShortRow = 40, kLongestShortRowOfHalves = 80;
inline constexpr size_t kMostShortRowOperands = 8;
// Bytes of an operand that are written out at once: those of all operands stay
// in the first-level cache.
inline constexpr int64_t kShortRowsTile = 2048;

// `rows` rows of `n` elements. Steps are in bytes.
struct ShortRows {
  const char* at = nullptr;
  int64_t row_step = 0, step = 0;
  int64_t n = 0, rows = 0;

  bool IsDense(int64_t bytes) const {
    return step == bytes && (rows == 1 || row_step == n * bytes);
  }
};

// Writes them to dense memory, of elements of 1, 2, 4 or 8 bytes.
void WriteOut(const ShortRows& from, int64_t bytes, char* to);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_SHORT_ROWS_H_
