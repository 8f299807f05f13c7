#include "kernels/cpu/row_pieces.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// What is copied at once where elements come again: it stays in the first-level
// cache.
constexpr int64_t kRepeatBytes = 4096;

template <int kBytes>
void CopyRows(const char* from, int64_t step, int64_t rows, char* to) {
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(to + r * kBytes, from + r * step, kBytes);
  }
}

template <typename T>
void ScatterLoop(const char* from, int64_t n, int64_t stride, char* to) {
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(to + i * stride * static_cast<int64_t>(sizeof(T)),
                from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  }
}

}  // namespace

void GatherBytes(const void* from, int64_t bytes, int64_t stride, int64_t n,
                 void* to) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(n * bytes));
    return;
  }
  GatherOf(bytes)(from, stride, n, to);
}

void Repeat(char* out, int64_t bytes, int64_t n) {
  const int64_t all = n * bytes;
  for (int64_t done = bytes; done < all;) {
    const int64_t more = std::min({done, all - done, kRepeatBytes});
    // Not memcpy(): GCC makes a slow instruction of one that is so bounded.
    std::memmove(out + done, out, static_cast<size_t>(more));
    done += more;
  }
}

CopyRowsFn CopyRowsOf(int64_t bytes) {
  constexpr CopyRowsFn kFns[] = {
      CopyRows<8>,  CopyRows<12>, CopyRows<16>, CopyRows<20>, CopyRows<24>,
      CopyRows<28>, CopyRows<32>, CopyRows<36>, CopyRows<40>, CopyRows<44>,
      CopyRows<48>, CopyRows<52>, CopyRows<56>, CopyRows<60>, CopyRows<64>};
  const int64_t number = bytes / 4 - 2;
  if (bytes % 4 != 0 || number < 0) return nullptr;
  if (number >= static_cast<int64_t>(std::size(kFns))) return nullptr;
  return kFns[number];
}

void ScatterBytes(const char* from, int64_t bytes, int64_t n, int64_t stride,
                  char* to) {
  switch (bytes) {
    case 1:
      return ScatterLoop<uint8_t>(from, n, stride, to);
    case 4:
      return ScatterLoop<uint32_t>(from, n, stride, to);
    default:
      return ScatterLoop<uint64_t>(from, n, stride, to);
  }
}

}  // namespace mica::cpu
