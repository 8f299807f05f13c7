// Elements that fill short rows.

#include <cstdint>

#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// By whole vectors: what is too much the next row writes over.
template <typename T>
void Spread(const void* from, int64_t stride_bytes, int64_t n, int64_t rows,
            void* to) {
  constexpr int64_t kElements = kSpreadSlack / sizeof(T);
  const char* in = static_cast<const char*>(from);
  T* out = static_cast<T*>(to);
  for (int64_t row = 0; row < rows; ++row, in += stride_bytes, out += n) {
    const T element = *reinterpret_cast<const T*>(in);
    for (int64_t i = 0; i < n; i += kElements) {
      MICA_UNROLL
      for (int64_t j = 0; j < kElements; ++j) out[i + j] = element;
    }
  }
}

}  // namespace

void FillSpread(SimdTable& table) {
  table.spread32 = Spread<uint32_t>;
  table.spread64 = Spread<uint64_t>;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
