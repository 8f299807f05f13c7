// Elements that fill short rows.

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

MICA_INLINE __m256i SetAll(uint32_t element) {
  return _mm256_set1_epi32(static_cast<int>(element));
}
MICA_INLINE __m256i SetAll(uint64_t element) {
  return _mm256_set1_epi64x(static_cast<int64_t>(element));
}

// By whole vectors: what is too much the next row writes over.
template <typename T>
void Spread(const void* from, int64_t stride_bytes, int64_t n, int64_t rows,
            void* to) {
  constexpr int64_t kElements = sizeof(__m256i) / sizeof(T);
  const char* in = static_cast<const char*>(from);
  T* out = static_cast<T*>(to);
  for (int64_t row = 0; row < rows; ++row, in += stride_bytes, out += n) {
    const __m256i all = SetAll(*reinterpret_cast<const T*>(in));
    for (int64_t i = 0; i < n; i += kElements) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), all);
    }
  }
}

}  // namespace

void FillSpread(SimdTable& table) {
  table.spread32 = Spread<uint32_t>;
  table.spread64 = Spread<uint64_t>;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
